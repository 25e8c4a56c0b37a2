"""What takes long is computed in other processes: their errors travel, their time is bounded, their end is survived."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.kernel.refusal import Overloaded
from interlock.rooms.policy.refusals import SimulationTooLong
from interlock.service.compute_child import CPU_SECONDS_MAX
from interlock.service.compute_pool import ComputePool, FairTurns, TookTooLong
from interlock.service.metrics import Registry

HANG_SECONDS = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ComputePool]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the processes have to find this module
    pool = ComputePool(Registry())
    pool.open()
    async with asyncio.timeout(HANG_SECONDS):
        yield pool
        await pool.close()


def die_once(died: Path) -> int:
    """The first time it ends its process in the middle."""
    if not died.exists():
        died.touch()
        die()
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hurry() -> float:
    """Leave itself less time than there is; returns how much there was."""
    left, _ = signal.setitimer(signal.ITIMER_PROF, 0.05)
    return left


def never_end() -> None:
    hurry()
    while True:
        pass


def refuse() -> None:
    raise SimulationTooLong(1, 2, 3.0)


async def test_it_is_computed_in_another_process(pool: ComputePool) -> None:
    assert await pool.run("acme", 0, os.getpid) != os.getpid()


async def test_what_it_raises_is_raised_here(pool: ComputePool) -> None:
    with pytest.raises(SimulationTooLong, match="1 of 2 jobs when its 3 s were over"):
        await pool.run("acme", 0, refuse)


async def test_what_takes_too_long_is_ended_and_the_next_one_is_computed(pool: ComputePool) -> None:
    assert 0 < await pool.run("acme", 0, hurry) <= CPU_SECONDS_MAX
    with pytest.raises(TookTooLong, match="processor time"):
        await pool.run("acme", 0, never_end)
    assert await pool.run("acme", 0, len, "abc") == 3


async def test_a_process_that_dies_is_replaced_and_its_work_done_again(
    pool: ComputePool, tmp_path: Path
) -> None:
    assert await pool.run("acme", 0, die_once, tmp_path / "died") > 0


async def test_what_kills_its_process_twice_is_not_tried_for_ever(pool: ComputePool) -> None:
    with pytest.raises(Overloaded, match="nothing was decided"):
        await pool.run("acme", 0, die)


async def test_turns_are_dealt_to_tenants_not_to_calls() -> None:
    turns = FairTurns(at_once=1, waiting_max=100, bytes_max=1000)
    order: list[str] = []

    async def call(tenant: str) -> None:
        async with turns.turn(tenant, 1):
            order.append(tenant)

    async with turns.turn("large", 1):
        calls = [asyncio.create_task(call(tenant)) for tenant in ["large"] * 20 + ["small"]]
        await asyncio.sleep(0)
    await asyncio.gather(*calls)

    assert order == ["large", "small", *["large"] * 19]


async def test_a_tenant_may_have_so_much_waiting_and_no_more() -> None:
    turns = FairTurns(at_once=1, waiting_max=2, bytes_max=10)
    async with turns.turn("large", 1):
        waiting = [asyncio.create_task(_in_turn(turns, "large", 4)) for _ in range(2)]
        await asyncio.sleep(0)
        for tenant, weight, refused in (("large", 1, True), ("other", 100, False)):
            another = asyncio.create_task(_in_turn(turns, tenant, weight))
            await asyncio.sleep(0)
            assert another.done() is refused
            if refused:
                with pytest.raises(Overloaded, match="nothing was decided"):
                    await another
            else:
                waiting.append(another)
    await asyncio.gather(*waiting)


async def test_whoever_leaves_the_line_leaves_its_turn_to_the_next() -> None:
    turns = FairTurns(at_once=1, waiting_max=9, bytes_max=9)
    async with turns.turn("a", 1):
        gone = asyncio.create_task(_in_turn(turns, "b", 1))
        stays = asyncio.create_task(_in_turn(turns, "c", 1))
        await asyncio.sleep(0)
        gone.cancel()
    async with asyncio.timeout(HANG_SECONDS):
        await stays


async def _in_turn(turns: FairTurns, tenant: str, weight: int) -> None:
    async with turns.turn(tenant, weight):
        pass
