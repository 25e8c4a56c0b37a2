"""`GET /events/page`: the same events as the stream, a page at a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.api.events.api_client import Client, client_of
from tests.service.relay_service import relaying_service


async def test_a_position_that_was_not_given_here_is_refused_in_pages_too(any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=2)
        await relay_service.until_placed(2)
        for query in ("after=3", "after=3&wait_seconds=30"):
            refused = await client.get("/api/v1/events/page", query)
            assert (refused.status, json.loads(refused.body)["errors"][0]["path"]) == (400, "query/after")
        newest = await client.get("/api/v1/events/page", "after=2")
    assert json.loads(newest.body) == {"items": [], "next_after": 2}


async def test_pages_hold_the_same_events_and_wait_for_the_first(any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=5)
        await relay_service.until_placed(5)
        newest = await page(client, "limit=2")
        rest = await page(client, "after=1&limit=3")
        waiting = asyncio.create_task(page(client, "after=5&wait_seconds=30"))
        await asyncio.sleep(0.05)
        await relay_service.tell("b")
        async with asyncio.timeout(20):
            waited = await waiting
    assert [item["position"] for item in newest["items"]] == ["4", "5"]
    assert newest["next_after"] == 5
    assert ([item["position"] for item in rest["items"]], rest["next_after"]) == (["2", "3", "4"], 4)
    assert [item["subject"] for item in waited["items"]] == ["b"]


async def test_whoever_was_answered_finds_what_came_of_it(any_store: str) -> None:
    async with relaying_service(any_store, relaying=True) as relay_service:
        client = await client_of(relay_service)
        found: list[str] = []
        after = 0
        for n in range(20):
            await relay_service.tell(f"story-{n}")
            told = await page(client, f"after={after}")
            found += [item["subject"] for item in told["items"]]
            after = told["next_after"]
            assert found == [f"story-{k}" for k in range(n + 1)]


async def test_pages_of_some_types_go_on_where_they_looked(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=5)
        await relay_service.tell("b", type="job.denied")
        await relay_service.tell("a", times=5)
        found = await page(client, "after=0&types=job.*")
    assert ([item["subject"] for item in found["items"]], found["next_after"]) == (["b"], 11)


async def page(client: Client, query: str) -> dict[str, Any]:
    response = await client.get("/api/v1/events/page", query)
    assert response.status == 200, response.body
    return json.loads(response.body)
