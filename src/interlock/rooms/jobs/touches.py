"""Touching a target: records that it changed, and who changed it.

A touch is never refused because it is unwelcome: the change has already happened. It tells all whose work it
affects: the holder of a lease (`conflict_detected`, at the next renewal), and submitters of jobs that wait for the
old version. One conflict names them all; further touches by the same actor go into the same conflict while it is
open.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.record import NOTHING, Key, Params, Pick, Reads
from interlock.kernel.world import Command, Deferred, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.conflicts.model import (
    AFFECTED_MAX,
    CONFLICTS,
    Competing,
    Conflict,
    ConflictKind,
    ConflictState,
    affecting,
)
from interlock.rooms.conflicts.rules import add_to_conflict, record_conflict
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller, Principal, PrincipalKind, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.jobs.model import JOBS, Job, JobState
from interlock.rooms.leases.model import LEASES, NODES, TRANSITIONS, Holder, Lease, ancestors_of
from interlock.rooms.targets.model import TARGETS, TOUCHES_KEPT, Target, Touch


def holders_reads(world: World, tenant: str, key: str) -> Reads:
    """The leases that cover a target, once its nodes are loaded."""
    keys = [LEASES.key(tenant, holder.lease_id) for holder in _holders(world, tenant, key)]
    return Reads(own=tuple(dict[Key, None].fromkeys(keys)))


def _live_leases(world: World, tenant: str, key: str) -> tuple[Lease, ...]:
    """The live leases that cover a target, on it or above it."""
    found = (world.get(LEASES, tenant, holder.lease_id) for holder in _holders(world, tenant, key))
    return tuple(lease for lease in found if lease and lease.is_live_at(world.now))


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """A target after a touch. `held_in_session` names the session that holds the target, if its own principal
    touched it and named none: whether that was the holder is not known, so it is taken for the holder.
    """

    target: Target
    held_in_session: str = ""


class Collision(msgspec.Struct, frozen=True, kw_only=True):
    """A touch and all whose work it affects; if it affects nobody, there is no collision."""

    tenant: str
    key: str
    version: str
    old_version: str | None
    toucher: Principal
    session: str
    leases: tuple[Lease, ...]
    jobs: tuple[Job, ...]
    overwritten: Touch | None

    def record(self, world: World, last: Touch | None) -> Conflict | None:
        """Open a conflict, or add to the one that the touch before by the same actor led to; tell holders."""
        if not (self.leases or self.jobs or self.overwritten):
            return None
        known = self._known(world, last)
        conflict = add_to_conflict(world, known, self._change(world)) if known else self._open(world)
        for lease in self.leases:
            self._tell(world, lease, conflict)
        return conflict

    def _known(self, world: World, last: Touch | None) -> Conflict | None:
        """The open conflict of the touch before, if it names all that this one affects."""
        if last is None or last.conflict_id is None or not last.is_by(self.toucher.id, self.session):
            return None
        conflict = world.get(CONFLICTS, self.tenant, last.conflict_id)
        if conflict is None or conflict.state is not ConflictState.OPEN or conflict.target != self.key:
            return None
        sides = {(side.actor, side.what) for side in conflict.competing}
        return conflict if {(side.actor, side.what) for side in self._undercut()} <= sides else None

    def _open(self, world: World) -> Conflict:
        return record_conflict(
            world,
            tenant=self.tenant,
            kind=self._kind(),
            target=self.key,
            competing=(*self._undercut(), self._change(world)),
            affected=affecting(jobs=[job.id for job in self.jobs], leases=[each.id for each in self.leases]),
        )

    def _kind(self) -> ConflictKind:
        if self.leases and self.toucher.kind is PrincipalKind.PERSON:
            return ConflictKind.HUMAN_EDIT_DURING_LEASE
        if self.leases or self.overwritten:
            return ConflictKind.DUPLICATE_WORK
        return ConflictKind.TARGET_CHANGED_AFTER_DRAFT

    def _undercut(self) -> tuple[Competing, ...]:
        old = self.old_version
        sides = [
            Competing(
                actor=each.owner,
                version=old,
                at=each.since,
                what=_in_session("holds the lease", each.session),
            )
            for each in self.leases
        ]
        for job in self.jobs:
            version = job.action.target.version if job.action.target else None
            what = f"waits with {job.id}"
            sides.append(Competing(actor=job.submitted_by, version=version, at=job.submitted_at, what=what))
        if self.overwritten:
            other = self.overwritten
            what = _in_session("changed it, and was not seen", other.session)
            sides.append(Competing(actor=other.actor, version=other.version, at=other.at, what=what))
        return tuple(sides)

    def _change(self, world: World) -> Competing:
        what = _in_session("changed it", self.session)
        return Competing(actor=self.toucher.id, version=self.version, at=world.now, what=what)

    def _tell(self, world: World, lease: Lease, conflict: Conflict) -> None:
        state = TRANSITIONS[lease.state, "touch"]
        if (lease.state, lease.conflict_id) == (state, conflict.id):
            return
        world.put(LEASES, msgspec.structs.replace(lease, state=state, conflict_id=conflict.id))
        facts = {"resource": lease.resource, "owner": lease.owner, "conflict_id": conflict.id}
        announce(world, lease.tenant, "lease.conflict_detected", lease.id, facts)


def _holders(world: World, tenant: str, key: str) -> list[Holder]:
    found: list[Holder] = []
    for path in (*ancestors_of(key), key):
        node = world.get(NODES, tenant, path)
        found += [holder for holder in (node.holders if node else ()) if holder.tree or path == key]
    return found


WAITING = (JobState.APPROVAL, JobState.PENDING)


class JobsWaitingOn(Pick[Job], frozen=True, kw_only=True):
    """Jobs that have not run yet and are bound to another version of this target, oldest first; read without locks."""

    kind = JOBS
    query = "targets.jobs_waiting_on"

    tenant: str
    target: str
    current: str
    own: bool = False

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "target": self.target, "current": self.current}

    def matches(self, record: Job, now: datetime) -> bool:
        target = record.action.target
        return (
            record.tenant == self.tenant
            and target is not None
            and target.key == self.target
            and target.version is not None
            and target.version != self.current
            and record.state in WAITING
        )

    def sort_key(self, record: Job) -> Any:
        return record.id


_JOBS_MAX = AFFECTED_MAX
TOUCHERS = (Role.SUBMIT, Role.WORK, Role.REVIEW, Role.OPERATE, Role.ADMIN)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a target."""

    key: str
    version: str
    based_on: str | None = None
    summary: str = ""


