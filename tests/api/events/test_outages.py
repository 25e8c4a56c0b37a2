"""A stream while the store is away: one that is open stays, one that cannot be read ends and is asked for again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.api import events as api_events
from interlock.kernel.refusal import Overloaded
from interlock.kernel.storage import StoreDown
from interlock.rooms.events import queries
from tests.api.events.api_client import client_of
from tests.api.events.test_stream import take, told, until_live
from tests.service.relay_service import relaying_service

TROUBLE = [StoreDown("gone"), Overloaded("every reading connection is busy", retry_after_seconds=1)]


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_a_stream_outlasts_a_store_that_cannot_say_whose_key_it_is(
    trouble: Exception, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.05)
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        stream = await (await client_of(relay_service)).stream()
        await until_live(stream)
        with monkeypatch.context() as outage:
            outage.setattr(relay_service.service.store, "get", failing(trouble))
            for _ in range(3):
                await until_live(stream)
        await relay_service.tell("a")
        assert told(await take(stream, 1)) == [("a", 1)]


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_a_stream_whose_old_events_cannot_be_read_ends_without_a_fault(
    trouble: Exception, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        await relay_service.tell("a", times=2)
        await relay_service.until_placed(2)
        client = await client_of(relay_service)
        stream = await client.stream("after=0")
        with monkeypatch.context() as outage:
            outage.setattr(queries, "events_after", failing(trouble))
            async with asyncio.timeout(30):
                assert not [block async for block in stream if block.data is not None]

        assert told(await take(await client.stream("after=0"), 2)) == [("a", 1), ("a", 2)]


def failing(trouble: Exception) -> Any:
    async def fail(*args: Any, **options: Any) -> Any:
        raise trouble

    return fail
