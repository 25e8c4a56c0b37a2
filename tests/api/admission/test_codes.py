"""429 if and only if the gate was evaluated and is full; 503 if and only if it could not be evaluated."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw
import pytest

from interlock.kernel.refusal import OutcomeUnknown, Overloaded, StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.service import keyring
from interlock.wire.http import Request
from tests.harness.in_process_api import Seen
from tests.rooms.admission.admission_client import AdmissionClient


def locked(url: str) -> apsw.Connection:
    """Another process holds the file's one writer lock."""
    holder = apsw.Connection(url.removeprefix("sqlite:///"))
    holder.execute("BEGIN IMMEDIATE")
    return holder


def check_503(seen: Seen, code: str = "admission_unavailable") -> None:
    assert (seen.status, seen.word, seen.document["retryable"]) == (503, code, True)
    assert seen.document["retry_after_ms"] >= 1
    assert int(seen.headers["retry-after"]) >= 1


async def test_a_gate_locked_by_another_process_is_503_and_then_the_same_key_is_one_run(
    file_client: AdmissionClient, sqlite_url: str
) -> None:
    await file_client.limit(1)
    holder = locked(sqlite_url)
    seen = await asyncio.gather(*(file_client.ask(key=f"k{n}") for n in range(5)))
    for each in seen:
        check_503(each)
    holder.execute("ROLLBACK")
    assert (await file_client.api.get("workflow-runs"))["items"] == []
    after = [await file_client.ask(key="k0") for _ in range(3)]
    assert len({each.body for each in after}) == 1
    assert await file_client.counts() == (1, 1)
    assert (await file_client.ask(key="k1")).status == 429


async def test_the_longer_the_lock_the_later_to_come_back(
    file_client: AdmissionClient, sqlite_url: str
) -> None:
    holder = locked(sqlite_url)
    first = await file_client.ask()
    second = await file_client.ask()
    third = await file_client.ask()
    holder.execute("ROLLBACK")
    waits = [seen.document["retry_after_ms"] for seen in (first, second, third)]
    assert waits == sorted(waits)
    assert waits[2] > waits[0]


async def test_a_waiter_whose_gate_is_locked_gets_503_and_keeps_the_place(
    file_client: AdmissionClient, sqlite_url: str
) -> None:
    await file_client.limit(0)
    waiting = asyncio.create_task(file_client.ask(key="k", wait_seconds=60))
    while not (await file_client.gate()).line:
        await asyncio.sleep(0.01)
    holder = locked(sqlite_url)
    check_503(await waiting)
    holder.execute("ROLLBACK")
    assert len((await file_client.gate()).line) == 1


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreUnavailable("gone", retry_after_seconds=7), "admission_unavailable"),
        (StoreDown("gone", retry_after_seconds=7), "admission_unavailable"),
        (Overloaded("full queue", retry_after_seconds=7), "overloaded"),
        (OutcomeUnknown("who knows", retry_after_seconds=7), "outcome_unknown"),
    ],
)
async def test_every_way_not_to_be_evaluated_is_a_503(
    client: AdmissionClient, fault: Exception, code: str
) -> None:
    kernel: Any = client.api.service.kernel
    run = kernel.run

    async def broken(*args: Any, **options: Any) -> Any:
        raise fault

    kernel.run = broken
    seen = await client.ask()
    kernel.run = run
    check_503(seen, code)
    assert seen.document["retry_after_ms"] == 7000


@pytest.mark.parametrize("key_is_recent", [True, False])
async def test_starts_that_an_outage_kept_from_the_gate_are_counted_as_503(
    client: AdmissionClient, monkeypatch: pytest.MonkeyPatch, key_is_recent: bool
) -> None:
    service = client.api.service
    await client.start()

    async def gone(*args: Any, **options: Any) -> Any:
        raise StoreDown("gone", retry_after_seconds=3)

    with monkeypatch.context() as outage:
        broken = (service.kernel, "run") if key_is_recent else (service.store, "query")
        outage.setattr(*broken, gone)
        outage.setattr(keyring, "_RECENT_SECONDS", 60.0 if key_is_recent else 0.0)
        check_503(await client.ask())
        check_503(await client.ask())

    told = await client.api.get("admission/stats")
    assert (told["admitted"], told["full_429"], told["unavailable_503"]) == (1, 0, 2)


async def test_a_server_without_room_says_so_to_a_start_without_a_key(
    client: AdmissionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(weight: int) -> None:
        raise Overloaded("full queue", retry_after_seconds=7)

    monkeypatch.setattr(client.api.service.kernel, "check_room", full)
    check_503(await client.api.call("POST", "workflows/w/runs", key="", body={}), "overloaded")


async def test_a_store_that_cannot_even_say_who_calls_could_not_evaluate_the_gate(
    client: AdmissionClient,
) -> None:
    store: Any = client.api.service.store

    async def gone(*args: Any) -> Any:
        raise StoreDown("gone", retry_after_seconds=3)

    store.query, query = gone, store.query
    client.api.service.keyring.forget()
    seen = await client.ask()
    read = await client.api.call("GET", "workflow-runs", client.bot)
    store.query = query
    check_503(seen)
    assert read.word == "store_unavailable"


async def test_a_full_gate_is_told_with_its_figures(client: AdmissionClient) -> None:
    await client.limit(1, "w")
    await client.start()
    full = await client.ask()
    document = full.document
    assert (full.status, document["code"], document["retryable"]) == (429, "max_concurrent_runs", True)
    assert (document["scope"], document["active"], document["limit"]) == ("w", 1, 1)
    assert document["retry_after_ms"] >= 1
    assert int(full.headers["retry-after"]) >= 1


async def test_a_client_that_goes_away_gives_its_place_up_and_gets_no_slot(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    left = asyncio.Event()

    async def gone() -> None:
        await left.wait()

    request = Request(
        method="POST",
        path="/api/v1/workflows/w/runs",
        headers={"authorization": f"Bearer {client.bot}", "content-type": "application/json"},
        body=b'{"wait_seconds": 60}',
        gone=gone,
    )
    waiting = asyncio.create_task(client.api.app.respond(request))
    while not await client.line():
        await asyncio.sleep(0.01)
    left.set()
    assert (await asyncio.wait_for(waiting, 30)).status == 429
    assert await client.line() == []
    await client.end(run)
    assert await client.counts() == (0, 0)


async def test_a_wait_may_be_longer_than_the_budget_of_one_decision(
    sqlite_url: str, file_client: AdmissionClient
) -> None:
    await file_client.limit(1)
    run = await file_client.start()
    waiting = asyncio.create_task(file_client.ask(wait_seconds=60))
    await asyncio.sleep(4 * file_client.api.service.settings.acquire_seconds)
    assert not waiting.done()
    await file_client.end(run)
    assert (await waiting).status == 201
