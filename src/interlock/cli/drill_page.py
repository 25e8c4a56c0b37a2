"""A drill's report as operators read it: codes, times, a small chart, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.output import Cell, Column, painted, say, say_table

if TYPE_CHECKING:
    from interlock.drills.report import Bar, Contestant, Phase, Report

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
        mark = painted("✓", "green") if check.held else painted("✗", "red")
        say(f"{mark} {check.claim}" + (painted(f"  ({check.seen})", "dim") if check.seen else ""))
    for left in report.left_behind:
        say(f"{painted('✗', 'red')} left behind: {left}")
    passed = report.verdict == "passed"
    say("", painted(f"verdict: {report.verdict}", "green" if passed else "red"))


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
    """Numbers over time as one row of blocks, at most so many."""
    step = max(1, -(-len(values) // _COLUMNS))
    groups = [values[start : start + step] for start in range(0, len(values), step)]
    return "".join(_HEIGHTS[_height(max(group), most)] for group in groups)


def _height(value: int, most: int) -> int:
    return 0 if not value else max(1, round(8 * value / most))