class TouchTarget(Command[Touched], frozen=True, kw_only=True):
    """Record that the caller changed a target. Reporting a version that is known already changes nothing."""

    caller: Caller
    change: Change
    session: str = ""

    def reads(self) -> Reads:
        tenant, key = self.caller.tenant, self.change.key
        nodes = tuple(NODES.key(tenant, path) for path in (*ancestors_of(key), key))
        # Nodes are locked, so that no caller takes a lease between the look and the touch. The target is only looked
        # at here, and owned after the leases: an effect that begins takes them in the same order.
        target = (TARGETS.key(tenant, key),)
        return caller_reads(self.caller) | Reads(own=nodes, see=target, picks=(self._waiting(),))

    def more(self, world: World) -> Reads:
        """The leases that cover this target, the target, and the conflict that the touch before this one led to."""
        tenant, key = self.caller.tenant, self.change.key
        reads = holders_reads(world, tenant, key) | Reads(own=(TARGETS.key(tenant, key),))
        last = _last_conflict(world.get(TARGETS, tenant, key))
        return reads | (Reads(own=(CONFLICTS.key(tenant, last),)) if last else NOTHING)

    def decide(self, world: World) -> Touched:
        toucher = require(world, self.caller, *TOUCHERS)
        before = world.get(TARGETS, self.caller.tenant, self.change.key)
        if before is not None and before.current == self.change.version:
            return Touched(target=before)
        last = _last_conflict(before)
        if last is not None and not world.knows(CONFLICTS.key(self.caller.tenant, last)):
            raise Deferred("another caller touched the target between the read and its lock; read again")
        leases = _live_leases(world, self.caller.tenant, self.change.key)
        mine = [lease for lease in leases if self._is_mine(lease)]
        # A principal that shares a lease may change the lease's resource.
        conflict = self._collide(world, toucher, before, () if mine else leases)
        target = world.put(TARGETS, self._touched(world, toucher, before, conflict))
        self._record(world, target)
        unnamed = [lease.session for lease in mine if not lease.is_of(self.session)]
        is_unclear = len(unnamed) == len(mine) > 0
        return Touched(target=target, held_in_session=unnamed[0] if is_unclear else "")

    def _is_mine(self, lease: Lease) -> bool:
        """Whether the caller holds it. Without a session it does: a person or a program may not know of sessions."""
        return lease.owner == self.caller.principal and (not self.session or lease.is_of(self.session))

    def _collide(
        self, world: World, toucher: Principal, before: Target | None, leases: tuple[Lease, ...]
    ) -> Conflict | None:
        change = self.change
        collision = Collision(
            tenant=self.caller.tenant,
            key=change.key,
            version=change.version,
            old_version=before.current if before else change.based_on,
            toucher=toucher,
            session=self.session,
            leases=leases,
            jobs=tuple(job for job in self._waiting_jobs(world) if job.submitted_by != toucher.id),
            overwritten=_overwritten(before, change, toucher.id, self.session),
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
            session=self.session,
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
            "session": touch.session,
            "conflict_id": touch.conflict_id,
        }
        note(
            world,
            Author(tenant=target.tenant, principal=touch.actor, request_id=self.caller.request_id),
            "target_touch",
            target.id,
            subject_version=target.version,
            details={name: value for name, value in details.items() if value},
        )
        announce(world, target.tenant, "target.touched", target.id, {"by": touch.actor, **details})

    def _waiting_jobs(self, world: World) -> list[Job]:
        """The waiting jobs by the clock: an expired one no longer waits, whether or not a sweep has run."""
        return [job for job in world.pick(self._waiting()) if job.state_at(world.now) in WAITING]

    def _waiting(self) -> JobsWaitingOn:
        return JobsWaitingOn(
            tenant=self.caller.tenant, target=self.change.key, current=self.change.version, limit=_JOBS_MAX
        )


