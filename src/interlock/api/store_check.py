"""Does the store take writes, and how much room is left? Asked by `interlock doctor`."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.api.operations import Operation, Reply
from interlock.api.service_calls import Asked
from interlock.kernel.ids import new_id
from interlock.kernel.storage import StoreDown
from interlock.runtime.keyring import Known
from interlock.runtime.places import room_at
from interlock.runtime.service import Service

_CHECK_SECONDS = 2.0


class StoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store is, and why it takes no writes, if it does not: `trouble`, which is then the answer, not a fault.

    `free_bytes` of its volume is None if nobody here can say.
    """

    place: str
    free_bytes: int | None = None
    trouble: str | None = None


async def check_store(call: Asked[None, None]) -> Reply:
    """Write a few bytes: to settle a batch that never was is a durable write, which `prune` forgets after an hour."""
    services = call.services
    trouble = None
    try:
        await services.store.committed(new_id("batch"), _CHECK_SECONDS)
    except TimeoutError:
        trouble = f"it took no write within {_CHECK_SECONDS:g} s"
    except StoreDown as down:
        trouble = str(down)
    place, room = room_at(services.settings.store)
    return Reply(200, StoreCheck(place=place, free_bytes=room, trouble=trouble))


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="check_store", method="GET", path="/api/v1/store/check", tag="Health", roles=("operate", "admin"),
        summary="Write to the store, and see how much room is left", answers={200: StoreCheck},
        answer=check_store,
    ),
)  # fmt: skip
