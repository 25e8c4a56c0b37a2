"""One relay at a time a target: what a lease, its end and its fence allow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel
from interlock.rooms.events.deliveries import (
    Fenced,
    RelayTrouble,
    ReleaseRelay,
    SettleDeliveries,
    TakeRelay,
)
from interlock.rooms.events.model import (
    BROKER,
    DELIVERIES,
    DEPLOYMENT,
    RELAYS,
    BrokerMark,
    Delivery,
    RelayGone,
    RelayHeld,
    RelayLost,
)
from interlock.store.memory import MemoryStore

LEASE = timedelta(seconds=30)
WHERE: dict[str, Any] = {"tenant": DEPLOYMENT, "relay_id": BROKER}


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def kernel(clock: Clock) -> AsyncGenerator[Kernel]:
    store = MemoryStore(clock=clock)
    await store.open()
    running = Kernel(store, new_id=new_id)
    running.start()
    yield running
    await running.close()
    await store.close()


def take(holder: str) -> TakeRelay:
    return TakeRelay(**WHERE, holder=holder, lease=LEASE)


def advance(fence: int, position: int, **fields: Any) -> SettleDeliveries:
    return SettleDeliveries(**WHERE, fence=fence, lease=LEASE, position=position, **fields)


async def test_a_held_relay_cannot_be_taken(kernel: Kernel) -> None:
    await kernel.run(take("one"))
    with pytest.raises(RelayHeld):
        await kernel.run(take("two"))


async def test_after_its_lease_a_relay_goes_to_the_next_with_a_higher_fence(
    kernel: Kernel, clock: Clock
) -> None:
    first = await kernel.run(take("one"))
    clock.pass_by(30)
    second = await kernel.run(take("two"))
    assert (second.holder, second.fence) == ("two", first.fence + 1)


async def test_whoever_was_replaced_can_neither_move_nor_renew_nor_release(
    kernel: Kernel, clock: Clock
) -> None:
    old = await kernel.run(take("one"))
    clock.pass_by(30)
    new = await kernel.run(take("two"))
    await kernel.run(advance(new.fence, 7))
    stale: dict[str, Any] = {**WHERE, "fence": old.fence, "lease": LEASE}
    for command in (
        advance(old.fence, 3),
        Fenced(**stale),
        ReleaseRelay(**stale),
    ):
        with pytest.raises(RelayLost):
            await kernel.run(command)
    relay = await kernel.run(advance(new.fence, 8))
    assert (relay.holder, relay.position) == ("two", 8)


async def test_renewing_keeps_others_out(kernel: Kernel, clock: Clock) -> None:
    held = await kernel.run(take("one"))
    for _ in range(5):
        clock.pass_by(20)
        await kernel.run(Fenced(**WHERE, fence=held.fence, lease=LEASE))
    with pytest.raises(RelayHeld):
        await kernel.run(take("two"))


async def test_a_released_relay_is_free_at_once_and_keeps_its_place(kernel: Kernel) -> None:
    held = await kernel.run(take("one"))
    await kernel.run(advance(held.fence, 5, mark=BrokerMark("then", 5)))
    await kernel.run(ReleaseRelay(**WHERE, fence=held.fence, lease=LEASE))
    taken = await kernel.run(take("two"))
    assert (taken.position, taken.mark, taken.fence) == (5, BrokerMark("then", 5), 2)


async def test_a_webhooks_relay_is_not_made_by_taking_it(kernel: Kernel) -> None:
    with pytest.raises(RelayGone):
        await kernel.run(TakeRelay(tenant="default", relay_id="wh_gone", holder="one", lease=LEASE))


async def test_trouble_is_kept_with_its_beginning_and_ends_with_the_next_success(
    kernel: Kernel, clock: Clock
) -> None:
    held = await kernel.run(take("one"))
    began = clock.now
    trouble = RelayTrouble(failures=1, error="down", retry_at=clock.now)
    await kernel.run(advance(held.fence, 0, trouble=trouble))
    clock.pass_by(5)
    worse = await kernel.run(
        advance(held.fence, 0, trouble=RelayTrouble(failures=2, error="down", retry_at=clock.now))
    )
    well = await kernel.run(advance(held.fence, 1))
    assert (worse.failures, worse.failing_since) == (2, began)
    assert (well.failures, well.failing_since, well.error) == (0, None, "")


async def test_settling_moves_keeps_and_drops_in_one_decision(kernel: Kernel, clock: Clock) -> None:
    held = await kernel.run(take("one"))
    delivery = Delivery(
        tenant=DEPLOYMENT, id="wh.evt", webhook="wh", event_id="evt", type="t", subject="s", position=3,
        body="{}", since=clock.now, next_attempt_at=clock.now,
    )  # fmt: skip
    settle: dict[str, Any] = {**WHERE, "fence": held.fence, "lease": LEASE}
    await kernel.run(SettleDeliveries(**settle, position=3, kept=(delivery,)))
    store = kernel.store
    assert isinstance(store, MemoryStore)
    assert await store.get(DELIVERIES, DEPLOYMENT, "wh.evt") is not None
    await kernel.run(SettleDeliveries(**settle, position=4, taken=("wh.evt",)))
    relay = await store.get(RELAYS, DEPLOYMENT, BROKER)
    assert await store.get(DELIVERIES, DEPLOYMENT, "wh.evt") is None
    assert relay is not None
    assert relay.position == 4
