"""Webhooks get every event they want, signed, at least once, in order per subject."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from datetime import timedelta

import pytest

from interlock.kernel.clock import utc_now
from interlock.rooms.events import queries
from interlock.rooms.events.deliveries import TakeRelay
from interlock.rooms.events.model import DeliveryState
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.service import relay_loop, relays
from interlock.store.sqlite import SqliteStore
from tests.harness.store_places import serving
from tests.harness.webhook_receiver import Received, Reply
from tests.service.conftest import Receive
from tests.service.relay_service import SECRET, TENANT, orders, relaying_service


async def test_every_event_arrives_in_the_order_of_its_subject(store_url: str, receive: Receive) -> None:
    receiver = await receive()
    async with relaying_service(store_url) as relay_service:
        await relay_service.add_webhook(receiver.url)
        count = await relay_service.tell_all(subjects=20, times=10)
        await receiver.until_taken(count)
    assert orders(receiver.events()) == {f"story-{n}": list(range(1, 11)) for n in range(20)}


async def test_more_webhooks_than_a_server_attends_at_once_take_turns(
    store_url: str, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "RELAYS_MAX", 2)
    receivers = [await receive() for _ in range(6)]
    async with relaying_service(store_url) as relay_service:
        for receiver in receivers:
            await relay_service.add_webhook(receiver.url)
        for told in range(1, 3):
            await relay_service.tell("a")
            for receiver in receivers:
                await receiver.until_taken(told)


async def test_a_webhook_that_is_always_busy_gives_way_in_the_end(
    sqlite_url: str, receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "RELAYS_MAX", 1)
    monkeypatch.setattr(relay_loop, "_TURN_SECONDS", 0.2)
    busy, patient = await receive(), await receive()
    async with relaying_service(sqlite_url) as relay_service:
        await relay_service.add_webhook(busy.url)
        await relay_service.tell("a")
        await busy.until_taken(1)
        await relay_service.add_webhook(patient.url)
        async with asyncio.TaskGroup() as group:
            talking = group.create_task(relay_service.tell("a", times=100_000))
            await patient.until_taken(1)
            talking.cancel()


async def test_a_relay_is_taken_over_also_where_this_machines_clock_is_behind_the_stores(
    sqlite_url: str, receive: Receive
) -> None:
    ahead = SqliteStore(sqlite_url.removeprefix("sqlite:///"), clock=lambda: utc_now() + timedelta(hours=1))
    async with serving(ahead) as early:
        await early.kernel.run(EnsureLocalPerson(tenant=TENANT, name="local:early"))
    receiver = await receive()
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        webhook = await relay_service.add_webhook(receiver.url)
        lapsed = TakeRelay(tenant=TENANT, relay_id=webhook.id, holder="dead", lease=timedelta(0))
        await relay_service.service.kernel.run(lapsed)
        relay_service.relaying.start()
        await relay_service.tell("a")
        await receiver.until_taken(1)


async def test_a_request_carries_a_signature_that_its_receiver_can_check(
    sqlite_url: str, receive: Receive
) -> None:
    receiver = await receive()
    async with relaying_service(sqlite_url) as relay_service:
        await relay_service.add_webhook(receiver.url)
        await relay_service.tell("a")
        await receiver.until_taken(1)
    request = receiver.taken[0]
    sent = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, sent, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    assert request.headers["webhook-id"] == request.event["id"]
    assert request.headers["content-type"] == "application/cloudevents+json"


async def test_an_event_is_a_cloud_event(sqlite_url: str, receive: Receive) -> None:
    receiver = await receive()
    async with relaying_service(sqlite_url) as relay_service:
        await relay_service.add_webhook(receiver.url)
        await relay_service.tell("a")
        await receiver.until_taken(1)
    event = receiver.taken[0].event
    assert event | {"id": "", "time": ""} == {
        "specversion": "1.0",
        "id": "",
        "source": "/interlock/default",
        "type": "dev.interlock.target.touched",
        "subject": "a",
        "time": "",
        "datacontenttype": "application/json",
        "position": "1",
        "data": {"n": 1},
    }


async def test_only_wanted_types_and_only_the_tenants_own_events_arrive(
    sqlite_url: str, receive: Receive
) -> None:
    receiver = await receive()
    async with relaying_service(sqlite_url) as relay_service:
        await relay_service.add_webhook(receiver.url, types=("target.*",))
        await relay_service.tell("a", type="job.failed")
        await relay_service.tell("a", tenant="elsewhere")
        await relay_service.tell("b")
        await receiver.until_taken(1)
    assert [event["subject"] for event in receiver.events()] == ["b"]


async def test_an_event_that_fails_holds_back_its_own_subject_only(sqlite_url: str, receive: Receive) -> None:
    poison = {"left": 4}

    def behave(request: Received) -> Reply:
        event = request.event
        if event["subject"] == "sick" and event["data"]["n"] == 1 and poison["left"] > 0:
            poison["left"] -= 1
            return Reply(status=500)
        return Reply()

    receiver = await receive(behave)
    async with relaying_service(sqlite_url, webhook_retry_base_seconds=0.2) as relay_service:
        await relay_service.add_webhook(receiver.url)
        await relay_service.tell("sick", times=3)
        await relay_service.tell_all(subjects=5, times=4)
        await receiver.until_taken(23)
    assert orders(receiver.events())["sick"] == [1, 2, 3]
    first_sick = next(n for n, event in enumerate(receiver.events()) if event["subject"] == "sick")
    assert first_sick >= 20, "the other subjects waited for the sick one"


async def test_what_is_never_taken_becomes_a_dead_letter_and_what_is_behind_it_goes_on(
    store_url: str, receive: Receive
) -> None:
    receiver = await receive(
        lambda request: Reply(status=500) if request.event["data"]["n"] == 1 else Reply()
    )
    async with relaying_service(store_url, webhook_attempts_max=3) as relay_service:
        webhook = await relay_service.add_webhook(receiver.url)
        await relay_service.tell("a", times=3)
        await receiver.until_taken(2)
        await receiver.until(lambda: len(receiver.taken) >= 2)
        dead = await queries.deliveries(
            relay_service.service.store, TENANT, webhook.id, DeliveryState.DEAD, limit=10
        )
    assert [(letter.subject, letter.attempts, letter.error) for letter in dead] == [
        ("a", 3, "it answered 500")
    ]
    assert orders(receiver.events()) == {"a": [2, 3]}


async def test_an_outage_of_the_receiver_loses_nothing_and_keeps_the_order(
    store_url: str, receive: Receive
) -> None:
    receiver = await receive()
    port = receiver.port
    await receiver.stop()
    async with relaying_service(store_url, webhook_retry_most_seconds=0.5) as relay_service:
        webhook = await relay_service.add_webhook(receiver.url)
        count = await relay_service.tell_all(subjects=10, times=10)
        await relay_service.until_placed(count)
        async with asyncio.timeout(60):
            while (await relay_service.relay(webhook.id)).failures < 4:
                await asyncio.sleep(0.02)
        await receiver.start(port=port)
        await receiver.until_taken(count)
    assert orders(receiver.events()) == {f"story-{n}": list(range(1, 11)) for n in range(10)}


async def test_a_failing_webhook_does_not_delay_another(sqlite_url: str, receive: Receive) -> None:
    stuck = await receive(lambda _: Reply(delay_seconds=30))
    well = await receive()
    async with relaying_service(sqlite_url, webhook_timeout_seconds=20) as relay_service:
        await relay_service.add_webhook(stuck.url)
        await relay_service.add_webhook(well.url)
        count = await relay_service.tell_all(subjects=10, times=5)
        await well.until_taken(count)
    assert not stuck.taken


async def test_a_removed_webhook_gets_nothing_more(sqlite_url: str, receive: Receive) -> None:
    from interlock.rooms.events.webhooks import RemoveWebhook
    from interlock.rooms.identity.model import Caller

    receiver = await receive()
    other = await receive()
    async with relaying_service(sqlite_url) as relay_service:
        webhook = await relay_service.add_webhook(receiver.url)
        await relay_service.add_webhook(other.url)
        await relay_service.tell("a")
        await receiver.until_taken(1)
        by = Caller(tenant=TENANT, principal="local:test")
        await relay_service.service.kernel.run(RemoveWebhook(webhook_id=webhook.id, by=by))
        await relay_service.tell("a", times=5)
        await other.until_taken(6)
    assert len(receiver.received) == 1
