"""When a setting that PostgreSQL was told to load again is in force: it takes its own time."""

from __future__ import annotations

import asyncio

from tests.harness.store_places import PostgresPlace

HANG_SECONDS = 60
PAUSE_SECONDS = 0.02


async def until_in_force(place: PostgresPlace, setting: str, value: str) -> None:
    """Return once new connections have a setting; older ones have been told of it by then."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            fresh = await place.connect()
            shown = await fresh.fetchval(f"SHOW {setting}")
            await fresh.close()
            if shown == value:
                return
            await asyncio.sleep(PAUSE_SECONDS)


async def until_commits_wait(place: PostgresPlace) -> None:
    """Return once a COMMIT waits for a standby."""
    probe = await place.connect()
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            # A message writes to the log and changes nothing: it has a COMMIT to wait for.
            committing = asyncio.ensure_future(probe.execute("SELECT pg_logical_emit_message(true, '', '')"))
            while not committing.done():
                if await place.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
                    probe.terminate()
                    await asyncio.gather(committing, return_exceptions=True)
                    return
                await asyncio.sleep(PAUSE_SECONDS)
