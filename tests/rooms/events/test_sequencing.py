"""Positions: every committed event gets one, in the order of its subject, and no reader can pass one over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from interlock.kernel.refusal import CommandFailed
from interlock.kernel.storage import Store
from interlock.rooms.events import queries
from interlock.rooms.events.model import EVENTS_TOPIC, PlacedEvent
from tests.harness.in_process_api import ASK, open_api
from tests.harness.soak import dose
from tests.service.relay_service import TENANT, RelayService, Tell, relaying_service

# Of now: a relay forgets events that are older than they are kept for.
INSERT = (
    "INSERT INTO events (tenant, id, version, body, at, type, subject) "
    "VALUES ('default', $1, 1, $2, EXTRACT(EPOCH FROM now())::bigint * 1000000, 'late.told', $3)"
)


@contextlib.asynccontextmanager
async def open_transaction(url: str) -> AsyncGenerator[asyncpg.Connection]:
    """A transaction of another server, open until it is committed or rolled back in the block."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        yield connection
    finally:
        await connection.close()


async def insert_event(connection: asyncpg.Connection, event_id: str) -> None:
    """Draw the next `seq` for an event, in the open transaction."""
    body = (
        f'{{"tenant":"default","id":"{event_id}","version":1,"at":"2026-01-01T00:00:00Z",'
        f'"type":"late.told","subject":"{event_id}"}}'
    )
    await connection.execute(INSERT, event_id, body, event_id)


async def test_an_event_that_commits_late_is_not_skipped(postgres_url: str) -> None:
    async with relaying_service(postgres_url) as relay_service:
        async with open_transaction(postgres_url) as late:
            await insert_event(late, "evt_late")
            await relay_service.tell("early")
            seen = await relay_service.until_placed(1)
            assert [placed.event.subject for placed in seen] == ["early"]
            await passed_on(relay_service, seen[-1].position)
            reader = relay_service.service.feed.join(TENANT)
            await late.execute("COMMIT")
        await relay_service.tell("after")
        await relay_service.until_placed(3)
        got = await taken(reader, 2)
        seqs = await seqs_by_position(postgres_url)
    assert [placed.event.subject for placed in got] == ["evt_late", "after"]
    assert seqs != sorted(seqs), "the late event's seq is not lower; the test proves nothing"


async def test_positions_have_no_gaps_although_transactions_roll_back(postgres_url: str) -> None:
    async with relaying_service(postgres_url) as relay_service:
        await relay_service.tell("a", times=3)
        async with open_transaction(postgres_url) as doomed:
            await insert_event(doomed, "evt_doomed")
            await doomed.execute("ROLLBACK")
        await relay_service.tell("b", times=3)
        found = await relay_service.until_placed(6)
    assert [placed.position for placed in found] == [1, 2, 3, 4, 5, 6]
    assert {placed.event.subject for placed in found} == {"a", "b"}


async def test_a_command_that_breaks_after_announcing_leaves_no_event(store_url: str) -> None:
    async with relaying_service(store_url) as relay_service:
        with pytest.raises(CommandFailed):
            await relay_service.service.kernel.run(Tell(subject="broken", fails=True))
        await relay_service.tell("fine")
        found = await relay_service.until_placed(1)
    assert [placed.event.subject for placed in found] == ["fine"]


async def test_two_servers_give_each_event_one_position_in_the_order_of_its_subject(
    postgres_url: str,
) -> None:
    times = dose(40)
    async with relaying_service(postgres_url) as one, relaying_service(postgres_url) as two:
        await asyncio.gather(*(tell_alternately(one, two, f"story-{n}", times) for n in range(10)))
        found = await one.until_placed(10 * times)
    assert [placed.position for placed in found] == list(range(1, 10 * times + 1))
    for n in range(10):
        told = [placed.event.data["n"] for placed in found if placed.event.subject == f"story-{n}"]
        assert told == list(range(1, times + 1))


async def test_while_one_server_gives_positions_another_neither_waits_nor_gives_any(
    postgres_url: str,
) -> None:
    async with relaying_service(postgres_url, feeding=False) as relay_service:
        await relay_service.tell("story", times=3)
        async with open_transaction(postgres_url) as first:
            given = await first.fetchval("SELECT sequence_events(2)")
            meanwhile = await queries.sequence(relay_service.service.store)
            await first.execute("COMMIT")
        after = await queries.sequence(relay_service.service.store)
        found = await relay_service.placed()
    assert (given, meanwhile, after) == (2, queries.BUSY, 1)
    assert [(placed.position, placed.event.data["n"]) for placed in found] == [(1, 1), (2, 2), (3, 3)]


async def test_events_of_before_the_feed_began_get_positions_too(postgres_url: str) -> None:
    async with open_transaction(postgres_url) as raw:
        async with relaying_service(postgres_url):
            pass
        for n in range(3):
            await insert_event(raw, f"evt_{n}")
        await raw.execute("COMMIT")
    async with relaying_service(postgres_url) as relay_service:
        assert len(await relay_service.until_placed(3)) == 3


async def test_the_head_stays_when_every_event_is_forgotten(store_url: str) -> None:
    async with relaying_service(store_url, relaying=False) as relay_service:
        await relay_service.tell("a", times=3)
        await relay_service.until_placed(3)
        await forget_all(relay_service)
        await relay_service.tell("b")
        found = await relay_service.until_placed(1)
        assert await queries.head(relay_service.service.store) == 4
    assert [(placed.position, placed.event.subject) for placed in found] == [(4, "b")]


async def forget_all(relay_service: RelayService) -> None:
    from interlock.rooms.events.model import EVENTS, Forget

    keys = tuple(EVENTS.key_of(placed.event) for placed in await relay_service.placed())
    await relay_service.service.kernel.run(Forget(keys=keys))


async def tell_alternately(one: RelayService, two: RelayService, subject: str, times: int) -> None:
    for n in range(times):
        await (one, two)[n % 2].tell(subject)


async def passed_on(relay_service: RelayService, position: int) -> None:
    """Return once the feed has seen this position: who joins now gets only what comes after."""
    async with asyncio.timeout(30):
        while relay_service.service.feed.position < position:
            await asyncio.sleep(0.005)


async def taken(reader: object, count: int) -> list[PlacedEvent]:
    """The first `count` events of a reader."""
    from interlock.service.event_feed import Reader

    assert isinstance(reader, Reader)
    found: list[PlacedEvent] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await reader.take(1.0)
    return found


async def seqs_by_position(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch("SELECT seq FROM events ORDER BY position")]
    finally:
        await connection.close()


async def test_whoever_catches_up_waits_for_one_pass_and_not_for_those_who_go_on(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    sequence = queries.sequence

    async def noted(store: Store) -> int:
        await relay_service.tell("meanwhile")
        passes.append(await sequence(store))
        return passes[-1]

    async with relaying_service(postgres_url, relaying=False, feeding=False) as relay_service:
        await relay_service.tell("before", times=3)
        monkeypatch.setattr(queries, "sequence", noted)
        await relay_service.service.feed.catch_up()
    assert passes == [4]


async def test_whoever_waits_for_events_is_woken_by_one() -> None:
    async with open_api() as api:
        await api.policy(ASK)
        bot = await api.agent()
        with api.service.kernel.wakes.subscribe(EVENTS_TOPIC) as heard:
            await api.propose(bot, {"amount": 1})
            assert await heard.wait(5)
