"""`interlock limits` and `limit …`: how many runs may be active at once. `interlock traffic`: how starts ended."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, TypeVar

from interlock.cli.options import Noun, Parser, finished
from interlock.cli.output import Cell, Table, counted, exactly, safe, say, say_fields, when

if TYPE_CHECKING:
    from interlock.wire.admission import AdmissionStats, Limit, Limits, StartsOfWorkflow, TrafficPoint

S = TypeVar("S", bound="StartsOfWorkflow | TrafficPoint")

_MOST = 1_000_000
_SCOPE = "`tenant`, or a workflow's id"


def declare_limits() -> Parser:
    """The options of `interlock limits`."""
    parser = Parser(
        "interlock limits",
        description="List how many runs the tenant, and single workflows, may have at once.",
        examples=("interlock limits", "interlock limits --json"),
    )
    return finished(parser, run_limits)


def declare_limit() -> Parser:
    """The options of `interlock limit …`."""
    parser = Noun(
        "interlock limit",
        description="Show, set or clear how many runs may be active at once. Lowering a limit ends no run; it only\n"
        "stops new ones.",
        examples=(
            "interlock limit tenant",
            "interlock limit set tenant 20",
            "interlock limit set nightly-report 1",
            "interlock limit clear nightly-report",
        ),
    )
    showing = parser.verb("show", "show one limit, and how many runs are active")
    setting = parser.verb("set", "change a limit")
    clearing = parser.verb("clear", "remove a limit")
    for verb, run in ((showing, run_show), (setting, run_set), (clearing, run_clear)):
        verb.add_argument("scope", metavar="SCOPE", help=_SCOPE)
        finished(verb, run)
    setting.add_argument("most", metavar="N", type=_number, help="how many runs at once; 0 stops new ones")
    return parser


def declare_traffic() -> Parser:
    """The options of `interlock traffic`."""
    parser = Parser(
        "interlock traffic",
        description="Show how starts of runs ended, on all servers: admitted, full, or not evaluated.",
        examples=(
            "interlock traffic --window 10m",
            "interlock traffic --window 7d --step 24h --workflow nightly-report",
            "interlock traffic --topics",
        ),
    )
    parser.add_argument(
        "--window", metavar="1h", default="1h", help="how far back to look, up to 30d (default 1h)"
    )
    parser.add_argument("--step", metavar="10m", help="also count by steps of this length")
    parser.add_argument("--workflow", metavar="ID", help="of one workflow only")
    parser.add_argument(
        "--topics", action="store_true", help="count jobs that the policy throttled, by topic"
    )
    parser.add_argument(
        "--limit", metavar="N", type=_number, help="how many workflows or topics (default 50)"
    )
    parser.add_argument("--cursor", metavar="CURSOR", help="go on where the page before ended")
    return finished(parser, run_traffic)


def run_limits(args: Namespace) -> int:
    """List limits."""
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.admission import Limits

    with connected(args) as client:
        found = client.call("GET", "limits", query={"limit": 200})
    return answer(args, found, lambda found: say_limits(typed(found, Limits)))


def run_show(args: Namespace) -> int:
    """Show one limit."""
    from interlock.cli.connection import answer_one
    from interlock.wire.admission import Limit

    def is_it(limit: Limit) -> bool:
        return limit.scope == args.scope

    name = f"limit of {args.scope}"
    return answer_one(args, "limits", kind=Limit, is_it=is_it, tell=_say_limit, name=name)


def run_set(args: Namespace) -> int:
    """Change one limit."""
    from interlock.cli.connection import answer_call
    from interlock.wire.admission import Limit, SetLimitBody

    def tell(limit: Limit) -> None:
        say(f"{safe(limit.scope)} may have {counted(limit.max_concurrent_runs, 'run')} at once")

    body = SetLimitBody(max_concurrent_runs=args.most)
    return answer_call(args, "PUT", "limits", args.scope, kind=Limit, tell=tell, body=body)


def run_clear(args: Namespace) -> int:
    """Take one limit away."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        cleared = client.clear_limit(args.scope)
    words = "has no limit of its own any more" if cleared.cleared else "had no limit of its own"
    return answer(args, cleared, lambda cleared: say(f"{safe(cleared.scope)} {words}"))


def run_traffic(args: Namespace) -> int:
    """Show how starts ended."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        stats = client.get_admission_stats(
            window=args.window,
            step=args.step,
            by="topic" if args.topics else None,
            name=args.workflow,
            limit=args.limit,
            cursor=args.cursor,
        )
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


def _say_limit(limit: Limit) -> None:
    say_fields(
        [
            ("scope", safe(limit.scope)),
            ("active", _active(limit)),
            ("limit", str(limit.max_concurrent_runs)),
            ("set", f"{when(limit.set_at)} by {safe(limit.set_by)}" if limit.set_by else "by default"),
        ]
    )


def _active(limit: Limit) -> Cell:
    return Cell(str(limit.active), "yellow" if limit.active >= limit.max_concurrent_runs else "")


def say_stats(stats: AdmissionStats) -> None:
    """How starts ended: admitted, full, and not evaluated."""
    say(
        f"{stats.admitted} admitted, {stats.full_429} full (429), {stats.unavailable_503} not evaluated (503) "
        f"in the last {stats.window}, on all servers"
    )
    if stats.policy_throttled_429:
        say(f"{counted(stats.policy_throttled_429, 'job')} throttled by the policy (429)")
    if stats.series:
        say("")
        points = _starts(Table(stats.series).column("FROM", lambda point: exactly(point.at)))
        points.column("THROTTLED", lambda point: str(point.policy_throttled_429)).say()
    if stats.workflows:
        say("")
        _starts(Table(stats.workflows).column("WORKFLOW", lambda row: row.workflow, flexible=True)).say()
    if stats.topics:
        say("")
        topics = Table(stats.topics).column("TOPIC", lambda row: row.topic, flexible=True)
        topics.column("THROTTLED", lambda row: str(row.policy_throttled_429)).say()
    if stats.next_cursor:
        say("", f"There are more: interlock traffic --window {stats.window} --cursor {stats.next_cursor}")


def _starts(table: Table[S]) -> Table[S]:
    """Add how starts ended, one column for each outcome."""
    return (
        table.column("ADMITTED", lambda row: str(row.admitted))
        .column("FULL", lambda row: str(row.full_429))
        .column("NOT EVALUATED", lambda row: str(row.unavailable_503))
    )
