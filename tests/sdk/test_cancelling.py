"""A task that is cancelled around any request leaves nothing taken, nothing in doubt, and stays cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from interlock import AsyncInterlock
from interlock.sdk.flow import Request, Response

HANG_SECONDS = 60
MOMENTS_MAX = 40

Doing = Callable[[AsyncInterlock, int], Awaitable[object]]


@pytest.fixture
async def il(tmp_path: Path) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(store=f"sqlite:///{tmp_path}/interlock.db") as client:
        await client.apply_policy("version: v1\ndefault: allow\n")
        yield client


async def cancelled_at(il: AsyncInterlock, moment: int, doing: Awaitable[object]) -> bool:
    """Whether there was such a moment: before or after one of the requests, counted from 1."""
    send, seen = il.transport.send, 0

    def pass_by() -> None:
        nonlocal seen
        seen += 1
        if seen == moment:
            task.cancel()

    async def watched(request: Request) -> Response:
        pass_by()
        await asyncio.sleep(0)
        answer = await send(request)
        pass_by()
        await asyncio.sleep(0)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(il.transport, "send", watched)
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(doing)
        async with asyncio.timeout(HANG_SECONDS):
            await asyncio.wait({task})
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
    assert task.cancelled() == (seen >= moment)
    return seen >= moment


async def cancelled_everywhere(il: AsyncInterlock, doing: Doing) -> None:
    for moment in range(1, MOMENTS_MAX):
        if not await cancelled_at(il, moment, doing(il, moment)):
            assert moment > 4
            return
    raise AssertionError("there is no end of it")


async def test_a_lease_is_given_back(il: AsyncInterlock) -> None:
    async def hold(il: AsyncInterlock, moment: int) -> None:
        async with il.lease(f"file:{moment}", ttl=600):
            pass

    await cancelled_everywhere(il, hold)
    assert (await il.leases(live=True)).items == ()


async def test_a_slot_is_given_back(il: AsyncInterlock) -> None:
    async def hold(il: AsyncInterlock, _: int) -> None:
        async with il.admit("nightly", ttl=600):
            pass

    await cancelled_everywhere(il, hold)
    assert (await il.runs(state="running")).items == ()


async def test_a_gated_call_holds_its_job_no_longer(il: AsyncInterlock) -> None:
    async def call(il: AsyncInterlock, moment: int) -> None:
        @il.gate("a.b")
        async def pay(moment: int) -> None:
            pass

        await pay(moment)

    await cancelled_everywhere(il, call)
    assert {job.state for job in (await il.jobs()).items} == {"PENDING", "SUCCEEDED"}


async def test_an_effect_is_committed_if_it_ran_and_may_be_tried_again_if_not(il: AsyncInterlock) -> None:
    ran: list[int] = []

    async def pay(il: AsyncInterlock, moment: int) -> None:
        async def remote() -> None:
            ran.append(moment)

        await il.once(f"pay:{moment}", remote)

    await cancelled_everywhere(il, pay)
    states = Counter(effect.state for effect in (await il.effects()).items)
    assert states.keys() == {"COMMITTED", "FAILED"}
    assert states["COMMITTED"] == len(ran)


async def test_a_block_of_an_effect_is_committed_if_it_was_entered(il: AsyncInterlock) -> None:
    entered: list[int] = []

    async def pay(il: AsyncInterlock, moment: int) -> None:
        async with il.effect_scope(f"pay:{moment}", request=moment) as effect:
            entered.append(moment)
            effect.commit()

    await cancelled_everywhere(il, pay)
    states = Counter(effect.state for effect in (await il.effects()).items)
    assert states.keys() == {"COMMITTED", "FAILED"}
    assert states["COMMITTED"] == len(entered)
