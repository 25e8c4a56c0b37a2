"""How rooms record a collision, and how people settle one."""

from __future__ import annotations

import msgspec

from interlock.audit.rules import Note, note
from interlock.conflicts.model import (
    CONFLICTS,
    SAFEST,
    TRANSITIONS,
    Affected,
    Competing,
    Conflict,
    ConflictKind,
    Resolution,
)
from interlock.conflicts.refusals import AlreadyResolved
from interlock.identity.model import Caller, Role
from interlock.identity.refusals import NotFound
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.outbox.rules import announce


def record_conflict(
    world: World,
    *,
    tenant: str,
    kind: ConflictKind,
    target: str,
    competing: tuple[Competing, ...],
    affected: Affected,
    conflict_id: str | None = None,
) -> Conflict:
    """Keep a collision for review, with the safest next step of its kind."""
    conflict = world.add(
        CONFLICTS,
        Conflict(
            tenant=tenant,
            id=conflict_id or world.new_id("cnf"),
            kind=kind,
            target=target,
            competing=competing,
            affected=affected,
            safest_next_step=SAFEST[kind].next_step,
            opened_at=world.now,
        ),
    )
    facts = {"kind": kind.value, "target": target, "actors": [side.actor for side in competing]}
    announce(world, tenant, "conflict.opened", conflict.id, facts)
    return conflict


class ResolveConflict(Command[Conflict], frozen=True, kw_only=True):
    """Say how a collision was settled."""

    caller: Caller
    conflict_id: str
    resolution: Resolution
    note: str = ""

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(CONFLICTS.key(self.caller.tenant, self.conflict_id),))

    def decide(self, world: World) -> Conflict:
        by = require(world, self.caller, Role.REVIEW, Role.OPERATE, Role.ADMIN)
        conflict = world.get(CONFLICTS, self.caller.tenant, self.conflict_id)
        if conflict is None:
            raise NotFound("conflict", self.conflict_id)
        state = TRANSITIONS.get((conflict.state, "resolve"))
        if state is None:
            settled = conflict.resolution.value if conflict.resolution else ""
            raise AlreadyResolved(conflict.id, conflict.resolved_by or "", settled)
        note(
            world,
            Note(
                tenant=conflict.tenant,
                actor=by.id,
                action="conflict_resolve",
                subject=conflict.id,
                request_id=self.caller.request_id,
                details={"resolution": self.resolution.value, "note": self.note},
            ),
        )
        announce(
            world, conflict.tenant, "conflict.resolved", conflict.id, {"resolution": self.resolution.value}
        )
        return world.put(
            CONFLICTS,
            msgspec.structs.replace(
                conflict,
                state=state,
                resolution=self.resolution,
                note=self.note,
                resolved_by=by.id,
                resolved_at=world.now,
            ),
        )
