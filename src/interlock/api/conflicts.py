"""Conflicts over HTTP: list, read, resolve, and see which ones recur."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.api.calls import Asked, caller_of, decide
from interlock.api.jobs import READERS
from interlock.api.operations import Answer, Operation, Query, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.rooms.conflicts import queries
from interlock.rooms.conflicts.model import SAFEST, Conflict, ConflictKind, ConflictState, Resolution
from interlock.rooms.conflicts.queries import Pattern, patterns_of
from interlock.rooms.conflicts.rules import ResolveConflict
from interlock.rooms.effects.queries import read_effect
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs.queries import read_job
from interlock.rooms.jobs.settlement import Concerned, Settlement, steps_of
from interlock.rooms.leases.queries import read_lease
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import shared as wire
from interlock.wire.fields import OMITTED, Page


class ConflictsQuery(PageQuery, frozen=True, kw_only=True):
    state: ConflictState | None = None
    kind: ConflictKind | None = None


class PatternsQuery(Query, frozen=True, kw_only=True):
    """`last`: over how many of the newest conflicts."""

    last: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 500


async def listed(call: Asked[ConflictsQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_conflicts(
        call.services.store,
        call.caller.tenant,
        state=query.state,
        kind=query.kind,
        before=id_cursor(query.cursor, "cnf"),
        limit=query.limit,
    )
    return Reply(
        200, Page(items=tuple(conflict_view(each) for each in found.items), next_cursor=found.next_cursor)
    )


async def read(call: Asked[None, None]) -> Reply:
    conflict = await _read(call)
    would = await _would_carry_out(call, conflict) if conflict.state is ConflictState.OPEN else OMITTED
    return Reply(200, msgspec.structs.replace(conflict_view(conflict), would_carry_out=would))


async def resolve(call: Asked[None, wire.ResolveConflictBody]) -> Answer:
    conflict = await _read(call)
    resolution = Resolution(call.body.resolution)
    said = Settlement(by=caller_of(call), resolution=resolution, note=call.body.note)
    command = ResolveConflict(
        caller=said.by,
        conflict_id=conflict.id,
        resolution=said.resolution,
        note=said.note,
        steps=steps_of(conflict, said, await _concerned(call, conflict), call.services.now()),
    )
    return await decide(call, command, lambda resolved: Reply(200, conflict_view(resolved)))


async def patterns(call: Asked[PatternsQuery, None]) -> Reply:
    found = await queries.list_conflicts(
        call.services.store, call.caller.tenant, state=None, kind=None, before=None, limit=call.query.last
    )
    items = tuple(_pattern_view(pattern) for pattern in patterns_of(found.items))
    return Reply(200, wire.Patterns(examined=len(found.items), items=items))


async def _would_carry_out(call: Asked[Any, Any], conflict: Conflict) -> dict[str, tuple[str, ...]]:
    """By resolution, what it would set in motion for what the conflict affects as that stands now."""
    concerned, now = await _concerned(call, conflict), call.services.now()
    found: dict[str, tuple[str, ...]] = {}
    for resolution in Resolution:
        said = Settlement(by=caller_of(call), resolution=resolution, note="")
        steps = steps_of(conflict, said, concerned, now)
        found[resolution.value] = tuple(dict.fromkeys(follow_up.value for follow_up, _ in steps))
    return found


async def _concerned(call: Asked[Any, Any], conflict: Conflict) -> Concerned:
    store, tenant, affected = call.services.store, call.caller.tenant, conflict.affected
    jobs = [await read_job(store, tenant, job_id) for job_id in affected.every_job]
    effect = await read_effect(store, tenant, affected.effect) if affected.effect else None
    leases = [await read_lease(store, tenant, lease_id) for lease_id in affected.every_lease]
    return Concerned(jobs=tuple(filter(None, jobs)), effect=effect, leases=tuple(filter(None, leases)))


async def _read(call: Asked[Any, Any]) -> Conflict:
    conflict_id = call.path["conflict_id"]
    conflict = await queries.read_conflict(call.services.store, call.caller.tenant, conflict_id)
    if conflict is None:
        raise NotFound("conflict", conflict_id)
    return conflict


def conflict_view(conflict: Conflict) -> wire.Conflict:
    """A conflict with the advice for its kind."""
    affected, advised = conflict.affected, SAFEST[conflict.kind].resolution
    return wire.Conflict(
        id=conflict.id,
        kind=conflict.kind.value,
        state=conflict.state.value,
        target=conflict.target,
        competing=tuple(
            wire.Competing(actor=side.actor, version=side.version, at=side.at, what=side.what)
            for side in conflict.competing
        ),
        affected=wire.Affected(
            job=affected.job,
            effect=affected.effect,
            lease=affected.lease,
            jobs=tuple(affected.every_job),
            leases=tuple(affected.every_lease),
        ),
        safest_next_step=conflict.safest_next_step,
        safest_resolution=advised.value if advised else None,
        would_carry_out=OMITTED,
        prevention=SAFEST[conflict.kind].prevention,
        opened_at=conflict.opened_at,
        count=conflict.count,
        last_seen_at=conflict.last_seen_at or conflict.opened_at,
        resolution=conflict.resolution.value if conflict.resolution else None,
        note=conflict.note,
        resolved_by=conflict.resolved_by,
        resolved_at=conflict.resolved_at,
        carried_out=tuple(follow_up.value for follow_up in conflict.carried_out),
    )


def _pattern_view(pattern: Pattern) -> wire.Pattern:
    return wire.Pattern(
        kind=pattern.kind.value,
        target_prefix=pattern.target_prefix,
        conflicts=pattern.conflicts,
        open=pattern.open,
        count=pattern.count,
        last_seen_at=pattern.last_seen_at,
        targets=tuple(pattern.targets),
        prevention=pattern.prevention,
    )


_TAG = "Conflicts"
_ID = {"conflict_id": "The id that the conflict's event or problem document named."}

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_conflicts", method="GET", path="/api/v1/conflicts", tag=_TAG, roles=READERS,
        summary="Collisions, newest first", query=ConflictsQuery, answers={200: Page[wire.Conflict]}, answer=listed,
    ),
    Operation(
        id="conflict_patterns", method="GET", path="/api/v1/conflicts/patterns", tag=_TAG, roles=READERS,
        summary="What keeps colliding, and what would prevent it", query=PatternsQuery,
        answers={200: wire.Patterns}, answer=patterns,
    ),
    Operation(
        id="get_conflict", method="GET", path="/api/v1/conflicts/{conflict_id}", tag=_TAG, roles=READERS,
        parameters=_ID, summary="Read a collision and the safest next step",
        answers={200: wire.Conflict}, answer=read,
    ),
    Operation(
        id="resolve_conflict", method="POST", path="/api/v1/conflicts/{conflict_id}/resolve", tag=_TAG,
        parameters=_ID, roles=("review", "operate", "admin"), body=wire.ResolveConflictBody,
        summary="Say how a collision was settled, and carry that out",
        answers={200: wire.Conflict}, answer=resolve,
        problems=("conflict", "not_actionable", "forbidden", "people_only", "approval_expired",
                  "policy_throttled", "policy_unavailable"),
    ),
)  # fmt: skip
