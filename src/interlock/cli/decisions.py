"""One person's decision on one request, what they change about it, take back or say of it."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, exit_of_state
from interlock.cli.options import Parser, Run, finished, wants_json
from interlock.cli.output import exactly, say
from interlock.cli.values import json_value

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.approvals import Comment, Review
    from interlock.wire.jobs import Job


def declare_approve() -> Parser:
    """The options of `interlock approve`."""
    parser = Parser(
        "interlock approve",
        description="Approve one request, exactly as it is shown in the line that this prints.\n"
        "With --job-hash, only the version with this hash; after an edit the hash is required.",
        examples=("interlock approve job_… --job-hash sha256:… --reason 'matches the invoice'",),
    )
    parser.add_argument("id", metavar="ID", help="the job's id")
    parser.add_argument("--reason", help="why; the submitter sees it")
    parser.add_argument("--note", help="a note for other reviewers")
    binding(parser)
    return finished(parser, run_approve)


def declare_reject() -> Parser:
    """The options of `interlock reject`."""
    parser = Parser(
        "interlock reject",
        description="Reject one request. One rejection is enough.",
        examples=("interlock reject job_… --reason 'the amount is wrong' --code wrong_amount",),
    )
    parser.add_argument("id", metavar="ID", help="the job's id")
    parser.add_argument("--reason", required=True, help="why; the submitter sees it")
    parser.add_argument("--note", help="a note for other reviewers")
    parser.add_argument("--code", metavar="WORD", help="a word for programs, such as wrong_amount")
    binding(parser)
    return finished(parser, run_reject)


def declare_refresh() -> Parser:
    """The options of `interlock refresh`."""
    parser = Parser(
        "interlock refresh",
        description="Evaluate a request again under the policy in force. Its votes are cleared;\n"
        "the policy may allow it, deny it, or ask people again.",
        examples=("interlock refresh job_…",),
    )
    parser.add_argument("id", metavar="ID", help="the job's id")
    return finished(parser, run_refresh)


def declare_edit() -> Parser:
    """The options of `interlock edit`."""
    parser = Parser(
        "interlock edit",
        description="Change what is asked for: it gets a new hash, the policy looks again,\n"
        "votes are cleared, and the old version is kept.",
        examples=("interlock edit job_… --payload '{\"amount_cents\": 900}' --reason 'as agreed by phone'",),
    )
    parser.add_argument("id", metavar="ID", help="the job's id")
    parser.add_argument(
        "--payload", type=json_value, required=True, metavar="JSON|@FILE|-", help="the new payload"
    )
    parser.add_argument("--reason", required=True, help="why; it is kept with the old version")
    return finished(parser, run_edit)


def declare_withdraw() -> Parser:
    """The options of `interlock withdraw`."""
    parser = Parser(
        "interlock withdraw",
        description="Withdraw your own approval: while the request is pending, or within the grace period after\n"
        "it was approved. The request is then pending again, with the votes that remain.",
        examples=("interlock withdraw job_… --reason 'the wrong invoice'",),
    )
    parser.add_argument("id", metavar="ID", help="the job's id")
    parser.add_argument("--reason", required=True, help="why; it is kept in the audit log")
    return finished(parser, run_withdraw)


def declare_comment() -> Parser:
    """The options of `interlock comment`."""
    parser = Parser(
        "interlock comment",
        description="Comment on a request. Its submitter answers questions with comments, too.",
        examples=("interlock comment job_… 'the invoice arrived on Monday'",),
    )
    return _saying(parser, run_comment)


def declare_ask() -> Parser:
    """The options of `interlock ask`."""
    parser = Parser(
        "interlock ask",
        description="Ask the submitter of a request a question. The request stays pending, and the question is open\n"
        "until the submitter comments or the request is edited.",
        examples=("interlock ask job_… 'is this the second payment to them this week?'",),
    )
    return _saying(parser, run_ask)


def run_approve(args: Namespace) -> int:
    """Approve."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        seen = args.hash or shown_hash(client, args, args.id, "approving")
        review = client.approve(args.id, reason=args.reason, note=args.note, job_hash=seen)
    return _reviewed(args, review)


