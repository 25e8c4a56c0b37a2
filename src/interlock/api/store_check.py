"""Does the store take writes, and how much room is left? Asked by `interlock doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from interlock.api.operations import Operation, Reply
from interlock.api.service_calls import Asked
from interlock.kernel.ids import new_id
from interlock.kernel.storage import StoreDown
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service
from interlock.store.place import free_bytes

_CHECK_SECONDS = 2.0
_FILE = "sqlite:///"
_SERVER = ("postgresql://", "postgres://")


class StoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store is, once it has taken a write. `free_bytes` of its volume is None if nobody here can say."""

    place: str
    free_bytes: int | None = None


async def check_store(call: Asked[None, None]) -> Reply:
    """To settle a batch that never was is a durable write of a few bytes, which `prune` forgets after an hour."""
    services = call.services
    try:
        await services.store.committed(new_id("batch"), _CHECK_SECONDS)
    except TimeoutError as late:
        raise StoreDown(f"the store took no write within {_CHECK_SECONDS:g} s") from late
    return Reply(200, _told(services.settings.store))


def _told(url: str) -> StoreCheck:
    if url.startswith(_FILE):
        path = Path(url.removeprefix(_FILE)).absolute()
        return StoreCheck(place=str(path), free_bytes=free_bytes(path))
    if url.startswith(_SERVER):
        from interlock.store.postgres_place import place_of

        return StoreCheck(place=place_of(url))
    return StoreCheck(place="memory")


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="check_store", method="POST", path="/api/v1/store/check", tag="Health", roles=("operate", "admin"),
        summary="Write to the store, and see how much room is left", answers={200: StoreCheck},
        answer=check_store, problems=("store_unavailable",),
    ),
)  # fmt: skip
