"""What waits for people is a metric, by tenant; and so is how long ago a sweep went well."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from interlock.kernel.storage import StoreDown
from interlock.store.urls import store_for
from tests.harness.in_process_api import ASK, InProcessApi, open_api

WAITING = 'interlock_approvals_waiting{tenant="default"}'
OLDEST = 'interlock_approvals_oldest_seconds{tenant="default"}'
AMBIGUOUS = 'interlock_effects_ambiguous{tenant="default"}'


@pytest.mark.parametrize("url", ["sqlite", "postgres"])
async def test_requests_that_wait_are_counted_by_tenant_until_somebody_decides(
    url: str, sqlite_url: str, request: pytest.FixtureRequest
) -> None:
    where = sqlite_url if url == "sqlite" else request.getfixturevalue("postgres_url")
    async with open_api(store_for(where)) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        jobs = [await api.submit(bot) for _ in range(3)]
        await api.submit(bot, topic="read")
        await api.sweep()
        assert await api.metric(WAITING) == 3
        assert 'tenant="other"' not in api.service.registry.exposition()

        for job in jobs:
            await api.approve(job, ada)
        await api.sweep()
        assert WAITING not in api.service.registry.exposition()


async def test_the_age_is_that_of_the_oldest_request_and_grows_without_a_sweep() -> None:
    async with open_api() as api:
        await api.policy(ASK)
        bot = await api.agent()
        await api.submit(bot)
        api.clock.advance(600)
        await api.submit(bot)
        await api.sweep()
        age = await api.metric(OLDEST)
        assert 599 < age < 700
        assert (await metric_after(api, age)) > age


async def metric_after(api: InProcessApi, age: float) -> float:
    """The age once it has changed: the time between two batches goes by this machine's clock."""
    while (found := await api.metric(OLDEST)) == age:
        pass
    return found


@pytest.mark.parametrize("url", ["memory", "postgres"])
async def test_effects_in_doubt_are_counted_until_somebody_resolves_them(
    url: str, request: pytest.FixtureRequest
) -> None:
    store = None if url == "memory" else store_for(request.getfixturevalue("postgres_url"))
    async with open_api(store) as api:
        worker = await api.key("w", "worker", "work,submit")
        wanted = {"request_hash": "sha256:" + hashlib.sha256(b"x").hexdigest()}
        began = (await api.call("POST", "effects/pay-1/begin", worker, wanted)).document
        failed = {"fence": began["fence"], "error": "timeout", "safe_to_retry": False}
        assert (await api.call("POST", "effects/pay-1/fail", worker, failed)).status == 200
        await api.sweep()
        assert await api.metric(AMBIGUOUS) == 1

        resolved = {"outcome": "committed", "evidence": "seen in the bank's list"}
        seen = await api.call("POST", "effects/pay-1/resolve", api.admin, resolved)
        assert seen.status == 200, seen.document
        await api.sweep()
        assert await api.metric(AMBIGUOUS) == 0


async def test_a_sweep_that_fails_does_not_count_as_one_that_went_well() -> None:
    async with open_api() as api:
        attention: Any = api.service.measures.attention
        clock = [1000.0]
        attention._clock = lambda: clock[0]
        await api.sweep()
        clock[0] += 100
        store: Any = api.service.store
        query = store.query

        async def gone(*_: Any, **__: Any) -> Any:
            raise StoreDown("gone")

        store.query = gone
        await api.sweep()
        store.query = query
        assert await api.metric("interlock_sweep_age_seconds") == 100
        await api.sweep()
        assert await api.metric("interlock_sweep_age_seconds") == 0
