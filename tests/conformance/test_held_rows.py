"""A row that somebody else has locked: waited for, and meanwhile neither absent nor free to be judged."""

from __future__ import annotations

import re

import pytest

from interlock.kernel.refusal import LockBusy, Unreadable
from interlock.store import postgres_sql as sql
from tests.conformance.places import PostgresPlace, serving
from tests.conformance.test_two_servers import SHORT, holding
from tests.kernel.counters import CHORES, COUNTERS, NOTES, TENANT, Drop, Look, Raise


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
    monkeypatch.setattr("interlock.store.postgres_batch._LOCKS_SECONDS", 0.02)
    async with serving(postgres_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="held"))
        async with holding(postgres_place, "SELECT 1 FROM principals WHERE id = 'held' FOR UPDATE"):
            held, free = await server.outcomes(Raise(name="held"), Raise(name="free"))
        assert isinstance(held, LockBusy)
        assert free.count == 1


def test_rows_are_locked_in_the_one_order_whatever_order_they_are_named_in() -> None:
    keys = [kind.key(TENANT, name) for kind in (COUNTERS, CHORES, NOTES) for name in ("b", "a")]
    named, reversed_ = (sql.load(sql.grouped(order, (), sql.Lock.WAIT)).sql for order in (keys, keys[::-1]))

    assert named == reversed_
    assert re.findall("JOIN (\\w+) r", named) == [kind.table for kind in (CHORES, COUNTERS, NOTES)]
    assert named.count("ORDER BY r.tenant, r.id FOR UPDATE OF r)") == 3
