"""A COMMIT whose answer is lost is resolved, not guessed."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.refusal import OutcomeUnknown, StoreUnavailable
from interlock.kernel.storage import CommitUnconfirmed
from tests.kernel.counter_room import COUNTERS, TENANT, Raise, TooHigh, counter_topic
from tests.kernel.scripted_store import scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


@in_virtual_time
async def test_a_lost_commit_that_happened_is_answered_with_its_results() -> None:
    async with scripted_kernel() as b:
        b.store.lose_commit(happened=True)
        done, refused = await b.outcomes(Raise(name="a"), Raise(name="a", limit=1))
        assert done.count == 1
        assert isinstance(refused, TooHigh)
        assert await b.counts("a") == [1]
        assert len(b.store.transactions) == 1
        assert b.store.settled == [b.store.transactions[0].batch_id]


@in_virtual_time
async def test_a_lost_commit_that_never_can_happen_is_run_again_under_a_new_id() -> None:
    async with scripted_kernel() as b:
        b.store.lose_commit(happened=False)
        assert (await b.kernel.run(Raise(name="a"))).count == 1
        first, second = b.store.transactions
        assert first.batch_id != second.batch_id
        assert await b.counts("a") == [1]


@in_virtual_time
async def test_commits_that_are_lost_again_and_again_end_in_store_unavailable_not_in_lock_busy() -> None:
    async with scripted_kernel() as b:
        for _ in range(1000):
            b.store.lose_commit(happened=False)
        with pytest.raises(StoreUnavailable):
            await b.kernel.run(Raise(name="a"))


@pytest.mark.parametrize("happened", [True, False])
@in_virtual_time
async def test_a_lost_commit_that_nobody_can_settle_has_an_unknown_outcome(happened: bool) -> None:
    async with scripted_kernel() as b:
        b.store.can_settle = False
        b.store.lose_commit(happened=happened)
        with pytest.raises(OutcomeUnknown):
            await b.kernel.run(Raise(name="a"))
        assert len(b.store.transactions) == 1


@in_virtual_time
async def test_an_unconfirmed_commit_is_unknown_and_is_neither_settled_nor_run_again() -> None:
    async with scripted_kernel() as b:
        b.store.fail_after_commit(CommitUnconfirmed("a standby did not answer"))
        with pytest.raises(OutcomeUnknown):
            await b.kernel.run(Raise(name="a"))
        assert b.store.settled == []
        assert len(b.store.transactions) == 1


@in_virtual_time
async def test_whoever_was_not_decided_in_a_batch_of_unknown_outcome_is_carried_later() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        b.store.fail_after_commit(CommitUnconfirmed("a standby did not answer"))
        waiting = asyncio.create_task(b.kernel.run(Raise(name="held")))
        (unknown,) = await b.outcomes(Raise(name="free"))
        assert isinstance(unknown, OutcomeUnknown)
        b.store.held = set()
        assert (await waiting).count == 1


@in_virtual_time
async def test_a_batch_of_unknown_outcome_wakes_nobody() -> None:
    async with scripted_kernel() as b:
        b.store.can_settle = False
        b.store.lose_commit(happened=True)
        with b.kernel.wakes.subscribe(counter_topic("a")) as heard:
            await b.outcomes(Raise(name="a"))
            assert not await heard.wait(1)


class Sleeper:
    """A clock that jumps while a COMMIT is under way: ahead, as after a sleep, or to wherever it was set."""

    def __init__(self, seconds: float) -> None:
        self._readings = iter([10_000.0])
        self._after = 10_000.0 + seconds

    def time(self) -> float:
        return next(self._readings, self._after)


@pytest.mark.parametrize("seconds", [4000.0, -1.0])
@in_virtual_time
async def test_a_server_that_slept_through_a_commit_does_not_ask_about_a_forgotten_batch(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    async with scripted_kernel() as b:
        monkeypatch.setattr("interlock.kernel.lane.time", Sleeper(seconds))
        b.store.lose_commit(happened=True)
        with pytest.raises(OutcomeUnknown):
            await b.kernel.run(Raise(name="a"))
        assert b.store.settled == []


@in_virtual_time
async def test_a_failure_after_a_commit_never_runs_the_batch_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_kernel() as b:

        def stumble(topics: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(b.kernel.wakes, "publish", stumble)
        done = await b.kernel.run(Raise(name="a"))
        assert done.count == 1
        await asyncio.sleep(1)
        assert len(b.store.transactions) == 1
