"""Whose work a touch undercuts, and the one conflict that names them all."""

from __future__ import annotations

import msgspec

from interlock.conflicts.model import (
    CONFLICTS,
    Competing,
    Conflict,
    ConflictKind,
    ConflictState,
    affecting,
)
from interlock.conflicts.rules import add_to_conflict, record_conflict
from interlock.identity.model import Principal, PrincipalKind
from interlock.jobs.model import Job
from interlock.kernel.record import Key, Reads
from interlock.kernel.world import World
from interlock.leases.model import LEASES, NODES, TRANSITIONS, Holder, Lease, ancestors_of
from interlock.outbox.rules import announce
from interlock.targets.model import Touch


def holders_reads(world: World, tenant: str, key: str) -> Reads:
    """The leases that cover a target, once its nodes are loaded."""
    keys = [LEASES.key(tenant, holder.lease_id) for holder in _holders(world, tenant, key)]
    return Reads(own=tuple(dict[Key, None].fromkeys(keys)))


def leases_held_by_others(world: World, tenant: str, key: str, toucher: str) -> tuple[Lease, ...]:
    """The live leases that cover a target, on it or above it; none if the toucher has one of them.

    Whoever shares a lease may change what it is on.
    """
    found = (world.get(LEASES, tenant, holder.lease_id) for holder in _holders(world, tenant, key))
    live = tuple(lease for lease in found if lease and lease.is_live_at(world.now))
    return () if any(lease.owner == toucher for lease in live) else live


class Collision(msgspec.Struct, frozen=True, kw_only=True):
    """A touch and everybody whose work it undercuts; with nobody, it is none."""

    tenant: str
    key: str
    version: str
    old_version: str | None
    toucher: Principal
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
        """The open conflict of the touch before, if it names everybody that this one concerns."""
        if last is None or last.conflict_id is None or last.actor != self.toucher.id:
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
            Competing(actor=each.owner, version=old, at=each.since, what="holds the lease")
            for each in self.leases
        ]
        for job in self.jobs:
            version = job.action.target.version if job.action.target else None
            what = f"waits with {job.id}"
            sides.append(Competing(actor=job.submitted_by, version=version, at=job.submitted_at, what=what))
        if self.overwritten:
            other = self.overwritten
            what = "changed it, and was not seen"
            sides.append(Competing(actor=other.actor, version=other.version, at=other.at, what=what))
        return tuple(sides)

    def _change(self, world: World) -> Competing:
        return Competing(actor=self.toucher.id, version=self.version, at=world.now, what="changed it")

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
