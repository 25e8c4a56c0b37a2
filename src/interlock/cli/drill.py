"""`interlock drill …`: rehearse a failure on a deployment, or on a temporary one, and check that it holds."""

from __future__ import annotations

import asyncio
import os
from argparse import SUPPRESS, ArgumentTypeError, Namespace
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Noun, Parser, as_json, connecting, given, quietly, wants_json
from interlock.cli.output import Cell, Column, painted, say, say_json, say_table
from interlock.cli.progress import progress_of
from interlock.cli.values import count_to, seconds, some_seconds

if TYPE_CHECKING:
    from interlock.drills.place import Place
    from interlock.drills.report import Bar, Contestant, Phase, Report, Tell


_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
_VERDICTS = {"passed": "green", "failed": "red", "too small to tell": "yellow"}
_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 60


def say_report(report: Report) -> None:
    """Everything a drill found."""
    say(painted(f"drill {report.drill}", "bold"), f"on {report.where}", "")
    if report.phases:
        _say_phases(report.phases)
    if report.contestants:
        _say_contestants(report.contestants)
    for check in report.checks:
        mark = painted(*_MARKS[check.held])
        say(f"{mark} {check.claim}" + (painted(f"  ({check.seen})", "dim") if check.seen else ""))
    for left in report.left_behind:
        say(f"{painted('✗', 'red')} left behind: {left}")
    say("", painted(f"verdict: {report.verdict}", _VERDICTS[report.verdict]))


def _say_phases(phases: Sequence[Phase]) -> None:
    codes = list(dict.fromkeys(code for phase in phases for code in phase.codes))
    columns = [Column(""), Column("CALLS"), *map(Column, codes), *map(Column, ("p50", "p95", "p99"))]
    say_table(
        columns,
        (
            (
                phase.name,
                str(phase.count),
                *(_count(code, phase.codes.get(code, 0)) for code in codes),
                *(f"{value:.1f} ms" for value in (phase.p50_ms, phase.p95_ms, phase.p99_ms)),
            )
            for phase in phases
        ),
    )
    for phase in phases:
        _say_latency(phase)
    say("")


def _count(code: str, count: int) -> Cell:
    is_bad = count and code in ("5xx", "none")
    return Cell(str(count or "-"), "red" if is_bad else "")


def _say_latency(phase: Phase) -> None:
    say("", painted(f"time to answer, {phase.name}", "dim"))
    most = max((bar.count for bar in phase.latency), default=0)
    for bar in phase.latency:
        say(f"  {_bound(bar):>9}  {_bar(bar.count, most)} {bar.count or ''}".rstrip())


def _bound(bar: Bar) -> str:
    return "longer" if bar.to_ms is None else f"≤ {bar.to_ms} ms"


def _bar(count: int, most: int) -> str:
    eighths = round(8 * _WIDTH * count / most) if most else 0
    whole, rest = divmod(max(eighths, 1 if count else 0), 8)
    return _EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")


def _say_contestants(contestants: Sequence[Contestant]) -> None:
    rows = (
        ("calls that succeeded", [f"{each.success_ratio:.1%}" for each in contestants]),
        ("requests for each call", [f"{each.amplification:.2f}" for each in contestants]),
        ("  in the outage", [f"{each.outage_amplification:.2f}" for each in contestants]),
        ("recovered after", [f"{each.recovery_seconds:.0f} s" for each in contestants]),
        ("peak over steady rate", [f"{each.peak_over_steady:.2f}" for each in contestants]),
    )
    say_table(
        [Column(""), *(Column(each.name) for each in contestants)], ([name, *values] for name, values in rows)
    )
    most = max(max(each.requests_each_second, default=0) for each in contestants)
    say("", painted(f"requests each second, up to {most}", "dim"))
    width = max(len(each.name) for each in contestants)
    for each in contestants:
        say(f"  {each.name:<{width}}  {_line(each.requests_each_second, most)}")
    say("")


