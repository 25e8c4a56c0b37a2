"""Effects, targets and conflicts as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from interlock.cli.output import (
    Cell,
    Column,
    counted,
    exactly,
    one_line,
    painted,
    safe,
    say,
    say_fields,
    say_table,
    when,
)

if TYPE_CHECKING:
    from interlock.wire.effects import Effect
    from interlock.wire.shared import Affected, Conflict, Pattern, TargetState, Touched, Waiting

_STYLES = {
    "COMMITTED": "green",
    "IN_PROGRESS": "blue",
    "FAILED": "dim",
    "AMBIGUOUS": "red",
    "open": "yellow",
    "resolved": "dim",
    "conflict_detected": "red",
}


def say_effects(effects: Sequence[Effect]) -> None:
    """A table of effects."""
    columns = (
        Column("ACTION", flexible=True),
        Column("STATE"),
        Column("ATTEMPT"),
        Column("BY", flexible=True, optional=True),
        Column("BEGUN"),
        Column("ENDED", optional=True),
    )
    say_table(
        columns,
        (
            (
                safe(effect.action_id),
                _state(effect.state),
                str(effect.fence or "-"),
                safe(effect.begun_by or "-"),
                when(effect.begun_at),
                when(effect.ended_at),
            )
            for effect in effects
        ),
    )


def say_effect(effect: Effect) -> None:
    """Everything about one effect, and what to do if its outcome is unknown."""
    said = effect.resolved
    say_fields(
        [
            ("action", safe(effect.action_id)),
            ("state", _state(effect.state)),
            ("attempt", f"{effect.fence or '-'}, by {safe(effect.begun_by or '-')} {when(effect.begun_at)}"),
            ("in time", f"until {exactly(effect.expires_at)}" if effect.state == "IN_PROGRESS" else ""),
            ("remote key", effect.downstream_key),
            ("job", effect.job_id or ""),
            (
                "grant",
                f"{effect.grant.id}, use {effect.grant.use} for {effect.grant.task}" if effect.grant else "",
            ),
            ("result", _result(effect)),
            ("error", one_line(effect.error) if effect.error is not None else ""),
            (
                "resolved",
                f"{said.outcome} by {safe(said.by or '-')}: {one_line(said.evidence)}" if said else "",
            ),
        ]
    )
    if effect.state == "AMBIGUOUS":
        say(
            "",
            "whether it happened is not known. Ask the remote side about its key, then:",
            f"  interlock effect resolve {quote(effect.action_id)} committed|not_committed --evidence '…'",
        )


def say_targets(targets: Sequence[Touched]) -> None:
    """A table of targets."""
    columns = (
        Column("KEY", flexible=True),
        Column("VERSION", flexible=True),
        Column("TOUCHED"),
        Column("BY", flexible=True),
        Column("CONFLICT", optional=True),
    )
    say_table(
        columns,
        (
            (
                safe(target.key),
                safe(target.version),
                when(target.touched_at),
                safe(target.touched_by or "-"),
                target.conflict_id or "-",
            )
            for target in targets
        ),
    )


def say_target(target: TargetState) -> None:
    """Everything about one target."""
    say(painted(safe(target.key), "bold"), "")
    say_fields(
        [
            ("version", safe(target.version or "not reported yet")),
            (
                "touched",
                f"{when(target.touched_at)} by {safe(target.touched_by)}" if target.touched_by else "",
            ),
        ]
    )
    for owner in target.owners:
        purpose = f" for {safe(owner.purpose)}" if owner.purpose else ""
        until = f"until {when(owner.expires_at)}"
        say(f"held by {safe(owner.principal)}{purpose}, {owner.state}, {until} ({safe(owner.resource)})")
    _say_waiting("waits for people", target.pending_approvals)
    _say_waiting("waits to run", target.pending_jobs)
    if target.touches:
        say("", painted("last changes", "dim"))
    for touch in target.touches:
        summary = f": {safe(touch.summary)}" if touch.summary else ""
        say(f"  {safe(touch.version)}  {safe(touch.actor)}, {when(touch.at)}{summary}")
    for conflict in target.conflicts:
        say("", f"! {conflict.kind} {conflict.id}: {safe(conflict.safest_next_step)}")


def say_conflicts(conflicts: Sequence[Conflict]) -> None:
    """A table of conflicts."""
    columns = (
        Column("ID"),
        Column("STATE"),
        Column("KIND"),
        Column("TARGET", flexible=True),
        Column("WHO", flexible=True, optional=True),
        Column("TIMES"),
        Column("LAST SEEN"),
    )
    say_table(
        columns,
        (
            (
                conflict.id,
                _state(conflict.state),
                conflict.kind,
                safe(conflict.target),
                ", ".join(dict.fromkeys(safe(side.actor) for side in conflict.competing)),
                str(conflict.count),
                when(conflict.last_seen_at),
            )
            for conflict in conflicts
        ),
    )


def say_conflict(conflict: Conflict) -> None:
    """Everything about one conflict, and how to settle it."""
    affected = conflict.affected
    say_fields(
        [
            ("conflict", conflict.id),
            ("kind", conflict.kind),
            ("state", _state(conflict.state)),
            ("target", safe(conflict.target)),
            ("affects", ", ".join(filter(None, _affected(affected)))),
            ("happened", f"{counted(conflict.count, 'time')}, last {when(conflict.last_seen_at)}"),
        ]
    )
    say("", painted("who collided", "dim"))
    for side in conflict.competing:
        version = f" (version {safe(side.version)})" if side.version else ""
        say(f"  {safe(side.actor)}, {when(side.at)}: {safe(side.what)}{version}")
    say("", f"safest now: {safe(conflict.safest_next_step)}", f"next time:  {safe(conflict.prevention)}")
    if conflict.state == "open":
        best = conflict.safest_resolution or "keep_first|keep_second|merge|retry|discard"
        say("", f"  interlock conflict resolve {conflict.id} {best} --note '…'")
        say(*(f"  {word}: {', '.join(steps)}" for word, steps in conflict.would_carry_out.items() if steps))
    else:
        say(
            "",
            f"resolved by {safe(conflict.resolved_by or '-')}: {conflict.resolution}; {safe(conflict.note)}",
        )


def say_patterns(patterns: Sequence[Pattern]) -> None:
    """What keeps colliding, the most frequent first, each with the line that would prevent it."""
    for pattern in patterns:
        times = counted(pattern.count, "time")
        say(
            f"{times:>10}  {pattern.kind} over {safe(pattern.target_prefix)} ({pattern.open} open, "
            f"last {when(pattern.last_seen_at)})",
            f"            {safe(pattern.prevention)}",
        )


def _say_waiting(title: str, waiting: Sequence[Waiting]) -> None:
    if waiting:
        say("", painted(title, "dim"))
    for job in waiting:
        drifted = painted("  drafted for another version", "yellow") if job.drifted else ""
        say(f"  {job.job_id}  {safe(job.topic)} by {safe(job.submitted_by or '-')}{drifted}")


def _affected(affected: Affected) -> tuple[str | None, ...]:
    """Everything that a conflict names; a server of an earlier version names the first of each."""
    jobs, leases = affected.jobs or (affected.job,), affected.leases or (affected.lease,)
    return (*jobs, affected.effect, *leases)


def _result(effect: Effect) -> str:
    if effect.stored_result is not None:
        return f"{effect.stored_result.size} bytes, {effect.stored_result.digest}"
    return one_line(effect.result) if effect.state == "COMMITTED" else ""


def _state(state: str) -> Cell:
    return Cell(state, _STYLES.get(state, ""))
