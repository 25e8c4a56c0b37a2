"""How rooms record a conflict, and how people resolve one.

A room that counts repeats loads the group only when it is about to refuse (`repeat_reads` in its command's `more`),
so correct calls do not pay for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import note
from interlock.rooms.conflicts.model import (
    CONFLICTS,
    GROUPS,
    SAFEST,
    TRANSITIONS,
    Affected,
    AlreadyResolved,
    Competing,
    Conflict,
    ConflictKind,
    FollowUp,
    Repeat,
    RepeatGroup,
    Resolution,
)
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, require

_SIDES_MAX = 50


def record_conflict(
    world: World,
    *,
    tenant: str,
    kind: ConflictKind,
    target: str,
    competing: tuple[Competing, ...],
    affected: Affected,
    conflict_id: str | None = None,
    group: str | None = None,
) -> Conflict:
    """Keep a collision for review, with the safest next step of its kind."""
    conflict = world.add(
        CONFLICTS,
        Conflict(
            tenant=tenant,
            id=conflict_id or world.new_id("cnf"),
            kind=kind,
            target=target,
            competing=_bounded(competing),
            affected=affected,
            safest_next_step=SAFEST[kind].next_step,
            opened_at=world.now,
            group=group,
        ),
    )
    facts = {"kind": kind.value, "target": target, "actors": [side.actor for side in conflict.competing]}
    announce(world, tenant, "conflict.opened", conflict.id, facts)
    return conflict


def add_to_conflict(world: World, conflict: Conflict, side: Competing) -> Conflict:
    """Add one more side to an open conflict, which must be locked."""
    sides = _bounded((*conflict.competing, side))
    seen = msgspec.structs.replace(
        conflict, competing=sides, count=conflict.count + 1, last_seen_at=world.now
    )
    return world.put(CONFLICTS, seen)


def _bounded(sides: tuple[Competing, ...]) -> tuple[Competing, ...]:
    """The sides of a conflict that are kept: the first ones, and the last, which is the newest."""
    return sides if len(sides) <= _SIDES_MAX else (*sides[: _SIDES_MAX - 1], sides[-1])


def repeat_reads(repeat: Repeat) -> Reads:
    """The reads of `record_repeat` and `conflict_of_repeat`."""
    return Reads(own=(GROUPS.key(repeat.tenant, repeat.group_id),))


def conflict_of_repeat(world: World, repeat: Repeat) -> str | None:
    """The open conflict that one more repeat would be counted into, if there is one."""
    group = world.get(GROUPS, repeat.tenant, repeat.group_id)
    return group.conflict_id if group is not None else None


def record_repeat(
    world: World,
    repeat: Repeat,
    competing: tuple[Competing, ...],
    affected: Affected,
    *,
    conflict_id: str | None = None,
) -> str:
    """Count a collision into the open conflict of its group, or open one; returns the conflict's id."""
    group = world.get(GROUPS, repeat.tenant, repeat.group_id)
    if group is not None:
        seen = msgspec.structs.replace(group, count=group.count + 1, last_seen_at=world.now)
        return world.put(GROUPS, seen).conflict_id
    conflict = record_conflict(
        world,
        tenant=repeat.tenant,
        kind=repeat.kind,
        target=repeat.target,
        competing=competing,
        affected=affected,
        conflict_id=conflict_id,
        group=repeat.group_id,
    )
    world.put(
        GROUPS,
        RepeatGroup(
            tenant=repeat.tenant, id=repeat.group_id, conflict_id=conflict.id, last_seen_at=world.now
        ),
    )
    return conflict.id


class ResolveConflict(Command[Conflict], frozen=True, kw_only=True):
    """Say how a collision was settled, and carry that out.

    `steps` are the commands of other rooms that the resolution means (`CARRIED_OUT`), by the same caller. They
    are decided here, so the resolution is recorded if and only if all of it could be done.
    """

    caller: Caller
    conflict_id: str
    resolution: Resolution
    note: str
    steps: tuple[tuple[FollowUp, Command[Any]], ...] = ()

    def reads(self) -> Reads:
        # Read without locking here, locked below: lease nodes are locked before conflicts, as in a touch.
        reads = caller_reads(self.caller) | Reads(see=(CONFLICTS.key(self.caller.tenant, self.conflict_id),))
        for _, step in self.steps:
            reads |= step.reads()
        return reads

    def more(self, world: World) -> Reads:
        conflict = self._found(world)
        reads = Reads(own=(CONFLICTS.key_of(conflict),))
        if conflict.group is not None:
            reads |= Reads(own=(GROUPS.key(conflict.tenant, conflict.group),))
        for _, step in self.steps:
            reads |= step.more(world)
        return reads

    def decide(self, world: World) -> Conflict:
        by = require(world, self.caller, Role.REVIEW, Role.OPERATE, Role.ADMIN)
        conflict = self._found(world)
        state = TRANSITIONS.get((conflict.state, "resolve"))
        if state is None:
            settled = conflict.resolution.value if conflict.resolution else ""
            raise AlreadyResolved(conflict.id, conflict.resolved_by or "", conflict.resolved_at, settled)
        for _, step in self.steps:
            step.decide(world)
        settled = msgspec.structs.replace(
            self._counted(world, conflict),
            state=state,
            resolution=self.resolution,
            note=self.note,
            resolved_by=by.id,
            resolved_at=world.now,
            carried_out=tuple(dict.fromkeys(follow_up for follow_up, _ in self.steps)),
        )
        stored = world.put(CONFLICTS, settled)
        self._record(world, stored)
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        for _, step in self.steps:
            step.refused(world, refusal)

    def _found(self, world: World) -> Conflict:
        conflict = world.get(CONFLICTS, self.caller.tenant, self.conflict_id)
        if conflict is None:
            raise NotFound("conflict", self.conflict_id)
        return conflict

    def _counted(self, world: World, conflict: Conflict) -> Conflict:
        """The conflict with the count of its group, which ends here."""
        group = world.get(GROUPS, conflict.tenant, conflict.group) if conflict.group else None
        if group is None or group.conflict_id != conflict.id:
            return conflict
        world.delete(GROUPS, group)
        return msgspec.structs.replace(conflict, count=group.count, last_seen_at=group.last_seen_at)

    def _record(self, world: World, conflict: Conflict) -> None:
        carried_out = [follow_up.value for follow_up in conflict.carried_out]
        facts = {"resolution": self.resolution.value, "carried_out": carried_out}
        note(
            world,
            self.caller,
            "conflict_resolve",
            conflict.id,
            subject_version=conflict.version,
            details={**facts, "note": self.note},
        )
        announce(world, conflict.tenant, "conflict.resolved", conflict.id, facts)
