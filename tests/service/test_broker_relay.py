"""NATS gets a copy of every event, at least once and in order, whatever happens to it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats as nats_client

from interlock.channels.nats import subject_of, waves
from interlock.rooms.events.deliveries import as_delivery
from interlock.rooms.events.model import BROKER, DEPLOYMENT
from tests.harness.nats import NatsServer
from tests.harness.soak import dose
from tests.service.relay_service import orders, relaying_service, utc_now


async def stored(
    server: NatsServer, stream: str = "INTERLOCK"
) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Every message of the stream in its order: the event and its headers."""
    client = await nats_client.connect(server.url)
    try:
        jetstream = client.jetstream()
        info = await jetstream.stream_info(stream)
        found = []
        for sequence in range(info.state.first_seq, info.state.last_seq + 1):
            message = await jetstream.get_msg(stream, seq=sequence)
            assert message.data is not None
            found.append((json.loads(message.data), dict(message.headers or {})))
        return found
    finally:
        await client.close()


async def until_stored(server: NatsServer, count: int, *, seconds: float = 60) -> list[dict[str, Any]]:
    """The stream's events once it has `count` different ones."""
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(seconds):
        while len({event["id"] for event in events}) < count:
            await asyncio.sleep(0.1)
            try:
                events = [event for event, _ in await stored(server)]
            except Exception:  # noqa: BLE001 - it is being killed and wiped
                events = []
    return events


async def test_every_event_is_copied_in_order_under_its_own_id(sqlite_url: str, nats: NatsServer) -> None:
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        count = await relay_service.tell_all(subjects=10, times=10)
        events = await until_stored(nats, count)
        copies = await stored(nats)
    assert len(events) == count, "something was copied twice"
    assert orders(events) == {f"story-{n}": list(range(1, 11)) for n in range(10)}
    assert all(headers["Nats-Msg-Id"] == event["id"] for event, headers in copies)


async def test_a_dead_broker_delays_events_and_loses_none(sqlite_url: str, nats: NatsServer) -> None:
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        await relay_service.tell("a", times=3)
        await until_stored(nats, 3)
        nats.kill()
        await relay_service.tell("a", times=5)
        async with asyncio.timeout(30):
            while not (await relay_service.relay(BROKER, DEPLOYMENT)).error:
                await asyncio.sleep(0.05)
        nats.start()
        events = await until_stored(nats, 8)
    assert orders(events) == {"a": list(range(1, 9))}


async def test_a_wiped_broker_gets_everything_again(sqlite_url: str, nats: NatsServer) -> None:
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        await relay_service.tell("a", times=10)
        await until_stored(nats, 10)
        nats.kill()
        nats.wipe()
        nats.start()
        events = await until_stored(nats, 10)
    assert orders(events) == {"a": list(range(1, 11))}


async def test_a_broker_wiped_while_no_server_ran_gets_everything_again(
    sqlite_url: str, nats: NatsServer
) -> None:
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        await relay_service.tell("a", times=5)
        await until_stored(nats, 5)
    nats.kill()
    nats.wipe()
    nats.start()
    async with relaying_service(sqlite_url, nats_url=nats.url):
        events = await until_stored(nats, 5)
    assert orders(events) == {"a": [1, 2, 3, 4, 5]}


async def test_a_stream_made_anew_by_somebody_else_gets_everything_again(
    sqlite_url: str, nats: NatsServer
) -> None:
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        await relay_service.tell("a", times=5)
        await until_stored(nats, 5)
        client = await nats_client.connect(nats.url)
        await client.jetstream().delete_stream("INTERLOCK")
        await client.jetstream().add_stream(name="INTERLOCK", subjects=["interlock.events.>"])
        await client.close()
        await relay_service.tell("a", times=2)
        events = await until_stored(nats, 7)
    assert orders(events) == {"a": list(range(1, 8))}


async def test_a_stream_that_lost_only_its_end_gets_only_its_end_again(
    sqlite_url: str, nats: NatsServer
) -> None:
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        await relay_service.tell("a", times=5)
        await until_stored(nats, 5)
    nats.kill()
    nats.set_aside()
    nats.start()
    async with relaying_service(sqlite_url, nats_url=nats.url) as relay_service:
        await relay_service.tell("a", times=5)
        await until_stored(nats, 10)
    # As after a power failure of a broker that had not written its last messages yet.
    nats.kill()
    nats.put_back()
    nats.start()
    async with relaying_service(sqlite_url, nats_url=nats.url):
        events = await until_stored(nats, 10)
    assert [event["data"]["n"] for event in events] == list(range(1, 11))


async def test_killed_and_wiped_during_load_the_broker_ends_with_every_event_in_order(
    store_url: str, nats: NatsServer
) -> None:
    rounds = dose(3)
    async with relaying_service(store_url, nats_url=nats.url) as relay_service:
        for turn in range(rounds):
            load = asyncio.create_task(relay_service.tell_all(subjects=20, times=10))
            await asyncio.sleep(0.3)
            nats.kill()
            if turn % 2 == 0:
                nats.wipe()
            await asyncio.sleep(0.2)
            nats.start()
            await load
        events = await until_stored(nats, 200 * rounds)
        committed = {placed.event.id for placed in await relay_service.placed()}
    assert {event["id"] for event in events} == committed
    told = list(range(1, 10 * rounds + 1))
    assert orders(events) == {f"story-{n}": told for n in range(20)}


async def test_waves_never_hold_two_events_of_one_subject(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        for subject in ("a", "b", "a", "c", "c", "b"):
            await relay_service.tell(subject)
        cut = waves(
            [as_delivery(placed, BROKER, utc_now()) for placed in await relay_service.until_placed(6)]
        )
    assert [[letter.subject for letter in wave] for wave in cut] == [["a", "b"], ["a", "c"], ["c", "b"]]


def test_a_tenants_name_cannot_reach_into_another_subject() -> None:
    assert subject_of("interlock.events", "a.b", "job.done") == "interlock.events.a%2Eb.job.done"
    assert subject_of("p", "*", "t") == "p.%2A.t"
    assert subject_of("p", ">", "t") == "p.%3E.t"
    assert subject_of("p", "a b", "t") == "p.a%20b.t"
