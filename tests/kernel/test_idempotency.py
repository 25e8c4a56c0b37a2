"""One answer per idempotency key, kept by the transaction that decided it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from interlock.kernel.idempotency import IdempotencyKeyReused, Once, Rendered
from interlock.kernel.refusal import OutcomeUnknown
from interlock.kernel.world import World
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Drop, Follow, Gone, Point, Raise, TooHigh
from tests.kernel.scripted_store import scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


def render(counter: Counter) -> Rendered:
    return Rendered(201, msgspec.json.encode({"count": counter.count, "ünï": "…"}))


def once(
    command: Raise | Follow,
    *,
    key: str = "k",
    digest: str = "d",
    tenant: str = TENANT,
    check: Callable[[World], object] | None = None,
) -> Once[Counter]:
    return Once(
        inner=command,
        tenant=tenant,
        answer_id=key,
        request_digest=digest,
        keep_for=timedelta(days=30),
        render=render,
        check=check,
    )


@in_virtual_time
async def test_a_repeat_gets_the_first_answer_byte_for_byte_and_changes_nothing() -> None:
    async with scripted_kernel() as b:
        first = await b.kernel.run(once(Raise(name="a")))
        await b.kernel.run(Raise(name="a"))
        again = await b.kernel.run(once(Raise(name="a")))
        assert (again.status, again.body, again.content_type) == (
            first.status,
            first.body,
            first.content_type,
        )
        assert (first.replayed, again.replayed) == (False, True)
        assert await b.counts("a") == [2]


@in_virtual_time
async def test_repeats_in_one_batch_are_decided_once() -> None:
    async with scripted_kernel() as b:
        answers = await b.outcomes(*(once(Raise(name="a")) for _ in range(20)))
        assert b.watched.sizes == [20]
        assert [answer.replayed for answer in answers] == [False] + [True] * 19
        assert len({answer.body for answer in answers}) == 1
        assert await b.counts("a") == [1]


@in_virtual_time
async def test_a_key_used_for_another_request_is_refused_and_leaves_no_trace() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(once(Raise(name="a")))
        (refused,) = await b.outcomes(once(Raise(name="a", by=5), digest="other"))
        assert isinstance(refused, IdempotencyKeyReused)
        assert await b.counts("a") == [1]
        assert b.notes() == ["raised a"]


@in_virtual_time
async def test_the_same_key_is_independent_in_another_scope() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(once(Raise(name="a")))
        elsewhere = await b.kernel.run(once(Raise(name="a"), tenant="other", digest="other"))
        assert not elsewhere.replayed


@in_virtual_time
async def test_a_refusal_leaves_its_entry_and_its_key_unused() -> None:
    async with scripted_kernel() as b:
        (refused,) = await b.outcomes(once(Raise(name="a", limit=0)))
        assert isinstance(refused, TooHigh)
        assert b.notes() == ["refused a"]
        assert not (await b.kernel.run(once(Raise(name="a"), digest="other"))).replayed


@in_virtual_time
async def test_an_answer_is_forgotten_when_its_time_is_over() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(once(Raise(name="a")))
        b.store.inner._clock = lambda: b.store.inner._last_now + timedelta(days=31)
        assert not (await b.kernel.run(once(Raise(name="a"), digest="other"))).replayed
        assert await b.counts("a") == [2]


@in_virtual_time
async def test_a_repeat_is_answered_even_if_it_would_be_refused_now() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="target"))
        await b.kernel.run(once(Follow(name="sign")))
        await b.kernel.run(Drop(name="sign"))
        assert (await b.kernel.run(once(Follow(name="sign")))).replayed


@pytest.mark.parametrize("digest", ["d", "another"])
@in_virtual_time
async def test_a_repeat_by_somebody_who_may_no_longer_ask_is_refused_whatever_it_says(digest: str) -> None:
    def check(world: World) -> None:
        if world.get(COUNTERS, TENANT, "caller") is None:
            raise Gone

    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="caller"))
        await b.kernel.run(once(Raise(name="caller"), check=check))
        await b.kernel.run(Drop(name="caller"))
        with pytest.raises(Gone):
            await b.kernel.run(once(Raise(name="caller"), digest=digest, check=check))
        assert await b.counts("caller") == [None]


@pytest.mark.parametrize("happened", [True, False])
@in_virtual_time
async def test_repeating_a_call_of_unknown_outcome_with_its_key_is_safe(happened: bool) -> None:
    async with scripted_kernel() as b:
        b.store.can_settle = False
        b.store.lose_commit(happened=happened)
        (unknown,) = await b.outcomes(once(Raise(name="a")))
        assert isinstance(unknown, OutcomeUnknown)
        answer = await b.kernel.run(once(Raise(name="a")))
        assert answer.replayed is happened
        assert await b.counts("a") == [1]


@in_virtual_time
async def test_a_call_refused_for_an_outage_leaves_its_key_unused() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        await asyncio.gather(b.kernel.run(once(Raise(name="a"))), return_exceptions=True)
        b.store.up = True
        assert not (await b.kernel.run(once(Raise(name="a", by=3), digest="other"))).replayed
        assert await b.counts("a") == [3]
