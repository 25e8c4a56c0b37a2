"""One command that the store cannot keep fails alone."""

from __future__ import annotations

import pytest

from interlock.kernel.refusal import CommandFailed
from interlock.kernel.storage import Transaction
from tests.kernel.counter_room import COUNTERS, TENANT, Raise
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


def choking_on(*names: str) -> ScriptedStore:
    store = ScriptedStore()
    keys = {COUNTERS.key(TENANT, name) for name in names}

    def told(transaction: Transaction) -> Exception | None:
        return ValueError("cannot keep this") if keys.intersection(transaction.reads.own) else None

    store.refuse_when(told)
    return store


@pytest.mark.parametrize("size", [1, 2, 7, 64])
@in_virtual_time
async def test_neighbours_of_a_poisonous_command_go_on(size: int) -> None:
    async with scripted_kernel(choking_on("bad")) as b:
        names = [f"c{n}" for n in range(size - 1)]
        names.insert(size // 2, "bad")
        outcomes = await b.outcomes(*(Raise(name=name) for name in names))
        failed = [
            name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, CommandFailed)
        ]
        assert failed == ["bad"]
        assert b.watched.reruns.count("poison") == 1


@in_virtual_time
async def test_several_poisonous_commands_fail_each_alone() -> None:
    async with scripted_kernel(choking_on("bad", "worse")) as b:
        outcomes = await b.outcomes(*(Raise(name=name) for name in ("a", "bad", "b", "worse", "c")))
        assert [isinstance(outcome, CommandFailed) for outcome in outcomes] == [
            False,
            True,
            False,
            True,
            False,
        ]


@in_virtual_time
async def test_what_the_store_said_stays_inside() -> None:
    async with scripted_kernel(choking_on("bad")) as b:
        with pytest.raises(CommandFailed) as raised:
            await b.kernel.run(Raise(name="bad"))
        assert "cannot keep this" not in raised.value.detail
        assert isinstance(raised.value.__cause__, ValueError)
