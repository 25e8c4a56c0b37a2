"""`GET /events`: resumable, per tenant, fast, and bounded for readers that do not keep up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from interlock.api import events as api_events
from interlock.kernel.wakes import Wakes
from interlock.service.event_feed import EventFeed
from interlock.service.metrics import Registry
from interlock.service.operator import revoke_key
from interlock.service.sessions import end, open_with_key
from interlock.wire.http import Request
from tests.api.events.api_client import client_of
from tests.api.events.event_stream import Block, blocks
from tests.service.relay_service import RelayService, relaying_service


async def take(stream: AsyncIterator[Block], count: int) -> list[Block]:
    """The next `count` blocks with data."""
    found: list[Block] = []
    async with asyncio.timeout(30):
        async for block in stream:
            if block.data is not None:
                found.append(block)
                if len(found) == count:
                    break
    return found


async def until_live(stream: AsyncIterator[Block]) -> None:
    """Read up to a beat: only a stream that has read what is old, and waits for what comes, sends one."""
    async with asyncio.timeout(30):
        async for block in stream:
            if block.comment:
                return


def told(found: list[Block]) -> list[tuple[str, int]]:
    return [(block.data["subject"], block.data["data"]["n"]) for block in found if block.data]


async def test_a_stream_begins_now_and_brings_what_comes(any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("before")
        await relay_service.until_placed(1)
        stream = await client.stream()
        first = await anext(stream)
        await relay_service.tell("after")
        found = await take(stream, 1)
    assert first.id == "1"
    assert told(found) == [("after", 1)]
    assert (found[0].id, found[0].event) == ("2", "dev.interlock.target.touched")


@pytest.mark.parametrize("how", [{"last_event_id": "2"}, {"query": "after=2"}])
async def test_a_stream_that_goes_on_shows_each_id_once(how: dict[str, str], any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=4)
        await relay_service.until_placed(4)
        stream = await client.stream(**how)
        found = [await anext(stream) for _ in range(2)]
    assert [(block.id, block.data is not None) for block in found] == [("3", True), ("4", True)]


async def test_a_stream_goes_on_after_the_last_event_id(any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=5)
        await relay_service.until_placed(5)
        stream = await client.stream(last_event_id="2")
        await relay_service.tell("a", times=2)
        found = await take(stream, 5)
    assert told(found) == [("a", n) for n in range(3, 8)]


async def test_the_header_wins_over_the_query_as_browsers_repeat_the_url(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=3)
        found = await take(await client.stream("after=0", last_event_id="2"), 1)
    assert told(found) == [("a", 3)]


async def test_a_long_history_and_what_comes_meanwhile_arrive_without_gap_or_repeat(any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell_all(subjects=50, times=10)
        await relay_service.until_placed(500)
        stream = await client.stream("after=0")
        telling = asyncio.create_task(relay_service.tell_all(subjects=50, times=4))
        found = await take(stream, 700)
        await telling
    assert [int(block.id or 0) for block in found] == list(range(1, 701))


async def test_another_tenants_events_are_not_streamed(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.05)
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service, tenant="elsewhere")
        await relay_service.tell("secret")
        await relay_service.tell("own", tenant="elsewhere")
        stream = await client.stream("after=0")
        old = await take(stream, 1)
        await until_live(stream)
        await relay_service.tell("secret", times=3)
        await relay_service.tell("own", tenant="elsewhere")
        coming = await take(stream, 1)
    assert told(old + coming) == [("own", 1), ("own", 2)]


async def test_only_wanted_types_are_streamed(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", type="target.touched")
        await relay_service.tell("b", type="job.denied")
        await relay_service.tell("c", type="approval.approved")
        stream = await client.stream("after=0&types=job.denied,dev.interlock.approval.*")
        await relay_service.tell("d", type="target.touched")
        await relay_service.tell("e", type="approval.rejected")
        found = await take(stream, 3)
    assert [subject for subject, _ in told(found)] == ["b", "c", "e"]


@pytest.mark.parametrize(
    ("query", "headers", "path"),
    [
        ("after=7", {}, "query/after"),
        ("", {"last_event_id": "7"}, "query/after"),
        ("", {"last_event_id": "x"}, "header/last-event-id"),
        ("types=NOT%20A%20TYPE", {}, "query/types"),
        ("after=-1", {}, "query/after"),
    ],
)
async def test_a_position_or_type_that_cannot_be_is_refused(
    sqlite_url: str, query: str, headers: dict[str, str], path: str
) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        response = await client.get("/api/v1/events", query, **headers)
    assert response.status == 400
    assert json.loads(response.body)["errors"][0]["path"] == path


async def test_a_reader_that_does_not_keep_up_is_dropped_with_a_place_to_come_back_to(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.05)
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        relay_service.service.feed._buffered_max = 10
        client = await client_of(relay_service)
        stream = await client.stream()
        # An event that is already old when the stream begins would be read from the store: no fault of the reader.
        await until_live(stream)
        await relay_service.tell("a")
        first = await take(stream, 1)
        # It reads nothing more while more events come than its buffer holds.
        await relay_service.tell("a", times=20)
        await relay_service.until_placed(21)
        async with asyncio.timeout(30):
            while relay_service.service.feed.position < 21:
                await asyncio.sleep(0.01)
            rest = [block async for block in stream if block.data is not None]
        assert [block.event for block in rest] == ["interlock.dropped"]
        resume = rest[0].id or ""
        back = await take(await client.stream(last_event_id=resume), 20)
    assert told(first + back) == [("a", n) for n in range(1, 22)]
    assert relay_service.service.feed.dropped.value() == 1


async def test_a_reader_behind_what_is_kept_is_told_of_the_gap(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=6)
        await forget(relay_service, 4)
        found = await take(await client.stream("after=1"), 3)
    assert found[0].event == "interlock.gap"
    assert found[0].data == {"forgotten_after": 1, "oldest_kept": 5}
    assert told(found[1:]) == [("a", 5), ("a", 6)]


async def test_a_reader_is_told_of_the_gap_also_if_nothing_is_kept(any_store: str) -> None:
    async with relaying_service(any_store, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("a", times=4)
        await relay_service.until_placed(4)
        await forget(relay_service, 4)
        found = await take(await client.stream(last_event_id="1"), 1)
        stream = await client.stream(last_event_id="4")
        await relay_service.tell("a")
        up_to_date = await take(stream, 1)
    assert (found[0].event, found[0].data) == ("interlock.gap", {"forgotten_after": 1, "oldest_kept": 5})
    assert told(up_to_date) == [("a", 5)]


@pytest.mark.parametrize("lost", ["key", "roles"])
async def test_an_idle_stream_beats_and_ends_when_its_key_is_revoked_or_its_roles_are_taken(
    lost: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.05)
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        stream = await client.stream()
        await anext(stream)
        assert (await anext(stream)).comment
        if lost == "key":
            await revoke_key(relay_service.service, client.key_id)
        else:
            await client_of(relay_service, roles=())
        async with asyncio.timeout(30):
            assert not [block async for block in stream if block.data is not None]


@pytest.mark.parametrize("lost", ["session", "key", "roles"])
async def test_a_stream_in_a_session_ends_with_the_session(
    lost: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.05)
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        opened = await open_with_key(relay_service.service, client.key)
        headers = {"authorization": f"Bearer {opened.token}"}
        request = Request(method="GET", path="/api/v1/events", headers=headers, made_via="console")
        answer = await relay_service.app.respond(request)
        assert answer.stream is not None
        stream = blocks(answer.stream)
        await anext(stream)
        assert (await anext(stream)).comment
        if lost == "session":
            await end(relay_service.service, opened.token)
        elif lost == "key":
            await revoke_key(relay_service.service, client.key_id)
        else:
            await client_of(relay_service, roles=())
        async with asyncio.timeout(30):
            assert not [block async for block in stream if block.data is not None]


async def test_a_stopping_server_ends_its_streams(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        stream = await (await client_of(relay_service)).stream()
        await anext(stream)
        relay_service.service.stop_waiting()
        async with asyncio.timeout(30):
            rest = [block async for block in stream]
    assert not [block for block in rest if block.data is not None]


async def test_a_stream_that_begins_now_tells_nothing_of_before(postgres_url: str) -> None:
    async with relaying_service(postgres_url, relaying=True) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("before", times=3)
        stream = await client.stream()
        await relay_service.tell("after")
        (first,) = await take(stream, 1)
    assert first.data is not None
    assert first.data["subject"] == "after"


async def forget(relay_service: RelayService, up_to: int) -> None:
    from interlock.rooms.events.model import EVENTS, Forget

    old = [placed for placed in await relay_service.placed() if placed.position <= up_to]
    await relay_service.service.kernel.run(Forget(keys=tuple(EVENTS.key_of(placed.event) for placed in old)))


async def test_a_reader_who_knows_more_than_this_server_is_told_nothing_again(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        await relay_service.tell("a", times=4)
        behind = EventFeed(relay_service.service.store, Wakes(), Registry())
        reader = behind.join("default", after=3)
        await behind.read_once()
        taken = await reader.take(0.0)
    assert [placed.position for placed in taken] == [4]
