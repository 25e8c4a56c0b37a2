"""`interlock worker`: runs a command for each job, for work that is not written in Python.

The job's payload is the command's standard input; the job's identity and the permit are in its environment. Exit 0
completes the job with the command's output (as JSON, if it is JSON), exit 75 (EX_TEMPFAIL) asks for another attempt,
and any other exit is final unless `--retry-any`. The worker keeps trying while it cannot claim, so it has no
`--patience`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, connecting, given, makes_store, wants_json

if TYPE_CHECKING:
    from interlock.sdk.worker_jobs import Settled
    from interlock.wire.identity import PermitKey
    from interlock.wire.jobs import HeldJob


_EVERY_TOPIC = ("**",)
_MORE = """\
the command gets:
  stdin                   the payload, as JSON
  INTERLOCK_PERMIT        a signed token that proves the hold; hand it to the tool that acts
  INTERLOCK_JOB_ID, INTERLOCK_JOB_HASH, INTERLOCK_TOPIC, INTERLOCK_FENCE, INTERLOCK_ATTEMPT
  INTERLOCK_CHECKPOINT    what the attempt before left behind, as JSON; empty if nothing

exit codes of the command:
  0     done; what it printed is the result
  75    try again later (EX_TEMPFAIL)
  else  a dead letter; with --retry-any, try again
"""


def declare_worker() -> Parser:
    """The options of `interlock worker`."""
    parser = Parser(
        "interlock worker",
        description="Run a command for each approved job, and say how it ended.\n"
        "Leases are renewed while it runs; SIGTERM lets what was begun finish.\n"
        "While the service is out of reach it tries until it works.",
        examples=(
            "interlock worker --topic finance.payment.* --exec './pay.sh'",
            "interlock worker --topic mail.send --exec 'python send.py' --concurrency 8",
        ),
        more=_MORE,
    )
    parser.add_argument(
        "--topic", action="append", metavar="TOPIC", help="exact or a glob; repeat it (default: every topic)"
    )
    parser.add_argument("--exec", dest="command", required=True, metavar="CMD", help="a shell command")
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="jobs at a time (default 1)")
    parser.add_argument(
        "--lease-seconds", type=int, default=30, metavar="N", help="length of a lease (default 30)"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=30.0, metavar="N", help="time to finish (default 30)"
    )
    parser.add_argument("--retry-any", action="store_true", help="every failure asks for another attempt")
    parser.add_argument("--once", action="store_true", help="wait for one job, do it, and end")
    as_json(parser)
    connecting(parser, gives_up=False)
    parser.set_defaults(run=run_worker)
    return parser


def run_worker(args: Namespace) -> int:
    """Work until told to stop; with `--once`, end as the job did."""
    from interlock.cli.connection import translated
    from interlock.sdk.outcomes import InvalidRequest
    from interlock.sdk.worker import Worker
    from interlock.sdk.worker_commands import run_command
    from interlock.sdk.worker_jobs import Settled

    ends: list[Settled] = []

    def settled(job: HeldJob, end: Settled) -> None:
        ends.append(end)
        _tell(job, end, as_json=wants_json(args))

    with translated(args):
        try:
            worker = Worker(
                given(args, "url"),
                given(args, "api_key"),
                store=given(args, "store"),
                make_store=makes_store(args),
                concurrency=1 if args.once else args.concurrency,
                lease_seconds=args.lease_seconds,
                drain_seconds=args.drain_seconds,
                jobs_max=1 if args.once else None,
                on_settled=settled,
            )
            worker.handler(*(args.topic or _EVERY_TOPIC))(run_command(args.command, retry_any=args.retry_any))
        except (ValueError, InvalidRequest) as error:
            raise Failed(str(error), Exit.USAGE) from None
        worker.run()
    if args.once and ends != [Settled.SUCCEEDED]:
        return Exit.ERROR if ends else Exit.WAITING
    return Exit.DONE


def _tell(job: HeldJob, end: Settled, *, as_json: bool) -> None:
    import sys

    from interlock.cli.output import say, say_json

    if as_json:
        say_json(
            {"job_id": job.id, "topic": job.topic, "attempt": job.attempt, "fence": job.fence, "outcome": end}
        )
    else:
        say(f"{job.id} {job.topic}: {end.value} (attempt {job.attempt})")
    sys.stdout.flush()


def declare_retry() -> Parser:
    """The options of `interlock retry`."""
    parser = Parser(
        "interlock retry",
        description="Put a job that failed for good back to work, with all its attempts before it again.",
        examples=("interlock jobs --state FAILED", "interlock retry job_0190…"),
    )
    parser.add_argument("id", metavar="ID", help="the id of a job in state FAILED")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_retry)
    return parser


def declare_keys() -> Parser:
    """The options of `interlock keys`."""
    parser = Parser(
        "interlock keys",
        description="Show the public keys that check permits, or sign with a new one.\n"
        "(`interlock key` makes the keys that people and programs log in with.)",
        examples=("interlock keys", "interlock keys rotate", "interlock keys rotate --revoke"),
    )
    parser.add_argument("verb", nargs="?", choices=("list", "rotate"), default="list", help="list or rotate")
    parser.add_argument(
        "--lead-seconds", type=int, metavar="N", default=300, help="publish it so long before it signs"
    )
    parser.add_argument(
        "--revoke", action="store_true", help="a key was stolen: withdraw every other at once"
    )
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_keys)
    return parser


def run_retry(args: Namespace) -> int:
    """Put one dead letter back."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say, say_json
    from interlock.wire.jobs import Job

    with connected(args) as client:
        found = client.call("POST", "jobs", args.id, "retry", body={})
    if wants_json(args):
        say_json(found)
    else:
        job = typed(found, Job)
        say(f"{job.id} is {job.state} again")
    return Exit.DONE


def run_keys(args: Namespace) -> int:
    """Show or rotate the keys of permits."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say_json

    with connected(args) as client:
        if args.verb == "rotate":
            found = client.rotate_permit_keys(lead_seconds=args.lead_seconds, revoke=args.revoke)
        else:
            found = client.permit_keys()
    if wants_json(args):
        say_json(found)
    else:
        _say_keys(found.keys)
    return Exit.DONE


def _say_keys(keys: Sequence[PermitKey]) -> None:
    from interlock.cli.output import Column, say_table, when

    columns = (Column("KEY"), Column("SIGNS FROM"), Column("PUBLISHED UNTIL"))
    say_table(
        columns,
        ((key.kid, when(key.signs_from), when(key.published_until)) for key in keys),
    )
