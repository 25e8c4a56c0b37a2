"""A decision that needs what takes long is decided again once that is computed, by what is in force then."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from interlock.kernel.computation import Computation, NotComputed, TooLong
from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Overloaded
from interlock.kernel.world import Command, World
from interlock.store.memory import MemoryStore
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Raise


class Squared(Computation[int], frozen=True, kw_only=True):
    """The square of a counter: it takes long."""

    number: int

    def key(self) -> Hashable:
        return ("squared", self.number)

    def quickly(self) -> int:
        raise TooLong

    def wholly(self) -> int:
        return self.number**2


class RaiseBySquare(Command[int], frozen=True, kw_only=True):
    """Raise counter `to` by the square of counter `by`."""

    by: str
    to: str

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.by), COUNTERS.key(TENANT, self.to)))

    def decide(self, world: World) -> int:
        by = world.get(COUNTERS, TENANT, self.by)
        counter = world.get(COUNTERS, TENANT, self.to) or Counter(tenant=TENANT, id=self.to)
        square = world.compute(Squared(tenant=TENANT, number=by.count if by else 0))
        world.put(COUNTERS, Counter(tenant=TENANT, id=self.to, version=counter.version, count=square))
        return square


class Shelf:
    """Computes beside the loop; `meanwhile` happens during the first computation."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Any] = {}
        self.meanwhile: list[Command[Any]] = []
        self.kernel: Kernel | None = None
        self.forgets = False

    def compute(self, computation: Computation[Any]) -> Any:
        if computation.key() not in self.known:
            raise NotComputed((computation,))
        return self.known[computation.key()]

    async def prepare(self, computations: Sequence[Computation[Any]]) -> None:
        assert self.kernel is not None
        while self.meanwhile:
            await self.kernel.run(self.meanwhile.pop())
        for each in computations:
            if not self.forgets:
                self.known[each.key()] = each.wholly()


@pytest.fixture
async def shelf() -> Any:
    store = MemoryStore()
    shelf = Shelf()
    shelf.kernel = kernel = Kernel(store, new_id=new_id, computing=shelf)
    await store.open()
    kernel.start()
    yield shelf
    await kernel.close()
    await store.close()


def kernel_of(shelf: Shelf) -> Kernel:
    assert shelf.kernel is not None
    return shelf.kernel


async def test_what_takes_long_is_computed_then_decided(shelf: Shelf) -> None:
    await kernel_of(shelf).run(Raise(name="a"))
    assert await kernel_of(shelf).run(RaiseBySquare(by="a", to="b")) == 1
    assert [*shelf.known] == [("squared", 1)]


async def test_what_changed_meanwhile_counts(shelf: Shelf) -> None:
    await kernel_of(shelf).run(Raise(name="a"))
    shelf.meanwhile = [Raise(name="a")]
    assert await kernel_of(shelf).run(RaiseBySquare(by="a", to="b")) == 4
    assert [*shelf.known] == [("squared", 1), ("squared", 2)]


async def test_others_are_decided_meanwhile(shelf: Shelf) -> None:
    done = asyncio.Event()
    order: list[str] = []

    async def prepare(computations: Sequence[Computation[Any]]) -> None:
        await done.wait()
        shelf.known |= {each.key(): each.wholly() for each in computations}

    shelf.prepare = prepare

    async def heavy() -> None:
        await kernel_of(shelf).run(RaiseBySquare(by="a", to="b"))
        order.append("heavy")

    waiting = asyncio.create_task(heavy())
    await asyncio.sleep(0)
    await kernel_of(shelf).run(Raise(name="b"))
    order.append("other")
    done.set()
    await waiting
    assert order == ["other", "heavy"]


async def test_what_never_comes_to_an_end_is_refused(shelf: Shelf) -> None:
    shelf.forgets = True
    with pytest.raises(Overloaded, match="nothing was decided"):
        await kernel_of(shelf).run(RaiseBySquare(by="a", to="b"))
