"""PostgreSQL tables that another session has locked: told as busy, in time, whatever a call reads first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import asyncpg

from tests.crash.conftest import Start
from tests.harness.load import Answer, Request, fire, get, post, tally
from tests.harness.server import InterlockServer, Key

HANG_SECONDS = 60
Keys = Callable[[str], dict[str, Key]]


@contextlib.asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Have every table to oneself."""
    holder = await asyncpg.connect(url)
    try:
        async with holder.transaction():
            await holder.execute("SET LOCAL lock_timeout = '10s'")
            tables = await holder.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            await holder.execute(f"LOCK TABLE {', '.join(table[0] for table in tables)}")
            yield
    finally:
        await holder.close()


async def send(server: InterlockServer, *requests: Request) -> list[Answer]:
    return await fire(server.url, requests, timeout_seconds=HANG_SECONDS)


async def test_locked_tables_are_busy_whatever_a_call_reads_first(
    postgres_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, postgres_url)
    server = await asyncio.to_thread(start, postgres_url)
    bot, ada = keys["bot"].headers, keys["reviewer-0"].headers
    submit = post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers=bot)
    (made,) = await send(server, submit)
    job = made.json()["id"]
    approve = post(f"/api/v1/approvals/{job}/approve", {}, headers=ada)
    run = post("/api/v1/workflows/nightly/runs", {}, headers=bot)

    async with locked(postgres_url):
        # More of them than there are connections to read with.
        busy = await send(server, *[approve] * 10, submit, get(f"/api/v1/jobs/{job}", headers=bot))
        (start_of_run,) = await send(server, run)
        alive = await send(server, get("/healthz"), get("/readyz"))

    assert tally(busy) == {(409, "lock_busy"): 12}
    for answer in busy:
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["retry_after_ms"] >= 1
    assert (start_of_run.status, start_of_run.word) == (503, "admission_unavailable")
    assert [answer.status for answer in alive] == [200, 200]
    (decided,) = await send(server, approve)
    (started,) = await send(server, run)
    assert (decided.word, started.status) == ("approved", 201)
    assert '"level":"error"' not in server.log(1000)


async def test_tables_that_are_let_go_in_time_cost_only_time(
    postgres_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, postgres_url)
    server = await asyncio.to_thread(start, postgres_url)
    bot = keys["bot"].headers
    async with locked(postgres_url):
        waiting = asyncio.create_task(
            send(server, post("/api/v1/jobs", {"topic": "read", "payload": {}}, headers=bot))
        )
        await asyncio.sleep(0.5)
        assert not waiting.done()
    (made,) = await waiting
    assert made.status == 201
