"""Health over HTTP: whether the process is alive, whether the store is reachable, and metrics."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from interlock.api.calls import Asked
from interlock.api.heads import presented_keys
from interlock.api.operations import Media, Operation, Reply
from interlock.kernel.ids import TellTime, new_id
from interlock.kernel.refusal import Fault
from interlock.kernel.storage import StoreDown
from interlock.service.keyring import Known
from interlock.service.measures import unreadable_records
from interlock.service.metrics import MEDIA_TYPE
from interlock.service.service import Service
from interlock.service.settings import TENANT_DEFAULT, room_at
from interlock.wire import server as wire
from interlock.wire.http import Response

_CHECK_SECONDS = 2.0


async def check_store(call: Asked[None, None]) -> Reply:
    """Write a few bytes: settling a batch that never existed is a durable write. `prune` deletes it later."""
    services = call.services
    trouble = None
    try:
        await services.store.committed(new_id("batch"), _CHECK_SECONDS)
    except TimeoutError:
        trouble = f"it took no write within {_CHECK_SECONDS:g} s"
    except StoreDown as down:
        trouble = str(down)
    place, room = room_at(services.settings.store)
    return Reply(200, wire.StoreCheck(place=place, free_bytes=room, trouble=trouble))


_STORE_CHECK: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="check_store", method="GET", path="/api/v1/store/check", tag="Health", roles=("operate", "admin"),
        summary="Write to the store, and see how much room is left", answers={200: wire.StoreCheck},
        answer=check_store,
    ),
)  # fmt: skip


_READY_SECONDS = 1.0
_TENANT_ROLES = frozenset({"operate", "audit", "admin"})


async def alive(call: Asked[None, None]) -> Reply:
    return Reply(200, wire.Alive())


async def ready(call: Asked[None, None]) -> Reply:
    await call.services.store.ping(_READY_SECONDS)
    clock = call.services.store_time
    if not clock.has_heard:
        with contextlib.suppress(Fault):
            await call.services.kernel.run(TellTime())
    readiness = wire.Health(
        status="ready",
        unreadable_records=unreadable_records(),
        clock_ahead_seconds=clock.ahead_seconds,
        fence_epoch=clock.state.epoch,
        fences_raised_at=clock.state.raised_at,
        detail=_clock_trouble(clock.ahead_seconds) if clock.is_wrong else None,
    )
    return Reply(200, readiness)


def _clock_trouble(ahead_seconds: float) -> str:
    way = "ahead of" if ahead_seconds > 0 else "behind"
    apart = f"the store's clock is {abs(ahead_seconds):.0f} s {way} this server's"
    return f"{apart}; set the machine's clock right, or have an operator repair the store's"


async def metrics(call: Asked[None, None]) -> Response:
    return _exposed(call, tenants=await _may_see_tenants(call))


async def metrics_of_all(call: Asked[None, None]) -> Response:
    return _exposed(call, tenants=True)


def _exposed(call: Asked[None, None], *, tenants: bool) -> Response:
    body = call.services.registry.exposition(tenants=tenants).encode()
    return Response(status=200, headers=(("content-type", MEDIA_TYPE),), body=body)


async def _may_see_tenants(call: Asked[None, None]) -> bool:
    """Whether the caller is an operator. Every caller is told the figures, also while no key can be looked up."""
    keys = presented_keys(call.request)
    known = await call.services.keyring.known_or_nobody(keys.pop()) if len(keys) == 1 else None
    if known is None or known.tenant != TENANT_DEFAULT:
        return False
    return not _TENANT_ROLES.isdisjoint(known.roles)


_OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="healthz", method="GET", path="/healthz", tag="Health", public=True,
        summary="The process is alive", answers={200: wire.Alive}, answer=alive,
    ),
    Operation(
        id="readyz", method="GET", path="/readyz", tag="Health", public=True,
        summary="The store answers", answers={200: wire.Health}, answer=ready, problems=("store_unavailable",),
    ),
    Operation(
        id="metrics", method="GET", path="/metrics", tag="Health", public=True,
        summary="Figures in Prometheus' text format",
        description="Needs no key. Tenants, and what they have named, are told apart only for a key of the tenant "
        "`default` with the role `operate`, `audit` or `admin`, and on the address of the setting "
        "`metrics_address`; for everybody else they are added up.",
        answers={200: Media(MEDIA_TYPE)}, answer=metrics,
    ),
)  # fmt: skip

# Where orchestrators look for them, and beside everything else.
OPERATIONS = (
    _STORE_CHECK
    + _OPERATIONS
    + tuple(
        msgspec.structs.replace(each, id=f"api_{each.id}", path=f"/api/v1{each.path}") for each in _OPERATIONS
    )
)

# For an address of its own: the operator decides who can reach it, so it asks for no key.
WATCHING: tuple[Operation[Known, Service, Any, Any], ...] = (
    *_OPERATIONS[:2],
    msgspec.structs.replace(_OPERATIONS[2], answer=metrics_of_all),
)
