"""A PostgreSQL that is paused or gone: 503 in time, never 429, never a hang; and back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.crash.conftest import Start
from tests.harness.load import Answer, fire, get, post, tally
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer, Key

HANG_SECONDS = 60
UNAVAILABLE = {(503, "store_unavailable"), (503, "outcome_unknown")}
Keys = Callable[[str], dict[str, Key]]


def pause(postgres: PostgresServer) -> None:
    postgres.pause()


def stop(postgres: PostgresServer) -> None:
    postgres.stop()


def kill(postgres: PostgresServer) -> None:
    postgres.kill()


def come_back(postgres: PostgresServer) -> None:
    if postgres.running:
        postgres.resume()
    else:
        postgres.start()


@pytest.mark.slow
@pytest.mark.parametrize("outage", [pause, stop, kill], ids=lambda outage: outage.__name__)
async def test_an_outage_is_told_as_one_and_ends_by_itself(
    private_postgres: PostgresServer, start: Start, keys_in: Keys, outage: Callable[[PostgresServer], None]
) -> None:
    store = private_postgres.create_database()
    keys = await asyncio.to_thread(keys_in, store)
    server = await asyncio.to_thread(start, store, INTERLOCK_ACQUIRE_SECONDS="0.5")
    job = (await submit(server, keys, "before"))[0].json()["id"]

    await asyncio.to_thread(outage, private_postgres)
    for _ in range(2):
        during = await burst(server, keys, job)
        assert set(tally(during)) <= UNAVAILABLE, tally(during)
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in during)
        assert all(answer.json()["retry_after_ms"] >= 1 for answer in during)
    assert await health(server) == [(200, ""), (503, "store_unavailable"), (200, "")]
    await asyncio.to_thread(come_back, private_postgres)

    after = await until_answered(server, keys, job)
    assert after.word in ("approved", "already_approved")
    assert (await health(server))[1] == (200, "")
    repeated = await until_submitted(server, keys, "during-0")
    assert repeated.json()["id"] == (await until_submitted(server, keys, "during-0")).json()["id"]


async def burst(server: InterlockServer, keys: dict[str, Key], job: str) -> list[Answer]:
    """Reads and decisions of every sort, at one moment."""
    headers = keys["bot"].headers
    decisions = [
        post(f"/api/v1/approvals/{job}/approve", {}, headers=keys[f"reviewer-{n}"].headers) for n in range(10)
    ]
    reads = [get(f"/api/v1/jobs/{job}", headers=headers), get("/api/v1/jobs", headers=headers)]
    submits = [
        post(
            "/api/v1/jobs",
            {"topic": "pay", "payload": {}},
            headers={**headers, "Idempotency-Key": f"during-{n}"},
        )
        for n in range(10)
    ]
    return await fire(server.url, [*decisions, *reads, *submits], timeout_seconds=HANG_SECONDS)


async def submit(server: InterlockServer, keys: dict[str, Key], key: str) -> list[Answer]:
    headers = {**keys["bot"].headers, "Idempotency-Key": key}
    body = {"topic": "pay", "payload": {}}
    return await fire(server.url, [post("/api/v1/jobs", body, headers=headers)], timeout_seconds=HANG_SECONDS)


async def health(server: InterlockServer) -> list[tuple[int, str]]:
    answers = await fire(
        server.url, [get("/healthz"), get("/readyz"), get("/metrics")], timeout_seconds=HANG_SECONDS
    )
    return [(answer.status, answer.word) for answer in answers]


async def until_submitted(server: InterlockServer, keys: dict[str, Key], key: str) -> Answer:
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            (answer,) = await submit(server, keys, key)
            if answer.status == 202:
                return answer
            assert (answer.status, answer.word) in UNAVAILABLE


async def until_answered(server: InterlockServer, keys: dict[str, Key], job: str) -> Answer:
    request = post(f"/api/v1/approvals/{job}/approve", {}, headers=keys["reviewer-1"].headers)
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            (answer,) = await fire(server.url, [request], timeout_seconds=HANG_SECONDS)
            if answer.status == 200:
                return answer
            assert (answer.status, answer.word) in UNAVAILABLE
            await asyncio.sleep(0.05)
