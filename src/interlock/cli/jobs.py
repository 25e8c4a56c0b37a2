"""`interlock jobs`, `job` and `cancel`: proposed actions, and how far they got."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, wants_json

STATES = ("APPROVAL", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "EXPIRED")


def declare_jobs() -> Parser:
    """The options of `interlock jobs`."""
    parser = Parser(
        "interlock jobs",
        description="List jobs, newest first.",
        examples=("interlock jobs --state APPROVAL", "interlock jobs --topic finance.payment.execute --json"),
    )
    parser.add_argument("--state", type=str.upper, choices=STATES, metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--topic", help="only this kind of action")
    paging(parser)
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_jobs)
    return parser


def declare_job() -> Parser:
    """The options of `interlock job`."""
    parser = Parser(
        "interlock job",
        description="Show one job, and how far it got.",
        examples=("interlock job job_…", "interlock job job_… --history"),
    )
    parser.add_argument("id", metavar="ID", help="the id that submitting it printed")
    parser.add_argument("--history", action="store_true", help="everything that happened to it")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_job)
    return parser


def declare_cancel() -> Parser:
    """The options of `interlock cancel`."""
    parser = Parser(
        "interlock cancel",
        description="Withdraw a job that is not done.",
        examples=("interlock cancel job_… --reason 'asked for twice'",),
    )
    parser.add_argument("id", metavar="ID", help="the id that submitting it printed")
    parser.add_argument("--reason", help="why; it is kept in the audit log")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_cancel)
    return parser


def run_jobs(args: Namespace) -> int:
    """List jobs."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.job_page import say_jobs
    from interlock.cli.output import say, say_json
    from interlock.sdk.models import Job

    with connected(args) as client:
        query = {"state": args.state, "topic": args.topic}
        page = listing(client, "jobs", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        say_jobs(typed(page["items"], list[Job]))
        say(*filter(None, [more(page, "interlock jobs", args, query)]))
    else:
        say(_nothing(args))
    return Exit.DONE


def run_job(args: Namespace) -> int:
    """Show one job, or its history."""
    from interlock.cli.connection import connected, listing, typed
    from interlock.cli.job_page import say_entries, say_job
    from interlock.cli.output import say_json
    from interlock.sdk.models import AuditEntry, Job

    with connected(args) as client:
        if args.history:
            found = listing(client, "jobs", args.id, "history", limit=1000, cursor=None, query={})
        else:
            found = client.call("GET", "jobs", args.id)
    if wants_json(args):
        say_json(found)
    elif args.history:
        say_entries(typed(found["items"], list[AuditEntry]), of_one=True)
    else:
        say_job(typed(found, Job))
    return Exit.DONE


def run_cancel(args: Namespace) -> int:
    """Withdraw one job."""
    from msgspec import to_builtins

    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    with connected(args) as client:
        job = client.cancel(args.id, reason=args.reason)
    if wants_json(args):
        say_json(to_builtins(job))
    else:
        say(f"{job.id} is {job.state}; it will not run")
    return Exit.DONE


def _nothing(args: Namespace) -> str:
    if args.state or args.topic or args.cursor:
        return "no jobs match; `interlock jobs` lists them all"
    return "no jobs yet; propose one with `interlock submit TOPIC --payload '{…}'`"
