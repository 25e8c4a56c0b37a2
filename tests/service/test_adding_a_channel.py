"""A channel is one file and one line of a table: the one below delivers, tries again and makes dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from interlock.api.asgi import create_app
from interlock.channels import table
from interlock.rooms.events import queries
from interlock.rooms.events.deliveries import Backoff
from interlock.rooms.events.model import DEPLOYMENT, Delivery, DeliveryState
from interlock.rooms.events.webhooks import Redeliver, RotateSecret
from interlock.rooms.identity.model import Caller
from interlock.service.channel import (
    Channel,
    ChannelLimits,
    Delivered,
    Destination,
    GiveUp,
    Outcome,
    Standing,
    TryAgain,
)
from interlock.service.settings import Settings
from tests.api.events.api_client import client_of
from tests.service.relay_service import SECRET, TENANT, RelayService, relaying_service

ATTEMPTS_MAX = 3
FAST = Backoff(base_seconds=0.02, most_seconds=0.05, attempts_max=ATTEMPTS_MAX)


class PagerReceiver:
    """The far end of the channel: answers as the test says, and keeps what it took and what it was offered."""

    def __init__(self) -> None:
        self.answer: Callable[[int, int], Outcome] = lambda _n, _attempt: Delivered()
        self.offered: list[int] = []
        self.taken: list[int] = []
        self.secrets: list[tuple[str, ...]] = []
        self.opened = 0
        self.closed = 0

    async def until_taken(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.taken) < count:
                await asyncio.sleep(0.01)


RECEIVERS: dict[str, PagerReceiver] = {}


class PagerChannel(Channel):
    """All that a new channel has to say."""

    kind: ClassVar[str] = "pager"
    limits = ChannelLimits(seconds=0.5, backoff=FAST, look_seconds=0.5)

    def __init__(self, destination: Destination, settings: Settings) -> None:
        self._destination = destination
        self._desk = RECEIVERS[destination.address]
        self._desk.opened += 1

    async def deliver(self, letters: Sequence[Delivery]) -> Outcome:
        numbers = [json.loads(letter.body)["data"].get("n", 0) for letter in letters]
        attempt = self._desk.offered.count(numbers[0]) + 1
        self._desk.offered += numbers
        self._desk.secrets.append(self._destination.secrets())
        outcome = self._desk.answer(numbers[0], attempt)
        if outcome == HANGS:
            await asyncio.sleep(3600)
        if isinstance(outcome, Delivered):
            self._desk.taken += numbers
        return outcome

    async def close(self) -> None:
        self._desk.closed += 1


class TapeChannel(PagerChannel):
    """A copy of everything, in order; the operator configures it for all tenants."""

    kind: ClassVar[str] = "tape"
    limits = ChannelLimits(seconds=0.5, backoff=FAST, look_seconds=0.5, in_order=True, batch_max=3)

    @classmethod
    def of_deployment(cls, settings: Settings) -> Destination | None:
        return Destination(tenant=DEPLOYMENT, id="tape", address="receiver")


HANGS = TryAgain("it never answers")


@pytest.fixture
def receiver() -> Iterator[PagerReceiver]:
    RECEIVERS["receiver"] = PagerReceiver()
    yield RECEIVERS["receiver"]
    del RECEIVERS["receiver"]


@pytest.fixture(autouse=True)
def _a_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CHANNELS", (*table.CHANNELS, PagerChannel))


async def dead_letters(relay_service: RelayService, relay_id: str, *, count: int) -> list[Delivery]:
    """The dead letters of a destination once there are that many."""
    async with asyncio.timeout(30):
        while True:
            found = await queries.deliveries(
                relay_service.service.store, TENANT, relay_id, DeliveryState.DEAD, limit=10
            )
            if len(found) >= count:
                return found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def served(store_url: str) -> AsyncGenerator[RelayService]:
    """The whole application, as `interlock serve` opens it, and a second service to act on its store."""
    async with (
        create_app(Settings(store=store_url)).opened(),
        relaying_service(store_url, relaying=False) as relay_service,
    ):
        yield relay_service


async def test_a_new_file_and_a_line_of_the_table_deliver_retry_and_dead_letter(
    store_url: str, receiver: PagerReceiver
) -> None:
    def answer(n: int, attempt: int) -> Outcome:
        if n == 2 and attempt < ATTEMPTS_MAX:
            return TryAgain("the line is busy")
        if n == 3:
            return TryAgain("nobody answers")
        return GiveUp("no such number") if n == 4 else Delivered()

    receiver.answer = answer
    async with served(store_url) as relay_service:
        pager = await relay_service.add_webhook("receiver", kind="pager")
        await relay_service.tell("a", times=5)
        await receiver.until_taken(3)
        dead = await dead_letters(relay_service, pager.id, count=2)
    assert receiver.taken == [1, 2, 5]
    assert receiver.offered == [1, 2, 2, 2, 3, 3, 3, 4, 5]
    assert [(letter.attempts, letter.error) for letter in dead] == [
        (ATTEMPTS_MAX, "nobody answers"),
        (1, "no such number"),
    ]
    assert (receiver.opened, receiver.closed) == (1, 1)


async def test_a_dead_letter_of_any_channel_is_sent_again_on_request(
    store_url: str, receiver: PagerReceiver
) -> None:
    receiver.answer = lambda _n, _attempt: GiveUp("no such number")
    async with relaying_service(store_url, channels=table.CHANNELS) as relay_service:
        pager = await relay_service.add_webhook("receiver", kind="pager")
        await relay_service.tell("a")
        (dead,) = await dead_letters(relay_service, pager.id, count=1)
        receiver.answer = lambda _n, _attempt: Delivered()
        by = Caller(tenant=TENANT, principal="local:test")
        await relay_service.service.kernel.run(Redeliver(webhook_id=pager.id, event_id=dead.event_id, by=by))
        await receiver.until_taken(1)
        counted = relay_service.service.relay_measures.deliveries
        assert (counted.value("pager", "taken"), counted.value("pager", "dead")) == (1, 1)


async def test_a_channel_that_raises_or_hangs_costs_an_attempt_and_stops_nothing(
    sqlite_url: str, receiver: PagerReceiver
) -> None:
    def answer(_: int, attempt: int) -> Outcome:
        if attempt == 1:
            raise LookupError("a defect of the channel")
        return HANGS if attempt == 2 else Delivered()

    receiver.answer = answer
    async with relaying_service(sqlite_url, channels=table.CHANNELS) as relay_service:
        await relay_service.add_webhook("receiver", kind="pager")
        await relay_service.tell("a")
        await receiver.until_taken(1)
        assert relay_service.service.relay_measures.deliveries.value("pager", "refused") == 2
    assert receiver.offered == [1, 1, 1]


async def test_a_changed_destination_is_opened_anew(sqlite_url: str, receiver: PagerReceiver) -> None:
    async with relaying_service(sqlite_url, channels=table.CHANNELS) as relay_service:
        pager = await relay_service.add_webhook("receiver", kind="pager")
        await relay_service.tell("a")
        await receiver.until_taken(1)
        by = Caller(tenant=TENANT, principal="local:test")
        await relay_service.service.kernel.run(RotateSecret(webhook_id=pager.id, secret="whsec_new", by=by))
        await relay_service.tell("a")
        await receiver.until_taken(2)
    assert receiver.secrets == [(SECRET,), ("whsec_new", SECRET)]
    assert (receiver.opened, receiver.closed) == (2, 2)


async def test_a_test_event_goes_through_the_channel_too(sqlite_url: str, receiver: PagerReceiver) -> None:
    receiver.answer = lambda _n, attempt: GiveUp("no such number") if attempt == 1 else Delivered(status=7)
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        pager = await relay_service.add_webhook("receiver", kind="pager")
        client = await client_of(relay_service)
        _, refused = await client.call("POST", f"/api/v1/webhooks/{pager.id}/test")
        _, taken = await client.call("POST", f"/api/v1/webhooks/{pager.id}/test")
    assert (refused["delivered"], refused["error"]) == (False, "no such number")
    assert (taken["delivered"], taken["status"]) == (True, 7)


async def test_a_destination_whose_channel_this_server_lacks_is_left_to_those_that_have_it(
    sqlite_url: str, receiver: PagerReceiver
) -> None:
    async with relaying_service(sqlite_url) as relay_service:
        pager = await relay_service.add_webhook("receiver", kind="pager")
        await relay_service.tell("a")
        await relay_service.relaying.take_free()
        await asyncio.sleep(0.2)
        assert (await relay_service.relay(pager.id)).fence == 0
    async with relaying_service(sqlite_url, channels=table.CHANNELS):
        await receiver.until_taken(1)


async def test_a_channel_in_order_delivers_everything_once_and_waits_for_what_fails(
    store_url: str, receiver: PagerReceiver
) -> None:
    receiver.answer = lambda n, attempt: (
        GiveUp("not now") if n == 4 and attempt <= 2 * ATTEMPTS_MAX else Delivered()
    )
    async with relaying_service(store_url, relaying=False, channels=(TapeChannel,)) as relay_service:
        await relay_service.tell("a", times=7)
        await relay_service.until_placed(7)
        relay_service.relaying.start()
        await receiver.until_taken(7)
        await relay_service.tell("a")
        await receiver.until_taken(8)
    assert receiver.taken == [1, 2, 3, 4, 5, 6, 7, 8]
    assert receiver.offered.count(4) == 2 * ATTEMPTS_MAX + 1
    assert (receiver.opened, receiver.closed) == (1, 1)


async def test_what_a_channel_in_order_lost_is_sent_again(
    sqlite_url: str, receiver: PagerReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.Event()

    async def resume(_: TapeChannel, standing: Standing) -> Standing:
        if lost.is_set():
            lost.clear()
            return Standing(1, standing.mark)
        return standing

    monkeypatch.setattr(TapeChannel, "resume", resume)
    async with relaying_service(sqlite_url, channels=(TapeChannel,)) as relay_service:
        await relay_service.tell("a", times=3)
        await receiver.until_taken(3)
        lost.set()
        await relay_service.tell("b")
        await receiver.until_taken(6)
    assert receiver.taken == [1, 2, 3, 2, 3, 1]
