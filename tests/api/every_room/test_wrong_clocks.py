"""A server whose own clock is years away from the store's shows what the store decides by its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest

from tests.harness.in_process_api import ASK, InProcessApi, VirtualClock, open_api

HOUR = 3600


@pytest.fixture(params=[2020, 2040], ids=["the store is behind", "the store is ahead"])
async def api(request: pytest.FixtureRequest) -> AsyncGenerator[InProcessApi]:
    clock = VirtualClock()
    clock.now = datetime(request.param, 1, 1, tzinfo=UTC)
    async with open_api(clock=clock) as found:
        await found.policy(ASK)
        yield found


async def test_a_request_waits_until_the_stores_clock_says_that_its_time_is_up(api: InProcessApi) -> None:
    job = await api.submit(await api.agent())

    async def shown() -> tuple[str, list[str]]:
        listed = (await api.get("approvals?state=pending"))["items"]
        return (await api.get(f"jobs/{job}"))["state"], [item["id"] for item in listed]

    assert await shown() == ("APPROVAL", [job])
    api.clock.advance(25 * HOUR)
    await api.agent("anybody")
    assert await shown() == ("EXPIRED", [])


async def test_an_effect_is_in_progress_as_long_as_the_store_says(api: InProcessApi) -> None:
    bot = await api.agent()
    begun = await api.call("POST", "effects/refund/begin", bot, {"request_hash": "a", "ttl_seconds": 60})

    assert (begun.status, begun.document["state"]) == (201, "IN_PROGRESS")
    assert (await api.get("effects/refund", bot))["state"] == "IN_PROGRESS"
    api.clock.advance(HOUR)
    await api.agent("anybody")
    assert (await api.get("effects/refund", bot))["state"] == "AMBIGUOUS"


async def test_a_worker_with_a_glob_finds_what_may_run(api: InProcessApi) -> None:
    job = await api.submit(await api.agent(), topic="read")
    hand = await api.key("hand", "worker", "work")

    seen = await api.call("POST", "jobs/claim", hand, {"topics": ["**"]})

    assert [each["id"] for each in seen.document["jobs"]] == [job]


async def test_a_grant_is_open_as_long_as_the_store_says(api: InProcessApi) -> None:
    ada = await api.person("ada")
    issued = await api.call("POST", "grants", ada, {"task": "deploy", "expires_in": "1h"})
    grant = f"grants/{issued.document['grant_id']}"

    assert (await api.get(grant, ada))["state"] == "open"
    api.clock.advance(2 * HOUR)
    await api.agent("anybody")
    assert (await api.get(grant, ada))["state"] == "expired"
    assert [each["task"] for each in (await api.get("grants?state=expired", ada))["items"]] == ["deploy"]
