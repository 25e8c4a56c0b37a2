"""Targets over HTTP: report a change, and see who holds a target, what waits for it and its conflicts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.api.calls import Asked, caller_of, decide, named
from interlock.api.conflicts import conflict_view
from interlock.api.jobs import READERS, version_text
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery
from interlock.api.problem import invalid
from interlock.kernel.codec.strict import Fault
from interlock.rooms.conflicts.queries import list_open_conflicts_of
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs import queries
from interlock.rooms.jobs.model import Job, JobState
from interlock.rooms.jobs.touches import Change, Touched, TouchTarget, TouchTargets
from interlock.rooms.leases.model import Lease
from interlock.rooms.targets.model import Target, Touch
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import shared as wire
from interlock.wire.fields import KEY_CHARACTERS_MAX, Page, TargetKey

_SHOWN_MAX = 50


class TargetsQuery(PageQuery, frozen=True, kw_only=True):
    """Targets by key, in the order of their keys; `prefix` narrows."""

    prefix: TargetKey | None = None


async def touch(call: Asked[None, wire.TouchBody]) -> Answer:
    change = _change(_target_key_of(call), call.body)
    command = TouchTarget(caller=caller_of(call), change=change, session=call.body.session)
    return await decide(
        call, command, lambda done: Reply(200, _touched_view(done.target, done.held_in_session))
    )


async def touch_many(call: Asked[None, wire.TouchesBody]) -> Answer:
    changes = call.body.changes
    keys = [change.key for change in changes]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise invalid(
                Fault(f"/changes/{place}/key", "appears twice; report each target once, at its newest")
            )
    command = TouchTargets(
        caller=caller_of(call),
        changes=tuple(_change(each.key, each) for each in changes),
        session=call.body.session,
    )

    def told(done: tuple[Touched, ...]) -> Reply:
        items = tuple(_touched_view(each.target, each.held_in_session) for each in done)
        return Reply(200, wire.TouchedMany(items=items))

    return await decide(call, command, told)


def _target_key_of(call: Asked[Any, Any]) -> str:
    """The target that the path names."""
    spelling = f"up to {KEY_CHARACTERS_MAX} characters, none of them a control character"
    return named(call, "key", TargetKey, f"is not a target's key; use {spelling}")


async def read(call: Asked[None, None]) -> Reply:
    """A target need not have been touched to be shown: a caller may hold it or wait for it."""
    store, tenant, key = call.services.store, call.caller.tenant, _target_key_of(call)
    now = call.services.now()
    target = await queries.read_target(store, tenant, key)
    holders = await queries.list_holders(store, tenant, key, now)
    waiting = await queries.list_waiting_on(store, tenant, key, limit=_SHOWN_MAX)
    conflicts = await list_open_conflicts_of(store, tenant, key, limit=_SHOWN_MAX)
    if target is None and not (holders or waiting or conflicts):
        raise NotFound("target", key)
    return Reply(
        200,
        wire.TargetState(
            key=key,
            version=target.current if target else None,
            touched_at=target.touched_at if target else None,
            touched_by=target.touched_by if target else None,
            owner=_owner_view(holders[0], now) if holders else None,
            owners=tuple(_owner_view(lease, now) for lease in holders),
            touches=touch_views(target),
            pending_approvals=_waiting_views(waiting, target, JobState.APPROVAL, now),
            pending_jobs=_waiting_views(waiting, target, JobState.PENDING, now),
            conflicts=tuple(conflict_view(conflict) for conflict in conflicts),
        ),
    )


async def listed(call: Asked[TargetsQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_targets(
        call.services.store, call.caller.tenant, prefix=query.prefix, after=query.cursor, limit=query.limit
    )
    items = [_touched_view(target) for target in found.items]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


def touch_views(target: Target | None) -> tuple[wire.Touch, ...]:
    """The last changes of a target, newest first."""
    return tuple(_touch_view(each) for each in target.touches) if target else ()


def _change(key: str, body: wire.TouchBody | wire.ChangeBody) -> Change:
    previous = body.previous_version
    return Change(
        key=key,
        version=version_text(body.version),
        based_on=None if previous is None else version_text(previous),
        summary=body.summary,
    )


def _touched_view(target: Target, held_in_session: str = "") -> wire.Touched:
    return wire.Touched(
        key=target.id,
        version=target.current,
        touched_at=target.touched_at,
        touched_by=target.touched_by,
        conflict_id=target.touches[0].conflict_id if target.touches else None,
        held_in_session=held_in_session,
    )


def _touch_view(touch: Touch) -> wire.Touch:
    return wire.Touch(
        actor=touch.actor,
        kind=touch.kind,
        version=touch.version,
        previous_version=touch.previous_version,
        based_on=touch.based_on,
        summary=touch.summary,
        session=touch.session,
        at=touch.at,
        conflict_id=touch.conflict_id,
    )


def _owner_view(lease: Lease, now: datetime) -> wire.Owner:
    return wire.Owner(
        principal=lease.owner,
        lease_id=lease.id,
        resource=lease.resource,
        mode=lease.mode.value,
        state=lease.state_at(now).value,
        session=lease.session,
        purpose=lease.purpose,
        since=lease.since,
        expires_at=lease.expires_at,
    )


def _waiting_views(
    jobs: list[Job], target: Target | None, state: JobState, now: datetime
) -> tuple[wire.Waiting, ...]:
    return tuple(_waiting_view(job, target) for job in jobs if job.state_at(now) is state)


def _waiting_view(job: Job, target: Target | None) -> wire.Waiting:
    version = job.action.target.version if job.action.target else None
    return wire.Waiting(
        job_id=job.id,
        state=job.state.value,
        topic=job.action.topic,
        submitted_by=job.submitted_by,
        submitted_at=job.submitted_at,
        version=version,
        drifted=target is not None and target.has_moved_from(version),
    )


_TAG = "Targets"
_TOUCHERS = ("submit", "work", "review", "operate", "admin")
_KEY = {"key": "The target's key, percent-encoded: `repo%3Abilling%2Finvoice.py`."}

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_targets", method="GET", path="/api/v1/targets", tag=_TAG, roles=READERS,
        summary="Targets that were touched, by key", query=TargetsQuery,
        answers={200: Page[wire.Touched]}, answer=listed,
    ),
    Operation(
        id="touch_targets", method="POST", path="/api/v1/targets/touches", tag=_TAG, roles=_TOUCHERS,
        summary="Report several changes at once, as a commit or a webhook does", body=wire.TouchesBody,
        answers={200: wire.TouchedMany}, answer=touch_many,
    ),
    Operation(
        id="get_target", method="GET", path="/api/v1/targets/{key}", tag=_TAG, roles=READERS, parameters=_KEY,
        summary="Who holds a target, its version, what waits for it and what collided",
        answers={200: wire.TargetState}, answer=read,
    ),
    Operation(
        id="touch_target", method="POST", path="/api/v1/targets/{key}/touch", tag=_TAG, roles=_TOUCHERS,
        parameters=_KEY, summary="Report that you changed a target", body=wire.TouchBody,
        answers={200: wire.Touched}, answer=touch,
    ),
)  # fmt: skip
