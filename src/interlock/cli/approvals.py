"""`interlock approvals` and `approval`: requests that wait for people, and one request in full."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from shlex import quote
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.job_page import decision_text, say_payload, target_text, waiting_for
from interlock.cli.options import Noun, Parser, finished, paging
from interlock.cli.output import (
    Cell,
    Table,
    counted,
    exactly,
    listed,
    one_line,
    painted,
    pretty,
    safe,
    safe_lines,
    say,
    say_fields,
    state_cell,
    when,
)

if TYPE_CHECKING:
    from interlock.wire.approvals import ApprovalItem, ApprovalRequest, Comment
    from interlock.wire.jobs import Approval, Evidence, Job, Revision, Vote


_SUMMARY_MAX = 300


def say_approvals(jobs: Sequence[ApprovalItem]) -> None:
    """A table of requests."""
    (
        Table((job, job.approval) for job in jobs if job.approval is not None)
        .column("ID", lambda asked: asked[0].id)
        .column("STATE", lambda asked: state_cell(asked[1].state))
        .column("TOPIC", lambda asked: asked[0].topic, flexible=True)
        .column("ENV", lambda asked: asked[0].env or "-", flexible=True, optional=True)
        .column("BY", lambda asked: asked[0].submitted_by or "-", flexible=True, optional=True)
        .column("VOTES", lambda asked: _votes(*asked), optional=True)
        .column(
            "WHO DECIDES", lambda asked: listed(asked[1].groups, "any reviewer"), flexible=True, optional=True
        )
        .column("ASKED", lambda asked: when(asked[1].requested_at), optional=True)
        .column("ENDS", lambda asked: when(asked[1].expires_at) if asked[1].state == "pending" else "-")
        .say()
    )


def say_approval(request: ApprovalRequest) -> None:
    """Everything needed to decide, and the commands to do it."""
    say_request(request)
    _say_next(request)


def say_request(request: ApprovalRequest) -> None:
    """Everything needed to decide."""
    job, approval, edit = request.job, request.approval, _last_edit(request.job)
    say(painted(safe(job.topic), "bold"), "")
    say_fields(
        [
            ("state", Cell(_state(request), state_cell(request.state).style)),
            ("asked by", f"{_submitter(request)}, {when(approval.requested_at)}"),
            ("env", safe(job.env or "")),
            ("channel", safe(job.channel or "")),
            ("labels", listed([f"{name}={value}" for name, value in job.labels.items()], "")),
            ("risk", listed(job.risk, "")),
            ("priority", "" if job.priority == "normal" else job.priority),
            ("target", target_text(job)),
            ("why asked", decision_text(job.decision)),
            ("who decides", _who(approval)),
            ("ends", f"{when(approval.expires_at)} ({exactly(approval.expires_at)})"),
            ("escalates", _escalates(request)),
            ("who can", _eligible(request)),
            ("looking now", listed([each.principal for each in request.viewers if each.here], "")),
            ("taken by", listed(request.takers, "")),
            ("grace", _grace(approval)),
            ("on approve", request.on_approve or ""),
            ("edited", _edited(edit)),
            ("asked anew", f"this is round {approval.round}" if approval.round > 1 else ""),
        ]
    )
    say_payload(request.payload)
    _say_payload_before(edit)
    _say_evidence(job.evidence)
    _say_votes(approval.votes)
    _say_comments(request.comments, request.comments_total)
    _say_drift(request)
    _say_people(request)


def _submitter(request: ApprovalRequest) -> str:
    """Who asked, and for whom."""
    acts_for = f" for {safe(request.submitted_for)}" if request.submitted_for else ""
    return f"{safe(request.job.submitted_by or '-')}{acts_for}"


def _escalates(request: ApprovalRequest) -> str:
    """When others may decide, too, and who."""
    if request.next_escalation_at is None:
        return ""
    return f"{when(request.next_escalation_at)}, to {listed(request.next_escalation_groups)}"


def _eligible(request: ApprovalRequest) -> str:
    """The names of those who may decide, as far as they are told."""
    more = (request.people_able or 0) - len(request.eligible)
    names = listed(request.eligible, "")
    return f"{names} and {more} more" if names and more > 0 else names


def too_few_people(approval: Approval, people_able: int | None) -> str | None:
    """What keeps a request from ever being approved, if there are too few who may decide it."""
    if people_able is None or people_able >= approval.quorum:
        return None
    needed = f"{counted(approval.quorum, 'person', 'people')}{_whom(approval)}"
    able = f"only {people_able} may decide it" if people_able else "nobody may decide it"
    return f"needs {needed}; {able}"


def way_to_more_people(approval: Approval) -> str:
    """The command that makes one more who may decide it."""
    group = f" --groups {quote(safe(approval.groups[0]))}" if approval.groups else ""
    return f"interlock key create NAME --kind person --roles review{group}"


def _votes(job: ApprovalItem, approval: Approval) -> str:
    needed = job.votes_needed
    agreed = len(approval.votes) if needed is None else max(0, approval.quorum - needed)
    return f"{agreed} of {approval.quorum}"


def _state(request: ApprovalRequest) -> str:
    approval = request.approval
    if request.state == "pending":
        return f"pending: {waiting_for(approval, request.votes_needed)}"
    if approval.decided_by:
        reason = f": {safe(approval.reason)}" if approval.reason else ""
        return f"{request.state} by {safe(approval.decided_by)} {when(approval.decided_at)}{reason}"
    return request.state


def _who(approval: Approval) -> str:
    people = counted(approval.quorum, "person", "different people")
    own = "the submitter may be one" if approval.self_approval else "never the submitter"
    return f"{people}{_whom(approval)}; {own}"


def _whom(approval: Approval) -> str:
    return f" of {listed(approval.groups)}" if approval.groups else " with the role review"


def summary(job: Job) -> str:
    """A request in one line: what it is, for whom, and whether it is another than it was."""
    edit = _last_edit(job)
    what = one_line(job.payload)
    if len(what) > _SUMMARY_MAX:
        what = (
            f"{what[:_SUMMARY_MAX]}… ({len(what)} characters; see it all with: interlock approval {job.id})"
        )
    env = f" in {safe(job.env)}" if job.env else ""
    target = f" on {safe(job.target.key)}" if job.target else ""
    edited = f"; edited {_edited(edit)}" if edit else ""
    return f"{job.topic}{env}{target} for {safe(job.submitted_by or '-')}: {what}; {job.job_hash}{edited}"


def is_to_be_named(job: Job) -> bool:
    """Whether an approval must name the version: the request was edited, or the rule requires the hash."""
    is_other = any(old.job_hash != job.job_hash for old in job.revisions or ())
    return is_other or (job.approval is not None and job.approval.require_hash)


def _last_edit(job: Job) -> Revision | None:
    """The revision before the last change of the payload."""
    revisions = job.revisions or ()
    payloads = [*(revision.payload for revision in revisions), job.payload]
    edits = [
        revision for revision, then in zip(revisions, payloads[1:], strict=True) if revision.payload != then
    ]
    return edits[-1] if edits else None


def _edited(edit: Revision | None) -> str:
    if edit is None:
        return ""
    why = f": {safe(edit.why)}" if edit.why else ""
    return f"by {safe(edit.replaced_by or '-')}, {when(edit.replaced_at)}{why}"


def _say_payload_before(edit: Revision | None) -> None:
    if edit is not None:
        say("", painted("payload before the edit", "dim"), *(f"  {line}" for line in pretty(edit.payload)))


def _say_evidence(evidence: Sequence[Evidence]) -> None:
    for each in evidence:
        say("", painted(f"evidence: {safe(each.title)} ({safe(each.kind)})", "dim"))
        shown = safe_lines(each.content) if each.content is not None else [safe(each.url or "")]
        # The gutter keeps what the submitter wrote apart from what Interlock says.
        say(*(f"  │ {line}" for line in shown))


def _say_votes(votes: Sequence[Vote]) -> None:
    if not votes:
        return
    say("", painted("votes so far", "dim"))
    for vote in votes:
        words = "; ".join(safe(text) for text in (vote.reason, vote.note) if text)
        say(f"  yes  {safe(vote.principal)}, {when(vote.at)}{': ' + words if words else ''}")


def _grace(approval: Approval) -> str:
    if approval.in_grace:
        return f"may be withdrawn, and does not run, until {exactly(approval.grace_until)}"
    return f"{approval.grace_seconds} s after the deciding vote" if approval.grace_seconds else ""


def _say_comments(comments: Sequence[Comment], total: int) -> None:
    if not comments:
        return
    newest = f" (the newest {len(comments)} of {total})" if total > len(comments) else ""
    say("", painted(f"comments{newest}", "dim"))
    for each in comments:
        kind = {"ask": "asks"}.get(each.kind, "says")
        is_open = " (open)" if each.open else ""
        say(f"  {safe(each.by)} {kind}{is_open}, {when(each.at)}")
        say(*(f"  │ {line}" for line in safe_lines(each.text)))


def _say_drift(request: ApprovalRequest) -> None:
    drift = request.drift
    if drift.policy_changed and request.state == "pending":
        consequence = (
            "it cannot be approved until it is refreshed"
            if request.approval.binding == "strict"
            else "it can be approved only if the policy still asks for the same"
        )
        say("", painted(f"! the policy changed since this was asked; {consequence}", "yellow"))
    if drift.target_changed and request.state == "pending":
        moved = f"! what it would change moved to {safe(drift.target_version or '-')} since this was asked"
        say("", painted(f"{moved}; it cannot be approved until it is refreshed", "yellow"))
    if drift.job_changed:
        say(
            "",
            painted(
                "! what is stored no longer matches its hash; do not approve, find out who changed it", "red"
            ),
        )


def _say_people(request: ApprovalRequest) -> None:
    why = too_few_people(request.approval, request.people_able) if request.state == "pending" else None
    if why is not None:
        say(
            "",
            painted(f"! it {why}", "yellow"),
            f"  an admin can add a person with: {way_to_more_people(request.approval)}",
        )


def _ask_anew(job: Job, approval: Approval) -> str:
    """What can be done about a request that was not decided in time."""
    if approval.binding == "workflow":
        return f"its step ended with it; begin there with: interlock run rerun {job.run_id} --from STEP"
    if job.expires_at is not None and job.expires_at <= datetime.now(UTC):
        return "the job's own time is over, too; submit it again"
    return f"ask anew with: interlock refresh {job.id}"


def _say_next(request: ApprovalRequest) -> None:
    job_id = request.job_id
    if request.state == "expired":
        say("", _ask_anew(request.job, request.approval))
    if request.approval.in_grace and request.job.state == "PENDING":
        say("", painted("to withdraw your approval", "dim"), f"  interlock withdraw {job_id} --reason '…'")
    if request.state != "pending":
        return
    drift = request.drift
    is_stale = (
        drift.job_changed
        or drift.target_changed
        or (drift.policy_changed and request.approval.binding == "strict")
    )
    say("", painted("to ask anew, or to end it" if is_stale else "to decide on exactly this", "dim"))
    say(
        f"  interlock refresh {job_id}"
        if is_stale
        else f"  interlock approve {job_id} --job-hash {request.job.job_hash}",
        f"  interlock reject {job_id} --reason '…'",
        f"  interlock edit {job_id} --payload '…' --reason '…'",
    )


STATES = ("pending", "approved", "rejected", "expired")


def declare_approvals() -> Parser:
    """The options of `interlock approvals`."""
    parser = Parser(
        "interlock approvals",
        description="List requests for approval, newest first. Without --state, the pending ones. With --mine, only "
        "those that wait for your decision, the most urgent first. With --watch, those, and then each new one as it "
        "comes, a line each, until you interrupt it.",
        examples=(
            "interlock approvals",
            "interlock approvals --mine",
            "interlock approvals --watch",
            "interlock approvals --state rejected --json",
        ),
    )
    parser.add_argument("--state", choices=(*STATES, "all"), help="(default: pending)")
    parser.add_argument(
        "--mine", action="store_true", help="what you may decide now and have not decided yet"
    )
    parser.add_argument(
        "--watch", action="store_true", help="what waits for you, and each new one as it comes"
    )
    paging(parser)
    return finished(parser, run_approvals)


def declare_approval() -> Parser:
    """The options of `interlock approval`."""
    parser = Noun(
        "interlock approval",
        description="Show everything needed to decide on one job.",
        examples=("interlock approvals", "interlock approval job_…"),
    )
    show = parser.verb("show", "show the request, and who may decide it")
    show.add_argument("id", metavar="ID", help="the job's id")
    finished(show, run_approval)
    return parser


def run_approvals(args: Namespace) -> int:
    """List requests."""
    from interlock.cli.connection import answer_list
    from interlock.wire.approvals import ApprovalItem

    if args.state and (args.mine or args.watch):
        wrong = "--mine and --watch show what is pending; leave --state out"
        raise Failed(f"{wrong}; see `interlock approvals --help`", Exit.USAGE, name="usage")
    if args.watch:
        from interlock.cli.watch import watch_inbox

        return watch_inbox(args)
    state = args.state or "pending"
    if args.mine:
        return answer_list(
            args,
            "inbox",
            kind=ApprovalItem,
            tell=say_approvals,
            command="interlock approvals --mine",
            nothing=_NOTHING_MINE,
        )
    return answer_list(
        args,
        "approvals",
        kind=ApprovalItem,
        tell=say_approvals,
        command=f"interlock approvals --state {state}",
        nothing=_nothing(state),
        query={"state": None if state == "all" else state},
        options={},
    )


def run_approval(args: Namespace) -> int:
    """Show one request."""
    from interlock.cli.connection import answer_call
    from interlock.wire.approvals import ApprovalRequest

    return answer_call(args, "GET", "approvals", args.id, kind=ApprovalRequest, tell=say_approval)


_NOTHING_MINE = "nothing waits for your decision; `interlock approvals` lists all pending requests"


def _nothing(state: str) -> str:
    if state == "pending":
        return "nothing waits for a decision; `interlock approvals --state all` shows what was decided"
    return "no requests; the policy asks people where a rule says `decision: require_human`"
