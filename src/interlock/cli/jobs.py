"""`interlock jobs`, `job` and `cancel`: proposed actions and their progress."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, exit_of_state
from interlock.cli.options import (
    Noun,
    Parser,
    described,
    describing,
    finished,
    intent,
    paging,
)
from interlock.cli.output import say
from interlock.cli.values import (
    count_to,
    duration,
    json_value,
    pair,
    read_bytes,
    seconds,
    topic,
    versioned,
    words,
)

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.jobs import Evidence, Job


STATES = ("APPROVAL", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "EXPIRED")


def declare_jobs() -> Parser:
    """The options of `interlock jobs`."""
    parser = Parser(
        "interlock jobs",
        description="List jobs, newest first.",
        examples=("interlock jobs --state APPROVAL", "interlock jobs --search 'ann acme' --json"),
    )
    parser.add_argument("--state", type=str.upper, choices=STATES, metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--topic", help="only this kind of action; `*` and `**` stand for parts of its name")
    parser.add_argument(
        "--search",
        metavar="WORDS",
        help="only jobs with these words in their id, topic, submitter or payload",
    )
    paging(parser)
    return finished(parser, run_jobs)


def declare_job() -> Parser:
    """The options of `interlock job`."""
    parser = Noun(
        "interlock job",
        description="Show one job, and its progress.",
        examples=("interlock job job_…", "interlock job job_… --history"),
    )
    show = parser.verb("show", "show one job, and its progress")
    show.add_argument("id", metavar="ID", help="the job's id, as `interlock submit` printed it")
    show.add_argument("--history", action="store_true", help="everything that happened to it")
    finished(show, run_job)
    return parser


def declare_cancel() -> Parser:
    """The options of `interlock cancel`."""
    parser = Parser(
        "interlock cancel",
        description="Cancel a job that has not ended.",
        examples=("interlock cancel job_… --reason 'asked for twice'",),
    )
    parser.add_argument("id", metavar="ID", help="the job's id, as `interlock submit` printed it")
    parser.add_argument("--reason", help="why; it is kept in the audit log")
    return finished(parser, run_cancel)


def run_jobs(args: Namespace) -> int:
    """List jobs."""
    from interlock.cli.connection import answer_list
    from interlock.cli.job_page import say_jobs
    from interlock.wire.jobs import Job

    filters = {"state": args.state, "topic": args.topic}
    return answer_list(
        args,
        "jobs",
        kind=Job,
        tell=say_jobs,
        command="interlock jobs",
        nothing=_nothing(args),
        query={**filters, "q": args.search},
        options={**filters, "search": args.search},
    )


def run_job(args: Namespace) -> int:
    """Show one job, or its history."""
    from interlock.cli.connection import answer_call, answer_page, connected, listing
    from interlock.cli.job_page import say_entries, say_job
    from interlock.wire.events import AuditEntry
    from interlock.wire.jobs import Job

    if not args.history:
        return answer_call(args, "GET", "jobs", args.id, kind=Job, tell=say_job)
    with connected(args) as client:
        page = listing(client, "jobs", args.id, "history", limit=1000, cursor=None, query={})

    def tell(entries: Sequence[AuditEntry]) -> None:
        say_entries(entries, of_one=True)

    return answer_page(args, page, kind=AuditEntry, tell=tell, nothing="nothing happened to it yet")


def run_cancel(args: Namespace) -> int:
    """Withdraw one job."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        job = client.cancel_job(args.id, reason=args.reason)
    return answer(args, job, lambda job: say(f"{job.id} is {job.state}; it will not run"))


def _nothing(args: Namespace) -> str:
    if args.state or args.topic or args.search or args.cursor:
        return "no jobs match; `interlock jobs` lists them all"
    return "no jobs yet; propose one with `interlock submit TOPIC --payload '{…}'`"


_EXITS = """\
exit codes:
  0  it may run          3  denied, rejected or expired: it will not run
  4  people must decide  5  a limit is reached, or it is busy: try again later
"""


