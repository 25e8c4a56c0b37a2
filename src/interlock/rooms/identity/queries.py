"""Reading keys and principals."""

from __future__ import annotations

from interlock.kernel.pages import readable
from interlock.kernel.storage import Store, cut
from interlock.rooms.identity.model import API_KEYS, PRINCIPALS, ApiKey, Principal

_NEWEST = 2**62


async def find_key(store: Store, key_id: str) -> tuple[ApiKey, Principal] | None:
    """A key by its public id, in whichever tenant, with its principal."""
    rows = await store.query("identity.caller_by_key", {"key_id": key_id})
    return (API_KEYS.decode(rows[0][0]), PRINCIPALS.decode(rows[0][1])) if rows else None


async def has_any_key(store: Store) -> bool:
    return bool(await store.query("identity.any_key", {}))


async def list_keys(
    store: Store, tenant: str, *, before: int | None = None, limit: int
) -> tuple[list[tuple[ApiKey, Principal]], str | None]:
    """Keys with their principals, newest first, and where to go on; not those of principals who were forgotten."""
    position = _NEWEST if before is None else before
    rows = await store.query("identity.list_keys", {"tenant": tenant, "before": position, "limit": limit + 1})
    page, cursor = cut(rows, limit, lambda row: str(row[0]))
    found = [
        (key, principal)
        for _, known, whose in page
        if whose is not None
        for key in readable(API_KEYS, (known,))
        for principal in readable(PRINCIPALS, (whose,))
    ]
    return found, cursor


async def list_principals(
    store: Store, tenant: str, *, after: str | None = None, limit: int
) -> tuple[list[Principal], str | None]:
    """Principals by name, and where to go on."""
    rows = await store.query(
        "identity.list_principals", {"tenant": tenant, "after": after or "", "limit": limit + 1}
    )
    found = readable(PRINCIPALS, (row[0] for row in rows))
    return cut(found, limit, lambda principal: principal.id, rows=len(rows))


async def list_people(store: Store, tenant: str, *, limit: int) -> list[Principal]:
    """The people among a tenant's principals, by name."""
    rows = await store.query("identity.list_people", {"tenant": tenant, "limit": limit})
    return readable(PRINCIPALS, (row[0] for row in rows))
