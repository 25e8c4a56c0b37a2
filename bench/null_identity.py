"""The one key that the server without a store knows: it checks keys like any other, and waits for nobody."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.world import Command, World
from interlock.rooms.identity.keys import digest_of
from interlock.rooms.identity.model import API_KEYS, EVERY_ROLE, PRINCIPALS, ApiKey, Principal, PrincipalKind

_TEXT = f"il_{'0' * 16}_bench"
_NOW = datetime.now(UTC)
_WHO = Principal(tenant="default", id="anyone", kind=PrincipalKind.PERSON, roles=EVERY_ROLE, created_at=_NOW)
_KEY = ApiKey(
    tenant="default",
    id="0" * 16,
    principal="anyone",
    digest=digest_of(_TEXT),
    created_at=_NOW,
    created_by="anyone",
)

HEADERS = {"Authorization": f"Bearer {_TEXT}"}


class Introduce(Command[None], frozen=True, kw_only=True):
    """Keep that key, and whose it is, in a store that can."""

    def reads(self) -> Reads:
        return Reads(own=(PRINCIPALS.key_of(_WHO), API_KEYS.key_of(_KEY)))

    def decide(self, world: World) -> None:
        world.put(PRINCIPALS, msgspec.structs.replace(_WHO, keys_live=1))
        world.put(API_KEYS, _KEY)


class OneKey:
    """A store in which that key is kept; all else is asked of the one below."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def query(self, name: str, params: Any, **options: Any) -> Any:
        if name != "identity.caller_by_key":
            return await self._store.query(name, params, **options)
        return [(API_KEYS.encode(_KEY), PRINCIPALS.encode(_WHO))]
