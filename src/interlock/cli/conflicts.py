"""`interlock conflicts` and `conflict`: what collided, how to resolve it, and what recurs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.options import Noun, Parser, finished, paging
from interlock.cli.output import (
    Cell,
    Table,
    counted,
    painted,
    safe,
    say,
    say_fields,
    when,
)

if TYPE_CHECKING:
    from interlock.wire.shared import Affected, Conflict, Pattern, TargetState, Touched, Waiting

_STYLES = {"open": "yellow", "resolved": "dim"}
_PATTERNS_LAST = 500
RESOLUTIONS = ("keep_first", "keep_second", "merge", "retry", "discard")


def declare_conflicts() -> Parser:
    """The options of `interlock conflicts`."""
    parser = Parser(
        "interlock conflicts",
        description="List conflicts, newest first. Without --state, the open ones.\n"
        "With --patterns, show instead which conflicts recur, and what would prevent them.",
        examples=(
            "interlock conflicts",
            "interlock conflicts --kind stale_fence --state all --json",
            "interlock conflicts --patterns",
        ),
    )
    parser.add_argument(
        "--state", choices=("open", "resolved", "all"), default="open", help="(default: open)"
    )
    parser.add_argument("--patterns", action="store_true", help="show which conflicts recur")
    parser.add_argument("--kind", metavar="KIND", help="only this kind, such as human_edit_during_lease")
    paging(parser)
    finished(parser, run_conflicts)
    return parser


def declare_conflict() -> Parser:
    """The options of `interlock conflict …`."""
    parser = Noun(
        "interlock conflict",
        description="Show or resolve a conflict.",
        examples=(
            "interlock conflict cnf_…",
            "interlock conflict resolve cnf_… keep_second --note 'the edit is right'",
        ),
    )
    show = parser.verb("show", "show who collided over what, and the safest next step")
    show.add_argument("id", metavar="ID", help="the conflict's id")
    finished(show, run_show)
    resolve = parser.verb("resolve", "resolve it, and carry the resolution out")
    resolve.add_argument("id", metavar="ID", help="the conflict's id")
    resolve.add_argument("resolution", choices=RESOLUTIONS, metavar="|".join(RESOLUTIONS))
    resolve.add_argument("--note", required=True, help="why; it is kept")
    finished(resolve, run_resolve)
    return parser


def run_conflicts(args: Namespace) -> int:
    """List conflicts."""
    from interlock.cli.connection import answer_list
    from interlock.wire.shared import Conflict

    if args.patterns:
        return _patterns(args)
    query = {"state": None if args.state == "all" else args.state, "kind": args.kind}
    return answer_list(
        args,
        "conflicts",
        kind=Conflict,
        tell=say_conflicts,
        command="interlock conflicts",
        nothing="no open conflicts; `interlock conflicts --state all` shows those that were resolved, too",
        query=query,
        options={**query, "state": args.state},
    )


def run_show(args: Namespace) -> int:
    """Show one conflict."""
    from interlock.cli.connection import answer_call
    from interlock.wire.shared import Conflict

    return answer_call(args, "GET", "conflicts", args.id, kind=Conflict, tell=say_conflict)


def run_resolve(args: Namespace) -> int:
    """Settle one conflict."""
    from interlock.cli.connection import answer, connected

    def tell(conflict: Conflict) -> None:
        done = ", ".join(step.replace("_", " ") for step in conflict.carried_out)
        say(f"{conflict.id} is resolved: {args.resolution}" + (f"; carried out: {done}" if done else ""))

    with connected(args) as client:
        conflict = client.resolve_conflict(args.id, args.resolution, note=args.note)
    return answer(args, conflict, tell)


def _patterns(args: Namespace) -> int:
    """Show which conflicts recur, among the newest."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        patterns = client.conflict_patterns(last=_PATTERNS_LAST)
    return answer(args, patterns, lambda patterns: say_patterns(patterns.items))


