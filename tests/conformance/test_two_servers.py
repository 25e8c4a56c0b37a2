"""Several servers on one database: races for keys and rows, waits for locks, wake-ups from one to another."""

from __future__ import annotations

import asyncio

from interlock.kernel.idempotency import Once
from interlock.kernel.refusal import LockBusy
from tests.harness.soak import dose
from tests.harness.store_places import Heard, Place, PostgresPlace, two_servers
from tests.kernel.counter_room import (
    Counter,
    Drop,
    Follow,
    Plan,
    Point,
    Raise,
    Swap,
    Take,
    counter_topic,
    once,
)

LONG_AGO = 1_000_000


async def test_servers_that_race_for_a_new_key_count_together(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        for n in range(dose(20)):
            outcomes = await asyncio.gather(
                *(server.kernel.run(Raise(name=f"c{n}")) for server in (one, other) for _ in range(5))
            )
            assert sorted(outcome.count for outcome in outcomes) == list(range(1, 11))


async def test_two_lone_commands_that_race_for_a_new_key_are_both_decided(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        for n in range(dose(40)):
            first, second = await asyncio.gather(
                one.kernel.run(Raise(name=f"c{n}")), other.kernel.run(Raise(name=f"c{n}"))
            )
            assert {first.count, second.count} == {1, 2}


async def test_servers_that_race_for_one_hot_record_lose_no_change(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        calls = [server.kernel.run(Raise(name="hot")) for server in (one, other) for _ in range(200)]
        outcomes = await asyncio.gather(*calls)
        assert sorted(outcome.count for outcome in outcomes) == list(range(1, 401))
        assert await one.counts("hot") == [400]


async def test_servers_that_make_and_drop_the_same_keys_agree_on_every_step(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        raised = dropped = 0
        for _ in range(dose(15)):
            commands = [Raise(name="a"), Drop(name="a"), Raise(name="b"), Drop(name="b")]
            outcomes = await asyncio.gather(
                *(server.kernel.run(command) for server in (one, other) for command in commands),
                return_exceptions=True,
            )
            assert not [outcome for outcome in outcomes if isinstance(outcome, LockBusy)]
            raised += sum(isinstance(outcome, Counter) for outcome in outcomes)
            dropped += sum(outcome for outcome in outcomes if isinstance(outcome, int))
        left = sum(count or 0 for count in await one.counts("a", "b"))
        assert raised == dropped + left


async def test_one_idempotent_call_sent_to_two_servers_is_decided_once(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        for n in range(dose(10)):
            call: Once[Counter] = once(f"key{n}", hours=1)
            answers = await asyncio.gather(
                *(server.kernel.run(call) for server in (one, other) for _ in range(5))
            )
            assert sum(not answer.replayed for answer in answers) == 1
            assert len({answer.body for answer in answers}) == 1
        assert await one.counts("a") == [dose(10)]


async def test_no_chore_is_taken_by_two_servers(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        names = [f"c{n:03d}" for n in range(100)]
        await one.outcomes(*(Plan(name=name, due=LONG_AGO + n) for n, name in enumerate(names)))
        taken: list[str] = []
        while len(taken) < len(names):
            claims = [server.kernel.run(Take(who="w", most=3)) for server in (one, other) for _ in range(4)]
            taken += [name for claim in await asyncio.gather(*claims) for name in claim]
        assert sorted(taken) == names


async def test_servers_that_lock_in_opposite_order_never_stop_each_other(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        await one.outcomes(Raise(name="a", by=1), Raise(name="b", by=2), Raise(name="c", by=3))
        await one.outcomes(Point(name="to_a", at="a"), Point(name="to_c", at="c"))
        for _ in range(dose(15)):
            outcomes = await asyncio.gather(
                one.kernel.run(Swap(first="a", second="c")),
                other.kernel.run(Swap(first="c", second="a")),
                one.kernel.run(Follow(name="to_c")),
                other.kernel.run(Follow(name="to_a")),
                return_exceptions=True,
            )
            assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert sum(count or 0 for count in await one.counts("a", "b", "c")) == 6 + 2 * dose(15)


async def test_a_wake_up_reaches_the_other_server_and_not_its_own(shared_place: Place) -> None:
    async with two_servers(shared_place) as (one, other):
        near, far = Heard(), Heard()
        await one.store.listen(near)
        await other.store.listen(far)
        if isinstance(shared_place, PostgresPlace):
            await near.next()  # Both are told that they may have missed something before.
            await far.next()
        await asyncio.sleep(0.2)  # The first hears that there is a second.
        before = len(near.topics)
        await one.kernel.run(Raise(name="a"))
        await far.next()
        assert far.topics[-1] in (None, frozenset({counter_topic("a")}))
        await asyncio.sleep(0.2)
        assert len(near.topics) == before
