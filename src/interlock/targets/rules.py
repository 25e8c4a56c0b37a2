"""Touching a target: a fact, recorded whoever made it.

A touch is never refused for being unwelcome: it has happened. Those whose work it undercuts are told: the holder
of a lease (`conflict_detected`, at its next renewal), and whoever waits with a job for the old version. One
conflict names them all, and further touches by the same actor go into the same conflict while it is open.
"""

from __future__ import annotations

import msgspec

from interlock.audit.rules import Note, note
from interlock.conflicts.model import AFFECTED_MAX, CONFLICTS, Conflict
from interlock.identity.model import Caller, Principal, Role
from interlock.identity.rules import caller_reads, require
from interlock.jobs.model import Job
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import Deferred, World
from interlock.leases.model import NODES, ancestors_of
from interlock.outbox.rules import announce
from interlock.targets.colliding import Collision, holders_reads, leases_held_by_others
from interlock.targets.model import TARGETS, TOUCHES_KEPT, Target, Touch
from interlock.targets.picks import WAITING, JobsWaitingOn

_JOBS_MAX = AFFECTED_MAX
TOUCHERS = (Role.SUBMIT, Role.WORK, Role.REVIEW, Role.OPERATE, Role.ADMIN)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did to a target."""

    key: str
    version: str
    based_on: str | None = None
    summary: str = ""


class TouchTarget(Command[Target], frozen=True, kw_only=True):
    """Record that the caller changed a target. Reporting a version that is known already changes nothing."""

    caller: Caller
    change: Change

    def reads(self) -> Reads:
        tenant, key = self.caller.tenant, self.change.key
        nodes = tuple(NODES.key(tenant, path) for path in (*ancestors_of(key), key))
        # Nodes are owned, so that nobody takes a lease between the look and the touch. The target is only looked
        # at here, and owned after the leases: an effect that begins takes them in the same order.
        target = (TARGETS.key(tenant, key),)
        return caller_reads(self.caller) | Reads(own=nodes, see=target, picks=(self._waiting(),))

    def more(self, world: World) -> Reads:
        """The leases that cover this target, the target, and the conflict that the touch before this one led to."""
        tenant, key = self.caller.tenant, self.change.key
        reads = holders_reads(world, tenant, key) | Reads(own=(TARGETS.key(tenant, key),))
        last = _last_conflict(world.get(TARGETS, tenant, key))
        return reads | (Reads(own=(CONFLICTS.key(tenant, last),)) if last else NOTHING)

    def decide(self, world: World) -> Target:
        toucher = require(world, self.caller, *TOUCHERS)
        before = world.get(TARGETS, self.caller.tenant, self.change.key)
        if before is not None and before.current == self.change.version:
            return before
        last = _last_conflict(before)
        if last is not None and not world.knows(CONFLICTS.key(self.caller.tenant, last)):
            raise Deferred("somebody touched the target between the look at it and its lock; look again")
        conflict = self._collide(world, toucher, before)
        target = world.put(TARGETS, self._touched(world, toucher, before, conflict))
        self._record(world, target)
        return target

    def _collide(self, world: World, toucher: Principal, before: Target | None) -> Conflict | None:
        change = self.change
        collision = Collision(
            tenant=self.caller.tenant,
            key=change.key,
            version=change.version,
            old_version=before.current if before else change.based_on,
            toucher=toucher,
            leases=leases_held_by_others(world, self.caller.tenant, change.key, toucher.id),
            jobs=tuple(job for job in self._waiting_jobs(world) if job.submitted_by != toucher.id),
            overwritten=_overwritten(before, change, toucher.id),
        )
        last = before.touches[0] if before and before.touches else None
        return collision.record(world, last)

    def _touched(
        self, world: World, toucher: Principal, before: Target | None, conflict: Conflict | None
    ) -> Target:
        known = before.current if before else self.change.based_on
        based_on = self.change.based_on
        touch = Touch(
            actor=toucher.id,
            kind=toucher.kind.value,
            version=self.change.version,
            previous_version=known,
            based_on=based_on if based_on != known else None,
            summary=self.change.summary,
            at=world.now,
            conflict_id=conflict.id if conflict else None,
            **_parties(conflict, self.change.version),
        )
        return Target(
            tenant=self.caller.tenant,
            id=self.change.key,
            current=self.change.version,
            touched_at=world.now,
            touched_by=toucher.id,
            touches=(touch, *(before.touches if before else ()))[:TOUCHES_KEPT],
        )

    def _record(self, world: World, target: Target) -> None:
        touch = target.touches[0]
        details = {
            "version": touch.version,
            "previous_version": touch.previous_version,
            "summary": touch.summary,
            "conflict_id": touch.conflict_id,
        }
        note(
            world,
            Note(
                tenant=target.tenant,
                actor=touch.actor,
                action="target_touch",
                subject=target.id,
                subject_version=target.version,
                request_id=self.caller.request_id,
                details={name: value for name, value in details.items() if value},
            ),
        )
        announce(world, target.tenant, "target.touched", target.id, {"by": touch.actor, **details})

    def _waiting_jobs(self, world: World) -> list[Job]:
        """By the clock: what expired no longer waits, whether or not a sweep has run."""
        return [job for job in world.pick(self._waiting()) if job.state_at(world.now) in WAITING]

    def _waiting(self) -> JobsWaitingOn:
        return JobsWaitingOn(
            tenant=self.caller.tenant, target=self.change.key, current=self.change.version, limit=_JOBS_MAX
        )


class TouchTargets(Command[tuple[Target, ...]], frozen=True, kw_only=True):
    """Several touches as one decision, such as all paths of a commit. Each target may appear once."""

    caller: Caller
    changes: tuple[Change, ...]

    def reads(self) -> Reads:
        reads = NOTHING
        for touch in self._touches():
            reads |= touch.reads()
        return reads

    def more(self, world: World) -> Reads:
        reads = NOTHING
        for touch in self._touches():
            reads |= touch.more(world)
        return reads

    def decide(self, world: World) -> tuple[Target, ...]:
        return tuple(touch.decide(world) for touch in self._touches())

    def _touches(self) -> tuple[TouchTarget, ...]:
        return tuple(TouchTarget(caller=self.caller, change=change) for change in self.changes)


def _last_conflict(target: Target | None) -> str | None:
    return target.touches[0].conflict_id if target and target.touches else None


def _parties(conflict: Conflict | None, version: str) -> dict[str, tuple[str, ...]]:
    """Who is named in a conflict, and which versions but the new one they worked on."""
    sides = conflict.competing if conflict else ()
    return {
        "named": tuple(sorted({side.actor for side in sides})),
        "undercut": tuple(sorted({side.version for side in sides if side.version} - {version})),
    }


def _overwritten(before: Target | None, change: Change, toucher: str) -> Touch | None:
    """The last touch by somebody else, if this change was made without having seen it."""
    if before is None or not before.has_moved_from(change.based_on):
        return None
    last = before.touches[0]
    return last if last.actor != toucher else None
