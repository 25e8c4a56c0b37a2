"""What every store promises, on every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest

from interlock.kernel.clock import utc_now
from interlock.kernel.kernel import KernelLimits
from interlock.kernel.record import NOTHING, Kind, Reads, micros
from interlock.kernel.refusal import CommandFailed
from interlock.kernel.storage import Loaded, Store, Transaction, WriteConflict
from interlock.kernel.world import Changes, Command, Update, World
from tests.harness.store_places import Place, serving
from tests.kernel.counter_room import (
    CHORES,
    COUNTERS,
    NOTES,
    TENANT,
    Chore,
    Counter,
    DueChores,
    Follow,
    Look,
    Note,
    Plan,
    Point,
    Raise,
    Swap,
    Take,
)

LONG_AGO = 1_000_000


def changes(
    *inserts: Any,
    updates: tuple[Update, ...] = (),
    deletes: tuple[Any, ...] = (),
    wakes: tuple[str, ...] = (),
) -> Changes:
    return Changes(list(inserts), list(updates), list(deletes), frozenset(wakes))


def carrying(
    decided: Changes | Callable[[Loaded], Changes], *, batch_id: str = "batch_1", reads: Reads = NOTHING
) -> Transaction:
    """A transaction that writes this, or what this says of the first load."""
    seen: list[Loaded] = []

    def more(loaded: Loaded) -> Reads:
        seen[:] = [loaded]
        return NOTHING

    def decide(_: Loaded | None) -> Changes:
        return decided if isinstance(decided, Changes) else decided(seen[0])

    return Transaction(batch_id, reads, more, decide, 1.0)


def counter(name: str, count: int = 1, version: int = 1) -> tuple[Any, Counter]:
    return COUNTERS, Counter(tenant=TENANT, id=name, count=count, version=version)


async def test_what_is_written_is_read_back_as_it_was(store: Store) -> None:
    record = Counter(tenant="tén🎉", id="ключ'\"\\", count=-(2**40), leads_to="日本", version=1)
    await store.transact(carrying(changes((COUNTERS, record))))
    assert await store.get(COUNTERS, "tén🎉", "ключ'\"\\") == record


async def test_a_record_of_another_tenant_is_absent(store: Store) -> None:
    await store.transact(carrying(changes(counter("a"))))
    assert await store.get(COUNTERS, "other", "a") is None
    assert await store.get(COUNTERS, TENANT, "b") is None


async def test_a_load_finds_what_is_there_and_says_what_is_not(store: Store) -> None:
    await store.transact(carrying(changes(counter("a"))))
    loads: list[Loaded] = []

    def look(loaded: Loaded) -> Changes:
        loads.append(loaded)
        return changes()

    reads = Reads(own=(COUNTERS.key(TENANT, "a"),), see=(COUNTERS.key(TENANT, "b"),))
    await store.transact(carrying(look, batch_id="batch_2", reads=reads))
    assert {key.id: record for key, record in loads[0].records.items()} == {"a": counter("a")[1], "b": None}
    assert loads[0].busy == frozenset()


async def test_a_key_that_exists_cannot_be_inserted_and_nothing_of_its_batch_stays(store: Store) -> None:
    await store.transact(carrying(changes(counter("a"))))
    with pytest.raises(WriteConflict):
        await store.transact(carrying(changes(counter("b"), counter("a", 5)), batch_id="batch_2"))
    assert await store.get(COUNTERS, TENANT, "b") is None
    assert await store.get(COUNTERS, TENANT, "a") == counter("a")[1]


async def test_a_record_that_moved_on_cannot_be_updated_and_nothing_of_its_batch_stays(store: Store) -> None:
    await store.transact(carrying(changes(counter("a", version=3))))
    stale = Update(*counter("a", 9, version=3), version_before=2)
    with pytest.raises(WriteConflict):
        await store.transact(carrying(changes(counter("b"), updates=(stale,)), batch_id="batch_2"))
    assert await store.get(COUNTERS, TENANT, "b") is None
    assert await store.get(COUNTERS, TENANT, "a") == counter("a", version=3)[1]


async def test_a_record_that_moved_on_cannot_be_deleted(store: Store) -> None:
    await store.transact(carrying(changes(counter("a", version=3))))
    with pytest.raises(WriteConflict):
        await store.transact(carrying(changes(deletes=((COUNTERS.key(TENANT, "a"), 2),)), batch_id="batch_2"))
    assert await store.get(COUNTERS, TENANT, "a") is not None


async def test_a_second_unique_column_conflicts_like_a_key(store: Store) -> None:
    from interlock.rooms.identity.model import API_KEYS, ApiKey

    def key(tenant: str) -> tuple[Any, ApiKey]:
        made = ApiKey(
            tenant=tenant, id="k", principal="p", digest="d", created_at=utc_now(), created_by="o", version=1
        )
        return API_KEYS, made

    await store.transact(carrying(changes(key("one"))))
    with pytest.raises(WriteConflict):
        await store.transact(carrying(changes(key("two")), batch_id="batch_2"))


async def test_updates_and_deletes_take_effect_together(store: Store) -> None:
    await store.transact(carrying(changes(counter("a"), counter("b"))))
    update = Update(*counter("a", 7, version=2), version_before=1)
    await store.transact(
        carrying(changes(updates=(update,), deletes=((COUNTERS.key(TENANT, "b"), 1),)), batch_id="batch_2")
    )
    assert await store.get(COUNTERS, TENANT, "a") == counter("a", 7, version=2)[1]
    assert await store.get(COUNTERS, TENANT, "b") is None


async def test_an_error_in_a_decision_writes_nothing_and_leaves_the_store_usable(store: Store) -> None:
    def fail(_: Loaded) -> Changes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store.transact(carrying(fail, reads=Reads(own=(COUNTERS.key(TENANT, "a"),))))
    await store.transact(carrying(changes(counter("a"))))
    assert await store.get(COUNTERS, TENANT, "a") is not None


async def test_a_batch_that_changes_nothing_leaves_nothing(store: Store, place: Place) -> None:
    await store.transact(carrying(changes(wakes=("somebody",))))
    assert await place.rows("SELECT id FROM batches") == []


async def test_rows_without_a_key_of_their_own_keep_the_order_in_which_they_were_added(
    store: Store, place: Place
) -> None:
    notes = [(NOTES, Note(tenant=TENANT, id=f"n{9 - n}", at=utc_now(), text=f"{n}")) for n in range(10)]
    await store.transact(carrying(changes(*notes)))
    rows = await place.rows("SELECT subject FROM events ORDER BY seq")
    assert [row[0] for row in rows] == [f"{n}" for n in range(10)]


async def test_a_named_query_sees_what_was_committed(store: Store) -> None:
    await store.transact(carrying(changes(counter("b"), counter("a"), counter("c"))))
    rows = await store.query("identity.list_principals", {"tenant": TENANT, "after": "a", "limit": 1})
    assert [COUNTERS.decode(row[0]).id for row in rows] == ["b"]


async def test_a_pick_is_ordered_bounded_and_judged_by_the_batchs_clock(store: Store) -> None:
    soon = micros(utc_now()) + 3_600_000_000
    dues = {"late": 30, "early": 10, "middle": 20, "future": soon, "done": None}
    chores = [(CHORES, Chore(tenant=TENANT, id=name, due=due, version=1)) for name, due in dues.items()]
    await store.transact(carrying(changes(*chores)))
    loads: list[Loaded] = []

    def look(loaded: Loaded) -> Changes:
        loads.append(loaded)
        return changes()

    picks = (DueChores(limit=2), DueChores(limit=9, own=False))
    await store.transact(carrying(look, batch_id="batch_2", reads=Reads(picks=picks)))
    found = [[record.id for record in records] for _, records in loads[0].picked]
    assert found == [["early", "middle"], ["early", "middle", "late"]]


# Lost COMMITs.


async def test_a_batch_that_committed_is_known_to_have(store: Store) -> None:
    await store.transact(carrying(changes(counter("a"))))
    assert await store.committed("batch_1", 2.0)
    assert await store.committed("batch_1", 2.0)


async def test_a_batch_that_is_settled_as_lost_can_never_commit(store: Store) -> None:
    assert not await store.committed("batch_1", 2.0)
    assert not await store.committed("batch_1", 2.0)
    with pytest.raises(WriteConflict):
        await store.transact(carrying(changes(counter("a"))))
    assert await store.get(COUNTERS, TENANT, "a") is None


# Through the kernel.


class TellTime(Command[tuple[datetime, datetime]], frozen=True, kw_only=True):
    """The time before the second reads, and after."""

    told: list[datetime]

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, "a"),))

    def more(self, world: World) -> Reads:
        self.told.append(world.now)
        return Reads(own=(COUNTERS.key(TENANT, "b"),))

    def decide(self, world: World) -> tuple[datetime, datetime]:
        return self.told[-1], world.now


async def test_a_batch_with_second_reads_has_one_clock(place: Place) -> None:
    async with serving(place.store()) as server:
        before, after = await server.kernel.run(TellTime(told=[]))
        assert before == after


NAMELESS = Kind("nameless", Counter, table="principals", columns=("kind",), values=lambda _: (None,))


class MakeNameless(Command[Counter], frozen=True, kw_only=True):
    """Leaves a column empty that must not be."""

    def reads(self) -> Reads:
        return Reads(own=(NAMELESS.key(TENANT, "nameless"),))

    def decide(self, world: World) -> Counter:
        return world.put(NAMELESS, Counter(tenant=TENANT, id="nameless"))


async def test_a_value_that_breaks_a_rule_of_the_schema_is_no_conflict(place: Place) -> None:
    async with serving(place.store(), KernelLimits(acquire_seconds=60)) as server:
        failed, done = await server.outcomes(MakeNameless(), Raise(name="a"))
        assert isinstance(failed, CommandFailed)
        assert done.count == 1


class Endless(DueChores, frozen=True, kw_only=True):
    """Asks for a moment that no store can be asked about."""

    def params(self, now: datetime) -> Mapping[str, int]:
        return {"now": 2**70}


class TakeEndless(Take, frozen=True, kw_only=True):
    def reads(self) -> Reads:
        return Reads(picks=(Endless(limit=1),))


async def test_a_pick_with_a_value_that_a_store_cannot_be_asked_for_fails_alone(shared_place: Place) -> None:
    async with serving(shared_place.store()) as server:
        failed, done = await server.outcomes(TakeEndless(who="w"), Raise(name="a"))
        assert isinstance(failed, CommandFailed)
        assert done.count == 1


@pytest.mark.parametrize("poison", ["lone \ud800 surrogate", "number"])
async def test_what_a_store_cannot_keep_fails_alone(place: Place, poison: str) -> None:
    bad = Plan(name="bad", due=2**70) if poison == "number" else Raise(name=poison)
    async with serving(place.store()) as server:
        commands = [Raise(name="a"), Raise(name="b"), bad, Raise(name="c")]
        first, second, failed, last = await server.outcomes(*commands)
        assert isinstance(failed, CommandFailed)
        assert [outcome.count for outcome in (first, second, last)] == [1, 1, 1]
        assert await server.counts("a", "b", "c") == [1, 1, 1]


async def test_second_reads_and_their_locks_work_on_every_store(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(Point(name="s1", at="t"), Point(name="s2", at="t"))
        followed = await server.outcomes(Follow(name="s1"), Follow(name="s2"), Raise(name="t"))
        assert sorted(outcome.count for outcome in followed) == [1, 2, 3]


async def test_a_command_can_swap_own_and_look_in_one_batch(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(Raise(name="a", by=3), Raise(name="b", by=5))
        outcomes = await server.outcomes(
            Swap(first="a", second="b"), Look(name="a"), Swap(first="b", second="a"), Look(name="a")
        )
        assert outcomes == [(5, 3), 5, (5, 3), 3]


async def test_chores_are_taken_once_each_in_order(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(*(Plan(name=f"c{n}", due=LONG_AGO + n) for n in range(7)))
        taken = await server.outcomes(*(Take(who=f"w{n}", most=2) for n in range(4)))
        assert taken == [("c0", "c1"), ("c2", "c3"), ("c4", "c5"), ("c6",)]
        assert await server.outcomes(Take(who="w", most=9)) == [()]


async def test_the_clock_of_a_store_never_goes_back(store: Store) -> None:
    seen: list[Any] = []

    def look(loaded: Loaded) -> Changes:
        seen.append(loaded.now)
        return changes((NOTES, Note(tenant=TENANT, id=f"n{len(seen)}", at=loaded.now, text="")))

    for n in range(20):
        await store.transact(carrying(look, batch_id=f"batch_{n}"))
    assert seen == sorted(seen)
    assert all(moment.tzinfo is not None for moment in seen)


async def test_an_open_store_answers_a_ping(store: Store) -> None:
    await store.ping(2.0)


async def test_a_record_is_found_by_what_an_update_made_of_it(store: Store) -> None:
    before = Chore(tenant=TENANT, id="a", due=10**17, version=1)
    await store.transact(carrying(changes((CHORES, before))))
    after = Chore(tenant=TENANT, id="a", due=LONG_AGO, taken_by="w", version=2)
    update = Update(CHORES, after, version_before=1, before=before)
    await store.transact(carrying(changes(updates=(update,)), batch_id="batch_2"))
    loaded: list[Loaded] = []

    def look(found: Loaded) -> Changes:
        loaded.append(found)
        return changes()

    await store.transact(
        carrying(look, reads=Reads(picks=(DueChores(limit=5, own=False),)), batch_id="batch_3")
    )
    assert [list(records) for _, records in loaded[0].picked] == [[after]]