def declare_targets() -> Parser:
    """The options of `interlock targets`."""
    parser = Parser(
        "interlock targets",
        description="List targets that were touched, by key.",
        examples=("interlock targets", "interlock targets --prefix repo:billing/"),
    )
    parser.add_argument("--prefix", metavar="KEY", help="only keys that begin with it")
    paging(parser)
    return finished(parser, run_targets)


def declare_target() -> Parser:
    """The options of `interlock target`."""
    parser = Noun(
        "interlock target",
        description="Show a target: its version, who holds it, who touched it, what waits and what collided.",
        examples=("interlock target repo:billing/invoice.py",),
    )
    show = parser.verb("show", "show its version, who holds it, who changed it and what waits for it")
    show.add_argument("key", metavar="KEY", help="the target's key")
    finished(show, run_target)
    return parser


def run_targets(args: Namespace) -> int:
    """List targets."""
    from interlock.cli.connection import answer_list
    from interlock.wire.shared import Touched

    return answer_list(
        args,
        "targets",
        kind=Touched,
        tell=say_targets,
        command="interlock targets",
        nothing="no targets; report a change with `interlock touch FILE`",
        query={"prefix": args.prefix},
    )


def run_target(args: Namespace) -> int:
    """Show one target."""
    from interlock.cli.connection import answer_call
    from interlock.wire.shared import TargetState

    return answer_call(args, "GET", "targets", args.key, kind=TargetState, tell=say_target)


def say_targets(targets: Sequence[Touched]) -> None:
    """A table of targets."""
    (
        Table(targets)
        .column("KEY", lambda target: target.key, flexible=True)
        .column("VERSION", lambda target: target.version, flexible=True)
        .column("TOUCHED", lambda target: when(target.touched_at))
        .column("BY", lambda target: target.touched_by or "-", flexible=True)
        .column("CONFLICT", lambda target: target.conflict_id or "-", optional=True)
        .say()
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
        holder = _in_session(owner.principal, owner.session)
        say(f"held by {holder}{purpose}, {owner.state}, {until} ({safe(owner.resource)})")
    _say_waiting("waits for people", target.pending_approvals)
    _say_waiting("waits to run", target.pending_jobs)
    if target.touches:
        say("", painted("last changes", "dim"))
    for touch in target.touches:
        summary = f": {safe(touch.summary)}" if touch.summary else ""
        say(f"  {safe(touch.version)}  {_in_session(touch.actor, touch.session)}, {when(touch.at)}{summary}")
    for conflict in target.conflicts:
        say("", f"! {conflict.kind} {conflict.id}: {safe(conflict.safest_next_step)}")


def _in_session(principal: str, session: str) -> str:
    return f"{safe(principal)} (session {safe(session)})" if session else safe(principal)


def say_conflicts(conflicts: Sequence[Conflict]) -> None:
    """A table of conflicts."""

    def actors(conflict: Conflict) -> str:
        return ", ".join(dict.fromkeys(safe(side.actor) for side in conflict.competing))

    (
        Table(conflicts)
        .column("ID", lambda conflict: conflict.id)
        .column("STATE", _state)
        .column("KIND", lambda conflict: conflict.kind)
        .column("TARGET", lambda conflict: conflict.target, flexible=True)
        .column("WHO", actors, flexible=True, optional=True)
        .column("TIMES", lambda conflict: str(conflict.count))
        .column("LAST SEEN", lambda conflict: when(conflict.last_seen_at))
        .say()
    )


def say_conflict(conflict: Conflict) -> None:
    """Everything about one conflict, and how to settle it."""
    affected = conflict.affected
    say_fields(
        [
            ("conflict", conflict.id),
            ("kind", conflict.kind),
            ("state", _state(conflict)),
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
    if not patterns:
        say("no conflicts yet")
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


def _state(conflict: Conflict) -> Cell:
    return Cell(conflict.state, _STYLES.get(conflict.state, ""))
