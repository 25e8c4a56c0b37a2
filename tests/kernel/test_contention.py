"""Contention: it costs time, never a wrong answer, and it ends in `LockBusy` and in nothing else."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import LockTimeout, Transaction, WriteConflict
from tests.kernel.counter_room import COUNTERS, TENANT, Follow, Look, Point, Raise
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time

BUDGET = 2.0


def now() -> float:
    return asyncio.get_running_loop().time()


def conflict_on(name: str) -> ScriptedStore:
    """A store in which another server always writes this counter first."""
    store = ScriptedStore()
    key = COUNTERS.key(TENANT, name)

    def told(transaction: Transaction) -> Exception | None:
        return WriteConflict(name) if key in transaction.reads.own else None

    store.refuse_when(told)
    return store


@in_virtual_time
async def test_a_write_conflict_runs_the_batch_again_from_a_fresh_load() -> None:
    async with scripted_kernel() as b:
        b.store.fail_next(WriteConflict("another server was first"))
        outcomes = await b.outcomes(Raise(name="a"), Raise(name="a"))
        assert [outcome.count for outcome in outcomes] == [1, 2]
        assert len(b.store.transactions) == 2
        assert b.store.transactions[0].batch_id != b.store.transactions[1].batch_id
        assert b.watched.reruns == ["write_conflict"]


@in_virtual_time
async def test_a_command_that_always_conflicts_delays_its_neighbours_only_briefly() -> None:
    async with scripted_kernel(conflict_on("hot")) as b:
        hot = asyncio.create_task(b.kernel.run(Raise(name="hot")))
        outcomes = await b.outcomes(*(Raise(name=f"c{n}") for n in range(63)))
        assert all(outcome.count == 1 for outcome in outcomes)
        assert now() < BUDGET / 4
        with pytest.raises(LockBusy):
            await hot


@in_virtual_time
async def test_a_command_that_always_conflicts_no_longer_takes_others_along() -> None:
    async with scripted_kernel(conflict_on("hot")) as b:
        hot = asyncio.create_task(b.kernel.run(Raise(name="hot")))
        await asyncio.sleep(0.5)
        seen = len(b.store.transactions)

        async def keep_calling(pause: float) -> None:
            # Out of step with the batches, so that a command that comes back has company.
            while not hot.done():
                await b.kernel.run(Raise(name="a"))
                await asyncio.sleep(pause)

        await asyncio.gather(*(keep_calling(0.0003 * n) for n in range(1, 10)))
        with pytest.raises(LockBusy):
            await hot
        key = COUNTERS.key(TENANT, "hot")
        companies = [tried.reads.own for tried in b.store.transactions[seen:] if key in tried.reads.own]
        assert len(companies) > 10
        assert set(companies) == {(key,)}


@in_virtual_time
async def test_a_conflict_ends_in_lock_busy_when_the_budget_is_spent_and_not_before() -> None:
    async with scripted_kernel(conflict_on("hot")) as b:
        with pytest.raises(LockBusy) as raised:
            await b.kernel.run(Raise(name="hot"))
        assert BUDGET <= now() < BUDGET + 0.2
        assert raised.value.retry_after_seconds == pytest.approx(BUDGET, abs=0.2)


@in_virtual_time
async def test_a_command_that_collides_even_alone_is_tried_once_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.kernel.lane.random.random", lambda: 1.0)
    async with scripted_kernel(conflict_on("hot")) as b:
        await b.outcomes(Raise(name="hot"))
        tries = len(b.store.transactions)
        assert 3 < tries <= 3 + BUDGET / 0.1


@in_virtual_time
async def test_a_held_record_keeps_its_command_waiting_also_if_others_of_the_batch_read_more() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="target"))
        b.store.held = {COUNTERS.key(TENANT, "held")}
        waiting = asyncio.create_task(b.kernel.run(Raise(name="held")))
        (followed,) = await b.outcomes(Follow(name="sign"))
        assert followed.count == 1
        assert not waiting.done()
        b.store.held = set()
        assert (await waiting).count == 1


@in_virtual_time
async def test_a_record_that_somebody_holds_keeps_only_its_own_commands_waiting() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        waiting = asyncio.create_task(b.kernel.run(Raise(name="held")))
        (done,) = await b.outcomes(Raise(name="free"))
        assert done.count == 1
        assert not waiting.done()
        b.store.held = set()
        assert (await waiting).count == 1


@in_virtual_time
async def test_a_record_held_for_longer_than_the_budget_ends_in_lock_busy() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        held, free = await b.outcomes(Raise(name="held"), Raise(name="free"))
        assert isinstance(held, LockBusy)
        assert free.count == 1
        assert BUDGET <= now() < BUDGET + 0.2


@in_virtual_time
async def test_each_command_has_a_budget_of_its_own() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        patient = asyncio.create_task(b.kernel.run(Raise(name="held"), acquire_seconds=5))
        with pytest.raises(LockBusy):
            await b.kernel.run(Raise(name="held"), acquire_seconds=0.5)
        assert now() < 0.7
        b.store.held = set()
        assert (await patient).count == 1


@in_virtual_time
async def test_whoever_only_sees_a_held_record_goes_on() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="held"))
        b.store.held = {COUNTERS.key(TENANT, "held")}
        writer = asyncio.create_task(b.kernel.run(Raise(name="held")))
        assert await b.kernel.run(Look(name="held")) == 1
        b.store.held = set()
        await writer


@in_virtual_time
async def test_a_record_held_in_the_second_round_sends_its_command_back_too() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="held"))
        b.store.held = {COUNTERS.key(TENANT, "held")}
        waiting = asyncio.create_task(b.kernel.run(Follow(name="sign")))
        (free,) = await b.outcomes(Raise(name="free"))
        assert free.count == 1
        assert not waiting.done()
        b.store.held = set()
        assert (await waiting).count == 1


@in_virtual_time
async def test_a_locked_store_ends_in_lock_busy_for_those_under_way_and_for_those_queued() -> None:
    store = ScriptedStore()
    store.refuse_when(lambda transaction: LockTimeout("another process writes"))
    async with scripted_kernel(store) as b:
        outcomes = await b.outcomes(*(Raise(name="a") for _ in range(600)))
        assert all(isinstance(outcome, LockBusy) for outcome in outcomes)
        assert BUDGET <= now() < BUDGET + 0.2


@in_virtual_time
async def test_a_lock_that_is_let_go_in_time_is_waited_for() -> None:
    store = ScriptedStore()
    store.refuse_when(lambda transaction: LockTimeout("another process writes") if now() < 1.5 else None)
    async with scripted_kernel(store) as b:
        outcomes = await b.outcomes(Raise(name="a"), Raise(name="a"))
        assert [outcome.count for outcome in outcomes] == [1, 2]


@in_virtual_time
async def test_the_batch_grows_while_the_store_is_locked() -> None:
    store = ScriptedStore()
    store.refuse_when(lambda transaction: LockTimeout("another process writes") if now() < 1.0 else None)
    async with scripted_kernel(store) as b:
        early = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.5)
        await b.outcomes(Raise(name="a"), Raise(name="a"))
        await early
        assert b.watched.sizes == [3]