def _line(values: Sequence[int], most: int) -> str:
    """Numbers over time as one row of at most `_COLUMNS` blocks."""
    step = max(1, -(-len(values) // _COLUMNS))
    groups = [values[start : start + step] for start in range(0, len(values), step)]
    return "".join(_HEIGHTS[_height(max(group), most)] for group in groups)


def _height(value: int, most: int) -> int:
    return 0 if not value else max(1, round(8 * value / most))


_COUNT = count_to(1000)
_LASTING_MIN = 3


def declare_drill() -> Parser:
    """The options of `interlock drill …`."""
    parser = Noun(
        "interlock drill",
        description="Rehearse a failure, and check that the deployment holds. Without --url or INTERLOCK_URL a drill\n"
        "starts its own server on a temporary store. On a deployment it makes its own keys, jobs, runs and limits,\n"
        "never changes the policy, and removes what it made. Exit code 1 if a claim did not hold, or if the drill\n"
        "was too small to tell.",
        examples=(
            "interlock drill approvals",
            "interlock drill admission --url http://127.0.0.1:8700 --api-key KEY --json",
            "interlock drill outage --store postgresql://… --pid 4711",
            "interlock drill retries --clients 200 --outage 30s",
        ),
    )
    for name, about, declare in (
        ("approvals", "let many people decide one request at once", _declare_approvals),
        ("admission", "many starts at once under a small limit", _declare_admission),
        ("outage", "block the store: callers are told, and nothing is done twice", _declare_outage),
        ("retries", "compare one retry policy for everything with one for each class", _declare_retries),
    ):
        verb = parser.verb(name, about)
        declare(verb)
        quietly(verb)
    return parser


def _declare_approvals(parser: Parser) -> None:
    parser.add_argument("--people", type=_COUNT, metavar="N", default=20, help="how many decide (default 20)")
    parser.add_argument(
        "--topic", default="drill.approvals", help="a topic that the policy asks one person about"
    )
    parser.add_argument("--env", default="", help="the env of the request, if the policy looks at it")
    _on_deployment(parser)
    parser.set_defaults(run=run_approvals, drill="approvals")


def _declare_admission(parser: Parser) -> None:
    parser.add_argument("--limit", type=_COUNT, metavar="N", default=2, help="how many may run (default 2)")
    parser.add_argument(
        "--crowds", type=_counts, metavar="N,N", default=(50, 300), help="starts at once (default 50,300)"
    )
    _on_deployment(parser)
    parser.set_defaults(run=run_admission, drill="admission")


def _declare_outage(parser: Parser) -> None:
    absent = SUPPRESS
    parser.add_argument(
        "--store", metavar="URL", default=absent, help="the store to block (default: a temporary one)"
    )
    parser.add_argument("--pid", type=int, metavar="PID", help="stop this process instead, and all below it")
    parser.add_argument(
        "--url", metavar="URL", default=absent, help="a server on that store (default: one of its own)"
    )
    parser.add_argument(
        "--clients", type=_COUNT, metavar="N", default=20, help="how many start runs (default 20)"
    )
    parser.add_argument(
        "--lasting", type=_outlasting, metavar="5s", default=5, help="how long (default 5s; at least 3s)"
    )
    as_json(parser)
    parser.set_defaults(run=run_outage)


def _declare_retries(parser: Parser) -> None:
    parser.add_argument("--clients", type=_COUNT, metavar="N", default=200, help="how many (default 200)")
    parser.add_argument(
        "--outage", type=some_seconds, metavar="30s", default=30, help="how long (default 30s)"
    )
    as_json(parser)
    parser.set_defaults(run=run_retries)


def _on_deployment(parser: Parser) -> None:
    as_json(parser)
    connecting(parser, otherwise="without one, the drill starts its own")


def run_approvals(args: Namespace) -> int:
    """Many people decide one request at once."""
    from interlock.drills.contention import drill_approvals

    return _play(
        args,
        lambda place, tell: drill_approvals(
            place, people=args.people, topic=args.topic, env=args.env, tell=tell
        ),
    )


def run_admission(args: Namespace) -> int:
    """Crowds before a small limit."""
    from interlock.drills.contention import drill_admission

    return _play(
        args,
        lambda place, tell: drill_admission(place, crowds=args.crowds, limit=args.limit, tell=tell),
    )


def run_outage(args: Namespace) -> int:
    """The store stands still."""
    from interlock.drills.outage import drill_outage

    store, url = given(args, "store"), given(args, "url")
    with progress_of(args, "drill outage") as progress:
        playing = drill_outage(
            store, url=url, pid=args.pid, clients=args.clients, seconds=args.lasting, tell=progress
        )
        found = _unless_unfit(args, playing)
    return _told(args, found)


def run_retries(args: Namespace) -> int:
    """Two ways to retry, side by side."""
    from interlock.drills.retries import drill_retries

    with progress_of(args, "drill retries") as progress:
        found = drill_retries(clients=args.clients, outage_seconds=args.outage, tell=progress)
    return _told(args, found)


def _play(args: Namespace, drill: Callable[[Place, Tell], Coroutine[Any, Any, Report]]) -> int:
    """Play on the deployment that `--url` or the environment names, or on a temporary server."""
    from interlock.drills.place import deployed, temporary

    deployment = _deployment(args)

    async def play() -> Report:
        async with temporary() if deployment is None else deployed(*deployment) as place:
            return await drill(place, progress)

    with progress_of(args, f"drill {args.drill}") as progress:
        progress("a server is started" if deployment is None else "a server is asked", 0, 1)
        found = _unless_unfit(args, play())
    return _told(args, found)


def _deployment(args: Namespace) -> tuple[str, str] | None:
    """The URL of a deployment that answers and an admin's key to it; None if no deployment is named."""
    from interlock.cli.connection import connected

    if given(args, "store"):
        raise Failed(
            "this drill asks a server: name it with --url or INTERLOCK_URL, or leave --store out "
            "for a temporary one",
            Exit.USAGE,
        )
    url = given(args, "url") or os.environ.get("INTERLOCK_URL")
    if not url:
        return None
    with connected(args) as client:
        # The drill makes keys of its own. A caller who may not is refused now, as by every other command.
        client.call("GET", "principals", query={"limit": 1})
        return url, client.session.key or ""


def _unless_unfit(args: Namespace, playing: Coroutine[Any, Any, Report]) -> Report:
    from interlock.cli.connection import translated
    from interlock.drills.place import PlaceUnfit

    try:
        with translated(args):
            return asyncio.run(playing)
    except PlaceUnfit as unfit:
        raise Failed(str(unfit), name="drill_not_played") from unfit


def _told(args: Namespace, found: Report) -> int:

    if wants_json(args):
        say_json(found)
    else:
        say_report(found)
    return Exit.DONE if found.verdict == "passed" else Exit.ERROR


def _outlasting(text: str) -> int:
    """How long an outage lasts; one that calls sit out shows nothing."""
    lasting = seconds(text)
    if lasting < _LASTING_MIN:
        raise ArgumentTypeError(f"a call waits 2s for the store; make it at least {_LASTING_MIN}s")
    return lasting


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_COUNT(part.strip()) for part in text.split(","))
