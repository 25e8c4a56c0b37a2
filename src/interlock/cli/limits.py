"""`interlock limits`: how many runs may be active at once, and how many are."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from interlock.cli.options import Parser, finished, told
from interlock.cli.output import Cell, Table, counted, safe, say, when

if TYPE_CHECKING:
    from interlock.wire.admission import AdmissionStats, Limit, Limits

_MOST = 1_000_000


def declare_limits() -> Parser:
    """The options of `interlock limits`."""
    parser = Parser(
        "interlock limits",
        description="Show how many runs the tenant, and single workflows, may have at once; set or clear a limit.\n"
        "Lowering one ends no run; it only stops new ones.",
        examples=(
            "interlock limits",
            "interlock limits set tenant 20",
            "interlock limits set nightly-report 1",
            "interlock limits clear nightly-report",
            "interlock limits stats --window 10m",
        ),
    )
    finished(parser, run_limits)
    verbs = parser.add_subparsers(metavar="set|clear|stats", parser_class=Parser)
    setting = verbs.add_parser("set", **told("change a limit"))
    setting.add_argument("scope", metavar="SCOPE", help="`tenant`, or a workflow's id")
    setting.add_argument("most", metavar="N", type=_number, help="how many runs at once; 0 stops new ones")
    clearing = verbs.add_parser("clear", **told("take a limit away"))
    clearing.add_argument("scope", metavar="SCOPE", help="`tenant`, or a workflow's id")
    telling = verbs.add_parser("stats", **told("show how starts ended, on all servers"))
    telling.add_argument("--window", metavar="1h", default="1h", help="how far back to look (default 1h)")
    for verb, run in ((setting, run_set), (clearing, run_clear), (telling, run_stats)):
        finished(verb, run)
    return parser


def run_limits(args: Namespace) -> int:
    """List limits."""
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.admission import Limits

    with connected(args) as client:
        found = client.call("GET", "limits", query={"limit": 200})
    return answer(args, found, lambda found: say_limits(typed(found, Limits)))


def run_set(args: Namespace) -> int:
    """Change one limit."""
    from interlock.cli.connection import answer_call
    from interlock.wire.admission import Limit

    def tell(limit: Limit) -> None:
        say(f"{safe(limit.scope)} may have {counted(limit.max_concurrent_runs, 'run')} at once")

    body = {"max_concurrent_runs": args.most}
    return answer_call(args, "PUT", "limits", args.scope, kind=Limit, tell=tell, body=body)


def run_clear(args: Namespace) -> int:
    """Take one limit away."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        cleared = client.clear_limit(args.scope)
    words = "has no limit of its own any more" if cleared.cleared else "had no limit of its own"
    return answer(args, cleared, lambda cleared: say(f"{safe(cleared.scope)} {words}"))


def run_stats(args: Namespace) -> int:
    """Show how starts ended."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        stats = client.admission_stats(window=args.window)
    return answer(args, stats, say_stats)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST):
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST}")
    return int(text)


def say_limits(limits: Limits) -> None:
    """A table of limits, and how many starts wait."""
    (
        Table(limits.items)
        .column("SCOPE", lambda limit: limit.scope, flexible=True)
        .column("ACTIVE", _active)
        .column("LIMIT", lambda limit: str(limit.max_concurrent_runs))
        .column("SET BY", lambda limit: limit.set_by or "default")
        .column("SET", lambda limit: when(limit.set_at))
        .say()
    )
    if limits.waiting:
        say("", f"{counted(limits.waiting, 'start')} waiting in line")


def _active(limit: Limit) -> Cell:
    return Cell(str(limit.active), "yellow" if limit.active >= limit.max_concurrent_runs else "")


def say_stats(stats: AdmissionStats) -> None:
    """How starts ended: admitted, full, and not evaluated."""
    say(
        f"{stats.admitted} admitted, {stats.full_429} full (429), {stats.unavailable_503} not evaluated (503) "
        f"in the last {stats.window}, on all servers"
    )
    if not stats.workflows:
        return
    say("")
    (
        Table(stats.workflows)
        .column("WORKFLOW", lambda row: row.workflow, flexible=True)
        .column("ADMITTED", lambda row: str(row.admitted))
        .column("FULL", lambda row: str(row.full_429))
        .column("NOT EVALUATED", lambda row: str(row.unavailable_503))
        .say()
    )
