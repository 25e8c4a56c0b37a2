"""Runs and limits as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from interlock.cli.output import (
    Cell,
    Column,
    counted,
    exactly,
    lasting,
    one_line,
    painted,
    safe,
    say,
    say_fields,
    say_table,
    when,
)

if TYPE_CHECKING:
    from interlock.wire.admission import AdmissionStats, Limits, Run

_STYLES = {"running": "blue", "succeeded": "green", "failed": "red", "cancelled": "dim", "lost": "yellow"}
_TELLING = {
    "running": "it holds a slot",
    "succeeded": "done",
    "failed": "it failed",
    "cancelled": "it was stopped",
    "lost": "it stopped renewing, so its slot was taken back",
}


ENDED = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was stopped",
    "lost": "lost its slot because it stopped renewing",
}


def say_runs(runs: Sequence[Run]) -> None:
    """A table of runs."""
    columns = (
        Column("ID"),
        Column("STATE"),
        Column("WORKFLOW", flexible=True),
        Column("BY", flexible=True, optional=True),
        Column("STARTED"),
        Column("SLOT", optional=True),
    )
    say_table(
        columns,
        (
            (
                run.run_id,
                Cell(run.state, _STYLES.get(run.state, "")),
                safe(run.workflow),
                safe(run.started_by or "-"),
                when(run.started_at),
                f"ends {when(run.slot_expires_at)}" if run.state == "running" else _held(run),
            )
            for run in runs
        ),
    )


def say_started(run: Run) -> None:
    """What a start came to, and what to do next."""
    name = f"{run.run_id} of {safe(run.workflow)}"
    if run.state != "running":
        say(f"{name} was started before under this key and {ENDED.get(run.state, f'is {run.state}')}")
        return
    say(
        f"{name} holds a slot until {exactly(run.slot_expires_at)} ({when(run.slot_expires_at)}).",
        f"If the workflow has steps they run by themselves: interlock workflow run {run.run_id}",
        "If not, whoever does the work says one of",
        f"  interlock runs renew {run.run_id} --fence {run.fence}",
        f"  interlock runs complete {run.run_id} --fence {run.fence} [--result JSON]",
        f"  interlock runs fail {run.run_id} --fence {run.fence} --error TEXT",
    )


def say_run(run: Run) -> None:
    """Everything about one run."""
    say(painted(safe(run.workflow), "bold"), "")
    is_running = run.state == "running"
    say_fields(
        [
            ("run", run.run_id),
            ("state", Cell(f"{run.state}: {_TELLING.get(run.state, '')}", _STYLES.get(run.state, ""))),
            ("started", f"{when(run.started_at)} by {safe(run.started_by or '-')}"),
            ("ended", "" if run.ended_at is None else f"{when(run.ended_at)} ({exactly(run.ended_at)})"),
            ("slot", f"until {exactly(run.slot_expires_at)}" if is_running else _held(run)),
            ("ttl", f"{run.ttl_seconds}s"),
            ("fence", str(run.fence) if run.fence else ""),
            ("input", "" if run.input is None else one_line(run.input)),
            ("result", "" if run.result is None else one_line(run.result)),
            ("error", safe(run.error)),
        ]
    )


def say_limits(limits: Limits) -> None:
    """A table of limits, and who waits."""
    columns = (
        Column("SCOPE", flexible=True),
        Column("ACTIVE"),
        Column("LIMIT"),
        Column("SET BY"),
        Column("SET"),
    )
    say_table(
        columns,
        (
            (
                safe(limit.scope),
                Cell(str(limit.active), "yellow" if limit.active >= limit.max_concurrent_runs else ""),
                str(limit.max_concurrent_runs),
                safe(limit.set_by or "default"),
                when(limit.set_at),
            )
            for limit in limits.items
        ),
    )
    if limits.waiting:
        say("", f"{counted(limits.waiting, 'start')} waiting in line")


def say_stats(stats: AdmissionStats) -> None:
    """How starts ended, full and broken apart."""
    say(
        f"{stats.admitted} admitted, {stats.full_429} full (429), {stats.unavailable_503} not evaluated (503) "
        f"in the last {stats.window}, on all servers"
    )
    if stats.policy_throttled_429:
        say(f"{counted(stats.policy_throttled_429, 'job')} throttled by the policy (429)")
    outcomes = (Column("ADMITTED"), Column("FULL"), Column("NOT EVALUATED"))
    _say_counts(
        (Column("FROM"), *outcomes, Column("THROTTLED")),
        (
            (exactly(each.at), each.admitted, each.full_429, each.unavailable_503, each.policy_throttled_429)
            for each in stats.series
        ),
    )
    _say_counts(
        (Column("WORKFLOW", flexible=True), *outcomes),
        ((safe(row.workflow), row.admitted, row.full_429, row.unavailable_503) for row in stats.workflows),
    )
    _say_counts(
        (Column("TOPIC", flexible=True), Column("THROTTLED")),
        ((safe(row.topic), row.policy_throttled_429) for row in stats.topics),
    )
    if stats.next_cursor:
        say(
            "", f"There are more: interlock limits stats --window {stats.window} --cursor {stats.next_cursor}"
        )


def _say_counts(columns: Sequence[Column], rows: Iterable[tuple[str, *tuple[int, ...]]]) -> None:
    """A table of numbers by what they count, unless there are none."""
    if found := [(name, *map(str, counts)) for name, *counts in rows]:
        say("")
        say_table(tuple(columns), found)


def _held(run: Run) -> str:
    if run.started_at is None or run.ended_at is None:
        return "-"
    return f"held {lasting((run.ended_at - run.started_at).total_seconds())}"
