"""Several servers on one database: races for keys and rows, waits for locks, wake-ups from one to another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import apsw
import pytest

from interlock.kernel.idempotency import Once
from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import LockBusy
from tests.conformance.test_pruning import once
from tests.harness.soak import dose
from tests.harness.store_places import Place, PostgresPlace, Server, SqlitePlace, serving
from tests.kernel.counter_room import (
    TENANT,
    Counter,
    Drop,
    Follow,
    Look,
    Plan,
    Point,
    Raise,
    Swap,
    Take,
    counter_topic,
)

SHORT = KernelLimits(acquire_seconds=0.4)
LONG_AGO = 1_000_000


@contextlib.asynccontextmanager
async def two_servers(
    place: Place, limits: KernelLimits | None = None
) -> AsyncGenerator[tuple[Server, Server]]:
    async with serving(place.store(), limits) as one, serving(place.store(), limits) as other:
        yield one, other


@contextlib.asynccontextmanager
async def holding(place: PostgresPlace, *statements: str) -> AsyncGenerator[Any]:
    """Another client of the database with a transaction open after these statements."""
    connection = await place.connect()
    try:
        await connection.execute("BEGIN")
        for statement in statements:
            await connection.execute(statement)
        yield connection
    finally:
        await connection.close()


# Races.


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


# Locks.


async def test_a_row_that_a_client_holds_keeps_only_its_own_commands_waiting(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        await server.outcomes(Raise(name="held"), Raise(name="free"))
        lock = "SELECT 1 FROM principals WHERE id = 'held' FOR UPDATE"
        async with holding(postgres_place, lock):
            held, free, seen = await server.outcomes(
                Raise(name="held"), Raise(name="free"), Look(name="held")
            )
            assert isinstance(held, LockBusy)
            assert (free.count, seen) == (2, 1)
        assert (await server.kernel.run(Raise(name="held"))).count == 2


async def test_whoever_only_sees_a_row_that_a_client_holds_goes_on(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="held"))
        async with holding(postgres_place, "SELECT 1 FROM principals FOR UPDATE"):
            held, seen = await server.outcomes(Raise(name="held"), Look(name="held"))
            assert isinstance(held, LockBusy)
            assert seen == 1


async def test_a_row_that_is_let_go_in_time_is_waited_for(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        await server.kernel.run(Raise(name="held"))
        async with holding(postgres_place, "SELECT 1 FROM principals FOR UPDATE"):
            waiting = asyncio.create_task(server.kernel.run(Raise(name="held")))
            await asyncio.sleep(0.3)
            assert not waiting.done()
        assert (await waiting).count == 2


async def test_a_new_key_that_a_client_is_inserting_keeps_only_its_own_command_waiting(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store(), KernelLimits(acquire_seconds=1.5)) as server:
        insert = (
            "INSERT INTO principals (tenant, id, version, body, kind) "
            f'VALUES (\'{TENANT}\', \'taken\', 1, \'{{"tenant":"{TENANT}","id":"taken","version":1}}\', \'c\')'
        )
        async with holding(postgres_place, insert) as client:
            waiting = asyncio.create_task(server.kernel.run(Raise(name="taken")))
            others = await server.outcomes(*(Raise(name=f"c{n}") for n in range(7)))
            assert [other.count for other in others] == [1] * 7
            assert not waiting.done()
            await client.execute("COMMIT")
            assert (await waiting).count == 1
        assert (await server.kernel.run(Raise(name="taken"))).version == 3


async def test_a_new_key_that_is_never_decided_on_ends_in_lock_busy(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        insert = (
            "INSERT INTO principals (tenant, id, version, body, kind) "
            f"VALUES ('{TENANT}', 'taken', 1, '{{}}', 'c')"
        )
        async with holding(postgres_place, insert):
            with pytest.raises(LockBusy):
                await server.kernel.run(Raise(name="taken"))


async def test_a_locked_table_ends_in_lock_busy(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        async with holding(postgres_place, "LOCK TABLE principals IN ACCESS EXCLUSIVE MODE"):
            with pytest.raises(LockBusy):
                await server.kernel.run(Raise(name="a"))
        assert (await server.kernel.run(Raise(name="a"))).count == 1


async def test_a_locked_file_ends_in_lock_busy_and_is_waited_for_within_the_budget(
    sqlite_place: SqlitePlace,
) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        busy, also_busy = await server.outcomes(Raise(name="a"), Raise(name="b"))
        assert isinstance(busy, LockBusy)
        assert isinstance(also_busy, LockBusy)
        waiting = asyncio.create_task(server.kernel.run(Raise(name="a"), acquire_seconds=10))
        await asyncio.sleep(0.3)
        other.execute("ROLLBACK")
        other.close()
        assert (await waiting).count == 1


async def test_a_locked_file_can_still_be_read(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        assert await server.counts("a") == [1]
        rows = await server.store.query(
            "identity.list_principals", {"tenant": TENANT, "after": "", "limit": 5}
        )
        assert len(rows) == 1
        await server.store.ping(1.0)
        other.close()


# Clocks and wake-ups.


async def test_a_server_with_a_slow_clock_never_decides_before_the_others(sqlite_place: SqlitePlace) -> None:
    fast = sqlite_place.store()
    await sqlite_place.age(1)
    async with serving(fast) as ahead:
        await ahead.kernel.run(once("key", hours=24))
        await sqlite_place.age(-1)
        async with serving(sqlite_place.store()) as behind:
            await behind.kernel.run(once("other", hours=24))
    rows = await sqlite_place.rows("SELECT expires_at FROM answers ORDER BY id")
    assert rows[1][0] >= rows[0][0]


class Heard:
    def __init__(self) -> None:
        self.topics: list[frozenset[str] | None] = []
        self._event = asyncio.Event()

    def __call__(self, topics: frozenset[str] | None) -> None:
        self.topics.append(topics)
        self._event.set()

    async def next(self) -> None:
        async with asyncio.timeout(30):
            await self._event.wait()
        self._event.clear()


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


async def test_postgres_says_which_topics_were_woken_or_that_there_were_too_many(
    postgres_place: PostgresPlace,
) -> None:
    async with two_servers(postgres_place) as (one, other):
        heard = Heard()
        await other.store.listen(heard)
        await heard.next()
        await one.outcomes(Raise(name="a"), Raise(name="b"), Raise(name="c", limit=0))
        await heard.next()
        assert heard.topics[-1] == {counter_topic("a"), counter_topic("b")}
        before = len(heard.topics)
        many = [f"{n:0100d}" for n in range(100)]
        await one.outcomes(*(Raise(name=name) for name in many))
        while frozenset[str]().union(*filter(None, heard.topics[before:])) < {*map(counter_topic, many)}:
            await heard.next()
        assert None not in heard.topics[before:]
        await one.outcomes(*(Raise(name=f"{n:02000d}") for n in range(100)))
        while heard.topics[-1] is not None:
            await heard.next()


async def test_a_listener_that_is_cut_off_comes_back_and_says_so(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        heard = Heard()
        await server.store.listen(heard)
        await heard.next()
        await postgres_place.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE '%pg_locks%' AND pid <> pg_backend_pid()"
        )
        await heard.next()
        assert heard.topics == [None, None]
