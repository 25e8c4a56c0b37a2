"""Reading keys, principals, sessions and sign-in links."""

from __future__ import annotations

from typing import NamedTuple

from interlock.kernel.pages import readable
from interlock.kernel.storage import Row, Store, cut
from interlock.rooms.identity.model import (
    API_KEYS,
    PRINCIPALS,
    SESSIONS,
    SIGN_IN_LINKS,
    ApiKey,
    Principal,
    Session,
    SignInLink,
)

_NEWEST = 2**62
_AFTER_EVERY_ID = "~"


class FoundSession(NamedTuple):
    """A session with what decides whether it is live: its principal, and the API key behind it."""

    session: Session
    principal: Principal | None
    key: ApiKey | None


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


async def list_keys_of(
    store: Store, principal: Principal, *, before: int | None = None, limit: int
) -> tuple[list[tuple[ApiKey, Principal]], str | None]:
    """The keys of one principal, newest first, and where to go on."""
    position = _NEWEST if before is None else before
    params = {
        "tenant": principal.tenant,
        "principal": principal.id,
        "before": position,
        "limit": limit + 1,
    }
    rows = await store.query("identity.list_keys_of", params)
    page, cursor = cut(rows, limit, lambda row: str(row[0]))
    return [(key, principal) for _, known in page for key in readable(API_KEYS, (known,))], cursor


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


async def find_session(store: Store, session_id: str) -> FoundSession | None:
    """A session by its id, in whichever tenant, with what decides whether it is live."""
    rows = await store.query("identity.caller_by_session", {"session_id": session_id})
    return _found_session(SESSIONS.decode(rows[0][0]), rows[0]) if rows else None


async def find_link(store: Store, link_id: str) -> SignInLink | None:
    """A sign-in link by its id, in whichever tenant."""
    rows = await store.query("identity.link_by_id", {"link_id": link_id})
    return SIGN_IN_LINKS.decode(rows[0][0]) if rows else None


async def list_sessions(
    store: Store, tenant: str, *, principal: str | None = None, before: str | None = None, limit: int
) -> tuple[list[FoundSession], str | None]:
    """Sessions of a tenant or of one principal, newest first, and where to go on."""
    params = {"tenant": tenant, "before": before or _AFTER_EVERY_ID, "limit": limit + 1}
    if principal is None:
        rows = await store.query("identity.list_sessions", params)
    else:
        rows = await store.query("identity.list_sessions_of", {**params, "principal": principal})
    found = [_found_session(session, row) for row in rows for session in readable(SESSIONS, (row[0],))]
    return cut(found, limit, lambda each: each.session.id, rows=len(rows))


def _found_session(session: Session, row: Row) -> FoundSession:
    """What stands beside a session in its row. What cannot be read counts as gone."""
    principal = readable(PRINCIPALS, (row[1],)) if row[1] is not None else []
    key = readable(API_KEYS, (row[2],)) if row[2] is not None else []
    return FoundSession(session, principal[0] if principal else None, key[0] if key else None)