def declare_submit() -> Parser:
    """The options of `interlock submit`."""
    parser = Parser(
        "interlock submit",
        description="Submit a job. The policy answers at once: the job may run, people must decide first, "
        "or it is denied.",
        examples=(
            "interlock submit knowledge.read --payload '{\"page\": 7}'",
            "interlock submit finance.payment.execute --env production --payload @payment.json --wait 10m",
            "interlock submit repo.merge --payload - --target repo:billing@4f2a --key merge-4f2a < m.json",
        ),
        more=_EXITS,
    )
    parser.add_argument(
        "topic", type=topic, metavar="TOPIC", help="what kind of action, such as finance.payment.execute"
    )
    parser.add_argument(
        "--payload",
        type=json_value,
        metavar="JSON|@FILE|-",
        default={},
        help="the action itself (default {})",
    )
    describing(parser)
    _declare_extras(parser)
    parser.add_argument("--wait", type=seconds, metavar="10m", help="wait this long for people to decide")
    return finished(parser, run_submit)


def _declare_extras(parser: Parser) -> None:
    parser.add_argument(
        "--target", metavar="KEY[@VERSION]", type=versioned, help="what it changes, and the version you saw"
    )
    parser.add_argument(
        "--evidence",
        action="append",
        default=[],
        metavar="TITLE=TEXT|@FILE|URL",
        type=_evidence,
        help="something for the reviewer to look at; repeatable",
    )
    parser.add_argument(
        "--ask",
        type=words,
        nargs="?",
        const=(),
        metavar="GROUPS",
        help="ask people to decide even if the policy would allow it; GROUPS narrows who",
    )
    parser.add_argument("--expires-in", type=duration, metavar="4h", help="the job expires after this long")
    parser.add_argument(
        "--max-attempts", type=count_to(100), metavar="N", help="how often workers may try it"
    )
    parser.add_argument("--run-id", metavar="ID", help="the run that it belongs to")
    parser.add_argument(
        "--executor",
        choices=("worker", "caller"),
        help="who carries it out: any worker (the default), or you alone, by its id",
    )
    intent(parser, "submitting it again finds the same job")


def run_submit(args: Namespace) -> int:
    """Submit, wait if asked to, and show the job's state."""
    from interlock.cli.connection import answer, connected
    from interlock.cli.job_page import say_submitted

    with connected(args) as client:
        job = _submitted(client, args)
        if args.wait is not None and not job.is_decided:
            job = _waited(client, job, args.wait)
        answer(args, job, say_submitted)
    return exit_of_state(job.state) if job.is_decided else Exit.WAITING


def _submitted(client: Interlock, args: Namespace) -> Job:
    from interlock.wire.jobs import Target

    return client.submit(
        args.topic,
        args.payload,
        **described(args),
        target=Target(key=args.target[0], version=args.target[1]) if args.target else None,
        evidence=args.evidence or None,
        expires_in=args.expires_in,
        max_attempts=args.max_attempts,
        run_id=args.run_id,
        executor=args.executor,
        approval_groups=args.ask,
        key=args.intent,
    )


def _waited(client: Interlock, job: Job, patience_seconds: int) -> Job:
    """The job once it is decided, or as it stands when the patience is spent."""
    from interlock.sdk.outcomes import StillPending

    try:
        return client.wait(job.id, timeout=patience_seconds, until="decided")
    except StillPending:
        return client.get_job(job.id)


def _evidence(text: str) -> Evidence:
    """`title=content`, `title=@file` or `title=https://…`."""
    from interlock.wire.jobs import Evidence

    title, content = pair(text)
    if content.startswith(("http://", "https://", "mailto:")):
        return Evidence(title=title, kind="link", url=content)
    if not content.startswith("@"):
        return Evidence(title=title, kind="text", content=content)
    kind = {".diff": "diff", ".patch": "diff", ".json": "json", ".md": "markdown"}
    try:
        read = read_bytes(content[1:]).decode()
    except UnicodeDecodeError:
        raise ArgumentTypeError(f"{content[1:]} is not text; pass a link to it instead") from None
    return Evidence(title=title, kind=kind.get(Path(content).suffix, "text"), content=read)


def declare_retry() -> Parser:
    """The options of `interlock retry`."""
    parser = Parser(
        "interlock retry",
        description="Let a job that failed for good run again, with all its attempts.",
        examples=("interlock jobs --state FAILED", "interlock retry job_0190…"),
    )
    parser.add_argument("id", metavar="ID", help="the id of a job in state FAILED")
    return finished(parser, run_retry)


def run_retry(args: Namespace) -> int:
    """Put one dead letter back."""
    from interlock.cli.connection import answer_call
    from interlock.wire.jobs import Job

    def tell(job: Job) -> None:
        say(f"{job.id} is {job.state} again")

    return answer_call(args, "POST", "jobs", args.id, "retry", kind=Job, tell=tell, body={})
