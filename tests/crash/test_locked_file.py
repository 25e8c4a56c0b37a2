"""A SQLite file that another process keeps locked: told as busy, in time, with the status that was chosen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import apsw
import pytest

from tests.crash.conftest import Start
from tests.harness.load import Answer, Request, fire, get, post, tally
from tests.harness.server import InterlockServer, Key

HANG_SECONDS = 60
Keys = Callable[[str], dict[str, Key]]


@contextlib.contextmanager
def locked(url: str) -> Iterator[None]:
    """Hold the file's one writer lock, as a backup or a stuck process would."""
    holder = apsw.Connection(url.removeprefix("sqlite:///"))
    holder.set_busy_timeout(10_000)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


async def send(server: InterlockServer, *requests: Request) -> list[Answer]:
    return await fire(server.url, requests, timeout_seconds=HANG_SECONDS)


@pytest.mark.parametrize("status", [409, 423])
async def test_a_locked_file_is_busy_and_not_unavailable(
    sqlite_url: str, start: Start, keys_in: Keys, status: int
) -> None:
    keys = await asyncio.to_thread(keys_in, sqlite_url)
    server = await asyncio.to_thread(
        start, sqlite_url, INTERLOCK_ACQUIRE_SECONDS="0.4", INTERLOCK_LOCK_BUSY_STATUS=str(status)
    )
    bot, ada = keys["bot"].headers, keys["reviewer-0"].headers
    submit = post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers={**bot, "Idempotency-Key": "k"})
    (made,) = await send(server, post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers=bot))
    job = made.json()["id"]
    approve = post(f"/api/v1/approvals/{job}/approve", {}, headers=ada)
    reject = post(f"/api/v1/approvals/{job}/reject", {"reason": "no"}, headers=keys["reviewer-1"].headers)

    with locked(sqlite_url):
        busy = await send(server, approve, reject, submit)
        read = await send(server, get(f"/api/v1/jobs/{job}", headers=bot), get("/readyz"), get("/healthz"))

    assert tally(busy) == {(status, "lock_busy"): 3}
    for answer in busy:
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["retryable"] is True
        assert answer.json()["retry_after_ms"] >= 1
        # The whole budget was spent waiting, and no more than that is asked of the caller's patience.
        assert answer.seconds >= 0.4
    assert [answer.status for answer in read] == [200, 200, 200]
    (metrics,) = await send(server, get("/metrics"))
    assert b'interlock_approvals_total{verb="approve",outcome="lock_busy"} 1' in metrics.body
    assert f'interlock_http_problems_total{{code="lock_busy",status="{status}"}} 3'.encode() in metrics.body

    decided, made_now = await send(server, approve, submit)
    assert (decided.word, made_now.status) == ("approved", 202)
    assert "idempotency-replayed" not in made_now.headers


async def test_a_lock_that_is_let_go_in_time_costs_only_time(
    sqlite_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, sqlite_url)
    server = await asyncio.to_thread(start, sqlite_url, INTERLOCK_ACQUIRE_SECONDS="30")
    request = post("/api/v1/jobs", {"topic": "read", "payload": {}}, headers=keys["bot"].headers)

    with locked(sqlite_url):
        asking = asyncio.create_task(send(server, *[request] * 20))
        await asyncio.sleep(0.3)
        assert not asking.done()

    assert tally(await asking) == {(201, ""): 20}