class TouchTargets(Command[tuple[Touched, ...]], frozen=True, kw_only=True):
    """Several touches as one decision, such as all paths of a commit. Each target may appear once."""

    caller: Caller
    changes: tuple[Change, ...]
    session: str = ""

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

    def decide(self, world: World) -> tuple[Touched, ...]:
        return tuple(touch.decide(world) for touch in self._touches())

    def _touches(self) -> tuple[TouchTarget, ...]:
        return tuple(
            TouchTarget(caller=self.caller, change=change, session=self.session) for change in self.changes
        )


def _last_conflict(target: Target | None) -> str | None:
    return target.touches[0].conflict_id if target and target.touches else None


def _parties(conflict: Conflict | None, version: str) -> dict[str, tuple[str, ...]]:
    """The parties of a conflict, and the older versions that they worked on."""
    sides = conflict.competing if conflict else ()
    return {
        "named": tuple(sorted({side.actor for side in sides})),
        "undercut": tuple(sorted({side.version for side in sides if side.version} - {version})),
    }


def _in_session(what: str, session: str) -> str:
    return f"{what} in session {session}" if session else what


def _overwritten(before: Target | None, change: Change, toucher: str, session: str) -> Touch | None:
    """The last touch by another actor, if this change was made without having seen it."""
    if before is None or not before.has_moved_from(change.based_on):
        return None
    last = before.touches[0]
    return None if last.is_by(toucher, session) else last
