"""A row that another session has locked: waited for, and meanwhile neither absent nor free to be judged."""

from __future__ import annotations

import asyncio
import re

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.record import NOTHING, Key, Reads
from interlock.kernel.refusal import LockBusy, Unreadable
from interlock.kernel.storage import Loaded, Transaction
from interlock.kernel.world import Changes
from interlock.store.postgres import statements as sql
from interlock.store.postgres.connections import Deadline
from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import (
    CHORES,
    COUNTERS,
    NOTES,
    TENANT,
    Chore,
    CountDue,
    Drop,
    DueChores,
    Look,
    Plan,
    Raise,
    Take,
    once,
)
from tests.store.postgres.lock_holder import SHORT, holding

SOMETHING = Changes([(CHORES, Chore(tenant=TENANT, id="b", version=1))], [], [], frozenset())


async def test_a_row_that_a_client_holds_is_neither_taken_for_absent_nor_judged_as_it_was(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="held"))
        async with holding(postgres_place, "SELECT 1 FROM principals WHERE id = 'held' FOR UPDATE"):
            dropped, raised, seen = await server.outcomes(
                Drop(name="held"), Raise(name="held", limit=0), Look(name="held")
            )
        assert isinstance(dropped, LockBusy)
        assert isinstance(raised, LockBusy)
        assert seen == 1


async def test_a_batch_is_told_at_once_which_of_its_rows_a_client_holds(
    postgres_place: PostgresPlace,
) -> None:
    held, free = (COUNTERS.key(TENANT, name) for name in ("held", "free"))
    told: list[frozenset[Key]] = []

    def more(loaded: Loaded) -> Reads:
        told.append(loaded.busy)
        return NOTHING

    store = postgres_place.store()
    async with serving(store) as server:
        await server.outcomes(Raise(name="held"), Raise(name="free"))
        async with holding(postgres_place, "SELECT 1 FROM principals WHERE id = 'held' FOR UPDATE"):
            reads = Reads(own=(held, free))
            await store.transact(Transaction("batch_1", reads, more, lambda _: SOMETHING, 1.0))
        assert told == [{held}]


async def test_a_spoilt_row_beside_a_held_one_is_still_neither_free_nor_absent(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        await server.outcomes(Raise(name="held"), Raise(name="spoilt"), Raise(name="both"))
        await postgres_place.rows("UPDATE principals SET body = '{}' WHERE id IN ('spoilt', 'both')")
        async with holding(
            postgres_place, "SELECT 1 FROM principals WHERE id IN ('held', 'both') FOR UPDATE"
        ):
            held, spoilt, both, free, seen = await server.outcomes(
                Raise(name="held"),
                Raise(name="spoilt"),
                Raise(name="both"),
                Raise(name="free"),
                Look(name="both"),
            )
        assert isinstance(held, LockBusy)
        assert isinstance(spoilt, Unreadable)
        assert isinstance(both, LockBusy)
        assert free.count == 1
        assert isinstance(seen, Unreadable)


async def test_locks_that_take_too_long_together_are_contention_and_no_outage(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sooner than the wait for a single row ends, as if many rows had each been waited for.
    monkeypatch.setattr("interlock.store.postgres.batch._LOCKS_SECONDS", 0.02)
    async with serving(postgres_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="held"))
        async with holding(postgres_place, "SELECT 1 FROM principals WHERE id = 'held' FOR UPDATE"):
            held, free = await server.outcomes(Raise(name="held"), Raise(name="free"))
        assert isinstance(held, LockBusy)
        assert free.count == 1


async def test_a_pick_passes_over_what_a_client_holds(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        await server.outcomes(Plan(name="held", due=1), Plan(name="free", due=2))
        async with holding(postgres_place, f"SELECT 1 FROM {CHORES.table} WHERE id = 'held' FOR UPDATE"):
            assert await server.kernel.run(Take(who="w", most=1)) == ("free",)


async def test_whoever_only_looks_for_something_finds_what_a_client_holds(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store(), SHORT) as server:
        await server.outcomes(Plan(name="held", due=1), Plan(name="free", due=2))
        async with holding(postgres_place, f"SELECT 1 FROM {CHORES.table} WHERE id = 'held' FOR UPDATE"):
            assert await server.kernel.run(CountDue(most=5)) == 2


async def test_what_a_batch_has_picked_nobody_else_can_pick(postgres_place: PostgresPlace) -> None:
    store = postgres_place.store()
    async with serving(store) as server:
        await server.kernel.run(Plan(name="a", due=1))
        async with store._connections.writer() as writer:
            reads = Reads(picks=(DueChores(limit=1),))
            transaction = Transaction("batch_1", reads, lambda _: NOTHING, lambda _: SOMETHING, 1.0)
            await store._batches.attempt(writer.session, transaction, sql.Lock.WAIT, Deadline(5))
            left = f"SELECT id FROM {CHORES.table} FOR UPDATE SKIP LOCKED"
            assert await postgres_place.rows(left) == []


def test_rows_are_locked_in_the_one_order_whatever_order_they_are_named_in() -> None:
    keys = [kind.key(TENANT, name) for kind in (COUNTERS, CHORES, NOTES) for name in ("b", "a")]
    named, reversed_ = (sql.load(sql.grouped(order, (), sql.Lock.WAIT)).sql for order in (keys, keys[::-1]))

    assert named == reversed_
    assert re.findall("JOIN (\\w+) r", named) == [kind.table for kind in (CHORES, COUNTERS, NOTES)]
    assert named.count("ORDER BY r.tenant, r.id FOR UPDATE OF r)") == 3


async def test_the_clock_is_read_once_the_locks_are_there_and_not_when_the_transaction_began(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(store := postgres_place.store()), store._connections.writer() as writer:
        await writer.session.execute("SELECT pg_sleep(0.05)")
        loaded = await writer.session.fetch(sql.load(()).sql)
        began = await writer.session.fetchval("SELECT (EXTRACT(EPOCH FROM now()) * 1000000)::bigint")
        assert loaded[-1][0] - began >= 50_000


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


async def test_an_answer_that_is_given_anew_while_it_is_pruned_stays(postgres_place: PostgresPlace) -> None:
    """Its key was used again just as it expired; forgetting it would let the request run twice."""
    async with serving(postgres_place.store()) as server:
        await server.kernel.run(once("key", hours=0.1))
        await postgres_place.age(0.5)
        client = await postgres_place.connect()
        await client.execute("BEGIN")
        await client.execute("UPDATE answers SET expires_at = expires_at + 3600000000")
        pruning = asyncio.create_task(server.store.prune())
        await asyncio.sleep(0.02)
        await client.execute("COMMIT")
        await asyncio.gather(pruning, return_exceptions=True)
        await client.close()
        assert await postgres_place.rows("SELECT id FROM answers") == [("key",)]
