"""A row that was damaged in the database: refused to callers that ask for it, and in no other's way."""

from __future__ import annotations

from itertools import accumulate

import pytest

from interlock.kernel.pages import Choosing
from interlock.kernel.record import Key, from_micros
from interlock.kernel.refusal import Unreadable
from tests.harness.store_places import MemoryPlace, Place, Server, serving
from tests.kernel.counter_room import (
    CHORES,
    COUNTERS,
    NOTES,
    TENANT,
    Chore,
    DueChores,
    Follow,
    Look,
    Plan,
    Point,
    Raise,
    Take,
)

LONG_AGO = 1_000_000


async def spoil(place: Place, key: Key, body: str = "no longer JSON") -> None:
    if isinstance(place, MemoryPlace):
        place.spoil(key, body.encode())
    else:
        await place.rows(f"UPDATE {key.kind.table} SET body = '{body}' WHERE id = '{key.id}'")


async def test_an_unreadable_record_is_refused_to_its_own_commands_only(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(Raise(name="a"), Raise(name="b"))
        await spoil(place, COUNTERS.key(TENANT, "a"))

        raised, looked, neighbour, absent = await server.outcomes(
            Raise(name="a"), Look(name="a"), Raise(name="b"), Look(name="never")
        )

        assert isinstance(raised, Unreadable)
        assert isinstance(looked, Unreadable)
        assert (neighbour.count, absent) == (2, None)


async def test_a_refusal_over_an_unreadable_record_is_recorded_like_any_other(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(Raise(name="t"), Point(name="s", at="t"))
        await spoil(place, COUNTERS.key(TENANT, "t"))

        (followed,) = await server.outcomes(Follow(name="s"))

        assert isinstance(followed, Unreadable)
        noted = await place.rows(f"SELECT subject FROM {NOTES.table}")
        assert ("refused to follow s",) in noted


async def misplace(place: Place, server: Server, tenant: str = TENANT, name: str = "b") -> None:
    """Two records, a and b, and the body of another in the row of a."""
    await server.outcomes(Raise(name="a"), Raise(name="b", by=5))
    body = f'{{"tenant":"{tenant}","id":"{name}","version":1,"count":5}}'
    await spoil(place, COUNTERS.key(TENANT, "a"), body)


@pytest.mark.parametrize(("tenant", "name"), [(TENANT, "b"), ("another", "a")])
async def test_the_body_of_another_record_is_not_taken_for_this_one(
    place: Place, tenant: str, name: str
) -> None:
    async with serving(place.store()) as server:
        await misplace(place, server, tenant, name)

        copied, original = await server.outcomes(Raise(name="a"), Raise(name="b"))

        assert isinstance(copied, Unreadable)
        assert original.count == 6
        with pytest.raises(Unreadable):
            await server.store.get(COUNTERS, TENANT, "a")


async def test_the_body_of_another_record_is_refused_also_if_that_one_is_asked_for_beside_it(
    place: Place,
) -> None:
    async with serving(place.store()) as server:
        await misplace(place, server)

        seen, raised = await server.outcomes(Look(name="a"), Raise(name="b"))

        assert isinstance(seen, Unreadable)
        assert raised.count == 6


async def test_the_body_of_another_record_is_not_taken_for_absence_if_both_are_only_seen(
    place: Place,
) -> None:
    async with serving(place.store()) as server:
        await misplace(place, server)

        copied, original = await server.outcomes(Look(name="a"), Look(name="b"))

        assert isinstance(copied, Unreadable)
        assert original == 5


async def test_unreadable_rows_hide_nothing_behind_them_from_a_pick(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(*(Plan(name=f"c{n}", due=LONG_AGO + n) for n in range(6)))
        for name in ("c0", "c1", "c3"):
            await spoil(place, CHORES.key(TENANT, name))

        taken = [(await server.outcomes(Take(who="w", most=1)))[0] for _ in range(4)]

        assert taken == [("c2",), ("c4",), ("c5",), ()]


async def test_an_unreadable_record_is_told_of_on_a_plain_read(place: Place) -> None:
    async with serving(place.store()) as server:
        await server.outcomes(Raise(name="a"))
        await spoil(place, COUNTERS.key(TENANT, "a"))

        try:
            found = await server.store.get(COUNTERS, TENANT, "a")
        except Unreadable as unreadable:
            found = unreadable

        assert isinstance(found, Unreadable)


async def test_rows_whose_columns_were_edited_hide_nothing_behind_them_from_a_pick(place: Place) -> None:
    never = 4 * 10**15
    async with serving(place.store()) as server:
        await server.outcomes(Plan(name="edited", due=never), Plan(name="due", due=LONG_AGO))
        await place.rows(f"UPDATE {CHORES.table} SET due_at = 1 WHERE id = 'edited'")

        taken = [(await server.outcomes(Take(who="w", most=1)))[0] for _ in range(2)]

        assert taken == [("due",), ()]


class FewBytes(DueChores, frozen=True, kw_only=True):
    """A pick whose records are so large that two fill a load."""

    @property
    def bytes_max(self) -> int:
        return 150


def test_large_rows_that_somebody_spoilt_hide_nothing_behind_them_from_a_pick() -> None:
    good = [CHORES.encode(Chore(tenant=TENANT, id=f"good{n}", due=n, version=1)).decode() for n in range(9)]
    rows = [("x" * 100,)] * 7 + [(body,) for body in good]
    pick = FewBytes(limit=5)
    choosing = Choosing(pick, from_micros(LONG_AGO))

    while choosing.asks_for:
        assert choosing.bytes_max is not None
        ahead = accumulate((len(body) for (body,) in rows), initial=0)
        loaded = [row for row, size in zip(rows, ahead, strict=False) if size < choosing.bytes_max + 100]
        choosing.take(loaded[: choosing.asks_for])

    picked, found = choosing.picked
    assert 0 < len(found) < len(good)
    assert [chore.id for chore in found] == [f"good{n}" for n in range(len(found))]
    assert picked.limit == len(found), "more did not fit, so nothing is known of what comes after"
