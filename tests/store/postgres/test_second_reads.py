"""What a batch asks for in its second load is read after its locks, by each batch anew."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.record import Key, Reads
from interlock.kernel.refusal import CommandFailed
from interlock.kernel.world import Command, World
from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Point, Raise
from tests.store.postgres.lock_holder import holding


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


async def test_a_second_read_sees_what_another_server_wrote_meanwhile(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server, serving(postgres_place.store()) as other:
        await server.outcomes(Raise(name="t", by=5), Point(name="s", at="t"))
        assert await server.kernel.run(Glimpse(name="s")) == 5
        await other.kernel.run(Raise(name="t", by=2))
        assert await server.kernel.run(Glimpse(name="s")) == 7


async def test_what_a_second_read_asks_for_may_be_absent(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        await server.outcomes(Raise(name="x"), Point(name="s", at="nowhere"))
        assert [await server.kernel.run(Glimpse(name="s")) for _ in range(2)] == [None, None]


async def test_a_second_read_sees_what_was_committed_while_the_first_waited_for_its_lock(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store()) as server:
        await server.outcomes(Raise(name="t", by=5), Point(name="s", at="t"))
        async with holding(postgres_place, "SELECT 1 FROM principals WHERE id = 's' FOR UPDATE") as other:
            glimpse = asyncio.create_task(server.kernel.run(Glimpse(name="s")))
            await asyncio.sleep(0.02)
            await other.execute(
                "UPDATE principals SET body = jsonb_set(body::jsonb, '{count}', '9')::text WHERE id = 't'"
            )
            await other.execute("COMMIT")
            assert await glimpse == 9


async def test_a_spoilt_row_that_a_second_read_met_is_in_nobody_elses_way(
    postgres_place: PostgresPlace,
) -> None:
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
