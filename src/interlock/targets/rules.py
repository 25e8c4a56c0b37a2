"""Touching a target: a fact, recorded whoever made it; collisions with a lease or a pending approval become conflicts."""

from __future__ import annotations

import msgspec

from interlock.audit.rules import Note, note
from interlock.conflicts.model import Affected, Competing, Conflict, ConflictKind
from interlock.conflicts.rules import record_conflict
from interlock.identity.model import Caller, Principal, PrincipalKind, Role
from interlock.identity.rules import caller_reads, require
from interlock.jobs.model import Job
from interlock.kernel.command import Command
from interlock.kernel.record import Key, Reads
from interlock.kernel.world import World
from interlock.leases.model import LEASES, NODES, TRANSITIONS, Lease, Mode, ancestors_of
from interlock.outbox.rules import announce
from interlock.targets.model import TARGETS, Target, Touch
from interlock.targets.picks import JobsWaitingOn

_TOUCHES_MAX = 20
_JOBS_MAX = 20


class TouchTarget(Command[Target], frozen=True, kw_only=True):
    """Record that the caller changed a target to `version`.

    Whoever holds a lease on it learns of it (`conflict_detected`), and approvals bound to the old version no
    longer hold. One conflict names the toucher, the holder and the waiting jobs.
    """

    caller: Caller
    key: str
    target_version: str
    previous_version: str | None = None
    summary: str = ""

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        nodes = tuple(NODES.key(tenant, path) for path in (*ancestors_of(self.key), self.key))
        return caller_reads(self.caller) | Reads(
            own=(TARGETS.key(tenant, self.key),), see=nodes, picks=(self._waiting(),)
        )

    def more(self, world: World) -> Reads:
        """The leases that cover this target."""
        tenant, keys = self.caller.tenant, list[Key]()
        for path in (*ancestors_of(self.key), self.key):
            node = world.get(NODES, tenant, path)
            for holder in node.holders if node else ():
                if holder.tree or path == self.key:
                    keys.append(LEASES.key(tenant, holder.lease_id))
        return Reads(own=tuple(dict.fromkeys(keys)))

    def decide(self, world: World) -> Target:
        toucher = require(world, self.caller, Role.SUBMIT, Role.WORK, Role.REVIEW, Role.OPERATE, Role.ADMIN)
        before = world.get(TARGETS, self.caller.tenant, self.key)
        if before is not None and before.current == self.target_version:
            return before
        conflict = self._collide(world, toucher, before)
        target = self._touched(world, toucher, before, conflict.id if conflict else None)
        details = {"version": self.target_version, "summary": self.summary}
        note(
            world,
            Note(
                tenant=target.tenant,
                actor=toucher.id,
                action="target_touch",
                subject=self.key,
                request_id=self.caller.request_id,
                details=details,
            ),
        )
        announce(world, target.tenant, "target.touched", self.key, {"by": toucher.id, **details})
        return target

    def _touched(self, world: World, toucher: Principal, before: Target | None, conflict_id: str | None) -> Target:
        touch = Touch(
            actor=toucher.id,
            kind=toucher.kind.value,
            version=self.target_version,
            previous_version=self.previous_version or (before.current if before else None),
            summary=self.summary,
            at=world.now,
            conflict_id=conflict_id,
        )
        return world.put(
            TARGETS,
            Target(
                tenant=self.caller.tenant,
                id=self.key,
                current=self.target_version,
                touched_at=world.now,
                touched_by=toucher.id,
                touches=(touch, *(before.touches if before else ()))[:_TOUCHES_MAX],
            ),
        )

    def _collide(self, world: World, toucher: Principal, before: Target | None) -> Conflict | None:
        """One conflict for everyone whose work this change undercuts; None if there is nobody."""
        leases = [lease for lease in self._live_leases(world) if lease.owner != toucher.id]
        jobs = [job for job in world.pick(self._waiting()) if self._is_bound_elsewhere(job)]
        if not leases and not jobs:
            return None
        conflict = record_conflict(
            world,
            tenant=self.caller.tenant,
            kind=self._kind(toucher, leases),
            target=self.key,
            competing=self._competing(world, toucher, before, leases, jobs),
            affected=Affected(
                job=jobs[0].id if jobs else None, lease=leases[0].id if leases else None
            ),
        )
        for lease in leases:
            state = TRANSITIONS[lease.state, "touch"]
            world.put(LEASES, msgspec.structs.replace(lease, state=state, conflict_id=conflict.id))
            facts = {"resource": lease.resource, "owner": lease.owner, "conflict_id": conflict.id}
            announce(world, lease.tenant, "lease.conflict_detected", lease.id, facts)
        return conflict

    def _kind(self, toucher: Principal, leases: list[Lease]) -> ConflictKind:
        if leases and toucher.kind is PrincipalKind.PERSON:
            return ConflictKind.HUMAN_EDIT_DURING_LEASE
        return ConflictKind.DUPLICATE_WORK if leases else ConflictKind.TARGET_CHANGED_AFTER_DRAFT

    def _competing(
        self, world: World, toucher: Principal, before: Target | None, leases: list[Lease], jobs: list[Job]
    ) -> tuple[Competing, ...]:
        old = before.current if before else self.previous_version
        holders = [Competing(actor=each.owner, version=old, at=each.since, what="holds the lease") for each in leases]
        drafts = [
            Competing(
                actor=job.submitted_by,
                version=job.action.target.version if job.action.target else None,
                at=job.submitted_at,
                what=f"waits with {job.id}",
            )
            for job in jobs
        ]
        change = Competing(actor=toucher.id, version=self.target_version, at=world.now, what="changed it")
        return (*holders, *drafts, change)

    def _live_leases(self, world: World) -> list[Lease]:
        found: list[Lease] = []
        for path in (*ancestors_of(self.key), self.key):
            node = world.get(NODES, self.caller.tenant, path)
            for holder in node.holders if node else ():
                if holder.mode is Mode.SHARED or not (holder.tree or path == self.key):
                    continue
                lease = world.get(LEASES, self.caller.tenant, holder.lease_id)
                if lease is not None and lease.is_live_at(world.now):
                    found.append(lease)
        return found

    def _is_bound_elsewhere(self, job: Job) -> bool:
        target = job.action.target
        return target is not None and target.version is not None and target.version != self.target_version

    def _waiting(self) -> JobsWaitingOn:
        return JobsWaitingOn(tenant=self.caller.tenant, target=self.key, limit=_JOBS_MAX)
