"""Raises the epoch of fences on PostgreSQL, on request or when the database was restored or moved.

A server that opens the store compares the cluster, its timeline and the database with the last known ones. A failover
or a recovery to a point in time starts another timeline; `pg_restore` and a template copy make another database.
Values that an ordinary role may not read are left out of the comparison.
"""

from __future__ import annotations

from interlock.kernel.record import micros
from interlock.kernel.store_state import StoreState, raised_floor
from interlock.store.clock import utc_now
from interlock.store.postgres import statements as sql
from interlock.store.postgres.driver import SERVER_SAID_NO, Session
from interlock.store.statements import READ_STATE, state_of

_ORIGIN = (
    "SELECT format('system %s, timeline %s, database %s', (SELECT system_identifier FROM pg_control_system()), "
    "left(pg_walfile_name(pg_current_wal_lsn()), 8), "
    "(SELECT oid FROM pg_database WHERE datname = current_database()))"
)
_KNOWN_ORIGIN = "SELECT origin FROM store_state WHERE id = 1"
_SET_ORIGIN = "UPDATE store_state SET origin = $1 WHERE id = 1 AND origin IS NOT DISTINCT FROM $2 RETURNING 1"
_RAISE = (
    "UPDATE store_state SET epoch = epoch + 1, fence_floor = $1, raised_at = $2, raised_why = $3 WHERE id = 1"
)


async def raise_epoch(session: Session, why: str) -> StoreState:
    """Have every fence from the next batches on be greater than any before."""
    await session.execute("BEGIN")
    raised = await _raise(session, why)
    await session.execute("COMMIT")
    return raised


async def notice_another_origin(session: Session) -> None:
    """Raise the epoch if this is not the database that the store was in. Of several servers one does it."""
    try:
        origin = str(await session.fetchval(_ORIGIN))
    except SERVER_SAID_NO:
        return  # An ordinary role may not read it here.
    known = await session.fetchval(_KNOWN_ORIGIN)
    if known == origin:
        return
    await session.execute("BEGIN")
    is_mine = await session.fetchval(_SET_ORIGIN, origin, known)
    if is_mine and known is not None:
        await _raise(session, f"the database was in {known}, and is in {origin}")
    await session.execute("COMMIT")


async def _raise(session: Session, why: str) -> StoreState:
    rows = await session.fetch(f"{READ_STATE} FOR UPDATE")
    clock = int(await session.fetchval(f"SELECT {sql.CLOCK}") or micros(utc_now()))
    floor = raised_floor(state_of(tuple(rows[0])).fence_floor, clock)
    await session.execute(_RAISE, floor, clock, why)
    rows = await session.fetch(READ_STATE)
    return state_of(tuple(rows[0]))
