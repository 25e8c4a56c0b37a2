"""What second reads asked for lately is loaded with the first: sooner, and never older."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.command import Command
from interlock.kernel.record import Key, Reads
from interlock.kernel.refusal import CommandFailed
from interlock.kernel.world import World
from interlock.store.postgres.batch import Foresight, PostgresBatches
from tests.conformance.places import PostgresPlace, serving
from tests.kernel.counters import COUNTERS, TENANT, Counter, Point, Raise


class Glimpse(Command[int | None], frozen=True, kw_only=True):
    """What the counter says that this one leads to, and a change, so that there is something to commit."""

    name: str

    def reads(self) -> Reads:
        return Reads(own=(key(self.name),))

    def more(self, world: World) -> Reads:
        return Reads(see=(key(self._target(world)),))

    def decide(self, world: World) -> int | None:
        found = world.get(*key(self._target(world)))
        world.put(COUNTERS, self._own(world))
        return found.count if found else None

    def _own(self, world: World) -> Counter:
        own = world.get(*key(self.name))
        assert own is not None
        return own

    def _target(self, world: World) -> str:
        return self._own(world).leads_to or ""


def key(name: str) -> Key:
    return COUNTERS.key(TENANT, name)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Reads]:
    """What every batch asked to load, round by round."""
    asked: list[Reads] = []
    load = PostgresBatches._load

    async def noted(self: PostgresBatches, session: Any, reads: Reads, *rest: Any) -> Any:
        asked.append(reads)
        return await load(self, session, reads, *rest)

    monkeypatch.setattr(PostgresBatches, "_load", noted)
    return asked


async def test_what_was_asked_for_lately_comes_with_the_first_load(
    postgres_place: PostgresPlace, loads: list[Reads]
) -> None:
    async with serving(postgres_place.store()) as server:
        await server.outcomes(Raise(name="t", by=5), Point(name="s", at="t"))
        loads.clear()
        assert [await server.kernel.run(Glimpse(name="s")) for _ in range(3)] == [5, 5, 5]
        assert len(loads) == 4, "only the first of them needs a second load"


async def test_what_is_foreseen_is_read_anew_each_time(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server, serving(postgres_place.store()) as other:
        await server.outcomes(Raise(name="t", by=5), Point(name="s", at="t"))
        assert await server.kernel.run(Glimpse(name="s")) == 5
        await other.kernel.run(Raise(name="t", by=2))
        assert await server.kernel.run(Glimpse(name="s")) == 7


async def test_what_is_foreseen_may_be_absent(postgres_place: PostgresPlace, loads: list[Reads]) -> None:
    async with serving(postgres_place.store()) as server:
        await server.outcomes(Raise(name="x"), Point(name="s", at="nowhere"))
        loads.clear()
        assert [await server.kernel.run(Glimpse(name="s")) for _ in range(2)] == [None, None]
        assert len(loads) == 3


async def test_a_spoilt_row_that_is_foreseen_is_in_nobodys_way(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        await server.outcomes(Raise(name="t"), Point(name="s", at="t"))
        await server.kernel.run(Glimpse(name="s"))
        await postgres_place.rows(f"UPDATE {COUNTERS.table} SET body = 'no JSON' WHERE id = 't'")
        assert (await server.kernel.run(Raise(name="other"))).count == 1


async def test_a_key_that_cannot_be_asked_for_fails_its_own_commands_only(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store()) as server:
        await server.outcomes(Raise(name="t"), Point(name="s", at="nul \0 inside"))
        with pytest.raises(CommandFailed):
            await server.kernel.run(Glimpse(name="s"))
        assert [(await server.kernel.run(Raise(name="other"))).count for _ in range(3)] == [1, 2, 3]


async def test_what_is_foreseen_and_cannot_be_loaded_is_forgotten(postgres_place: PostgresPlace) -> None:
    store = postgres_place.store()
    async with serving(store) as server:
        for spoilt in ("nul \0 inside", "lone \ud800"):
            store._batches._foresight.note([key(spoilt)])
            assert (await server.kernel.run(Raise(name=repr(spoilt)))).count == 1


def test_foresight_ends_and_is_bounded() -> None:
    foresight = Foresight()
    foresight.note([key("a")])
    seen = [foresight.keys(besides=()) for _ in range(65)]
    assert seen == [[key("a")]] * 64 + [[]]
    foresight.note(key(str(n)) for n in (98, *range(100)))
    assert foresight.keys(besides={key("99")}) == [key(str(n)) for n in range(84, 99)]