def run_reject(args: Namespace) -> int:
    """Reject."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        seen = args.hash or shown_hash(client, args, args.id, "rejecting")
        review = client.reject(args.id, args.reason, note=args.note, code=args.code, job_hash=seen)
    return _reviewed(args, review)


def run_refresh(args: Namespace) -> int:
    """Ask anew."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        return _asked_anew(args, client.refresh(args.id))


def run_edit(args: Namespace) -> int:
    """Ask for something else."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        return _asked_anew(args, client.edit(args.id, args.payload, reason=args.reason))


def run_withdraw(args: Namespace) -> int:
    """Withdraw an approval."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        return _reviewed(args, client.withdraw(args.id, args.reason))


def run_comment(args: Namespace) -> int:
    """Say something."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        return _commented(args, client.comment(args.id, args.text), "your comment is kept")


def run_ask(args: Namespace) -> int:
    """Ask something."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        return _commented(args, client.ask(args.id, args.text), "your question is open until it is answered")


def review_text(job_id: str, review: Review) -> str:
    """What a vote came to, in a sentence."""
    by = f" by {review.decided_by}" if review.decided_by else ""
    match review.outcome:
        case "approved":
            if review.grace_until:
                undo = f"until then: interlock withdraw {job_id} --reason '…'"
                return f"{job_id} is approved; it may run from {exactly(review.grace_until)} on; {undo}"
            return f"{job_id} is approved; it may run"
        case "withdrawn":
            return f"your approval of {job_id} is withdrawn ({review.votes} of {review.quorum}); it is pending again"
        case "rejected":
            return f"{job_id} is rejected; it will not run"
        case "vote_recorded":
            missing = (review.quorum or 1) - (review.votes or 0)
            return f"your approval is counted ({review.votes} of {review.quorum}); {missing} more needed"
        case "already_approved":
            return f"{job_id} was approved before{by}; nothing changed"
        case "already_rejected":
            return f"{job_id} was rejected before{by}; nothing changed"
        case other:
            return f"{job_id}: {other}"


def shown_hash(client: Interlock, args: Namespace, job_id: str, doing: str) -> str | None:
    """Say in a line what is decided on, and return its hash: the decision is about that and nothing else.

    None for an approval of what was edited, or whose rule requires the hash: a reviewer who looked before may have seen
    another one, so the service asks which.
    """
    from interlock.cli.approvals import is_to_be_named, summary

    job = client.get_job(job_id)
    if not wants_json(args):
        say(f"{doing} {summary(job)}")
    return None if doing == "approving" and is_to_be_named(job) else job.job_hash


def binding(parser: Parser) -> None:
    """The option that says which version is meant."""
    parser.add_argument(
        "--job-hash",
        dest="hash",
        metavar="SHA256",
        help="decide only the version with this hash, as `interlock approval ID` shows it; "
        "required to approve after an edit",
    )


def _saying(parser: Parser, run: Run) -> Parser:
    parser.add_argument("id", metavar="ID", help="the job's id")
    parser.add_argument("text", metavar="TEXT", help="what to say, at most 4,096 bytes")
    return finished(parser, run)


def _commented(args: Namespace, comment: Comment, done: str) -> int:
    from interlock.cli.connection import answer

    return answer(args, comment, lambda _: say(f"{done}; see it with: interlock approval {args.id}"))


def _reviewed(args: Namespace, review: Review) -> int:
    from interlock.cli.connection import answer

    return answer(args, review, lambda review: say(review_text(args.id, review)))


def _asked_anew(args: Namespace, job: Job) -> int:
    from interlock.cli.connection import answer
    from interlock.cli.job_page import say_submitted

    answer(args, job, say_submitted)
    outcome = exit_of_state(job.state)
    return Exit.DONE if outcome is Exit.WAITING else outcome  # asking anew is what was to be done
