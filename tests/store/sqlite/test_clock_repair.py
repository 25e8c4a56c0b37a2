"""One wrong reading of the clock: it is noticed and said, and `interlock doctor --repair-clock` puts it right."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.cli.main import main
from interlock.kernel.clock import SteadyClock, StoreTime, utc_now
from interlock.kernel.ids import new_id
from interlock.kernel.record import Reads
from interlock.kernel.world import Command, World
from interlock.rooms.permits.verification import verify_permit
from interlock.sdk.client import Interlock
from tests.harness.store_places import ShiftedClock, SqlitePlace, serving
from tests.store.sqlite.test_clock_set_back import WhatTime, times

YEARS = timedelta(days=3650)
POLICY = "version: v1\nrules:\n  - {id: all, when: {topic: work}, decision: allow}\n"


async def poison(place: SqlitePlace, ahead: timedelta = YEARS) -> None:
    """One batch under a clock that is far ahead, and another under the right one."""
    async with serving(place.store()) as server:
        await server.kernel.run(WhatTime())
        place.clock.ahead = ahead
        await server.kernel.run(WhatTime())
        place.clock.ahead = timedelta()
        await server.kernel.run(WhatTime())


def test_a_poisoned_store_is_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    url = poisoned(tmp_path)
    caplog.clear()
    with caplog.at_level(logging.ERROR, "interlock.kernel.store_state"), Interlock(store=url) as il:
        health = il.get_health()
        il.get_health()
    assert health.clock_ahead_seconds > YEARS.total_seconds() - 60
    assert "repair the store's" in (health.detail or "")
    assert len([line for line in caplog.messages if "ahead of this machine's" in line]) == 1
    assert main(["doctor", "--store", url]) == 1
    assert "interlock doctor --repair-clock" in capsys.readouterr().out


def test_without_yes_it_explains_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = poisoned(tmp_path)
    assert main(["doctor", "--repair-clock", "--store", url]) == 1
    said = capsys.readouterr().out
    assert "Nothing was changed" in said
    assert "moved back" in said
    with Interlock(store=url) as il:
        assert il.get_health().clock_ahead_seconds > YEARS.total_seconds() - 60


async def test_a_repaired_store_is_right_at_once_also_for_a_server_that_runs(
    sqlite_place: SqlitePlace,
) -> None:
    await poison(sqlite_place)
    async with serving(sqlite_place.store()) as server:
        (poisoned,) = await times(server, 1)
        repaired = await sqlite_place_repaired(sqlite_place)
        after = await times(server, 3)
    assert poisoned - utc_now() > YEARS - timedelta(hours=1)
    assert repaired
    assert all(abs(each - utc_now()) < timedelta(minutes=1) for each in after)
    assert after == sorted(set(after))


async def sqlite_place_repaired(place: SqlitePlace) -> bool:
    store = place.store(ShiftedClock())
    await store.open()
    try:
        return await store.repair_clock() is not None
    finally:
        await store.close()


def test_after_a_repair_permits_verify_and_neither_leases_fences_nor_ids_repeat(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'interlock.db'}"
    with Interlock(store=url) as il:
        il.apply_policy(POLICY)
    poisoned(tmp_path)
    with Interlock(store=url) as il:
        old = il.call("POST", "leases", body={"resource": "r/held", "ttl_seconds": 600})
        free = il.call("POST", "leases", body={"resource": "r/free"})
        il.call("POST", "leases", free["lease_id"], "release", body={"fence": free["fence"]})
        job = il.call("POST", "jobs", body={"topic": "work", "payload": {}})
    assert main(["doctor", "--repair-clock", "--yes", "--store", url]) == 0
    with Interlock(store=url) as il:
        with pytest.raises(Exception, match="held"):
            il.call("POST", "leases", body={"resource": "r/held"})
        again = il.call("POST", "leases", body={"resource": "r/free"})
        assert again["fence"] > free["fence"]
        assert again["lease_id"] > free["lease_id"] > old["lease_id"]
        il.call("POST", "leases", old["lease_id"], "renew", body={"fence": old["fence"]})
        claimed = il.call("POST", "jobs", job["id"], "claim")
        permit = verify_permit(claimed["permit"], il.signing_keys(), topic="work", job_id=job["id"])
        assert permit.fence == claimed["fence"]
        later = il.call("POST", "jobs", body={"topic": "work", "payload": {}})
        assert later["id"] > job["id"]
        entries = il.call("GET", "audit", query={"subject": "store"})["items"]
    assert [entry["action"] for entry in entries] == ["clock_repair"]
    assert entries[0]["details"]["ahead_seconds"] > YEARS.total_seconds() - 60


def poisoned(folder: Path) -> str:
    """The URL of a store that once saw a wrong clock."""
    asyncio.run(poison(SqlitePlace(folder / "interlock.db")))
    return f"sqlite:///{folder / 'interlock.db'}"


async def test_ids_keep_their_order_when_the_clock_goes_back_and_over_a_restart(
    sqlite_place: SqlitePlace,
) -> None:
    found: list[str] = []
    for ahead in (timedelta(), timedelta(hours=1), timedelta(), timedelta(days=-1)):
        sqlite_place.clock.ahead = ahead
        async with serving(sqlite_place.store()) as server:
            found += [await server.kernel.run(MakeId()) for _ in range(3)]
    assert found == sorted(set(found))


class MakeId(Command[str], frozen=True, kw_only=True):
    """An id as a decision makes it, in a batch that leaves a trace."""

    def reads(self) -> Reads:
        return WhatTime().reads()

    def decide(self, world: World) -> str:
        WhatTime().decide(world)
        return world.new_id("job")


def test_a_leap_of_a_second_is_not_believed_and_one_that_lasts_is() -> None:
    wall, ticks = [utc_now()], [0.0]
    clock = SteadyClock(lambda: wall[0], lambda: ticks[0])
    right = wall[0]
    ticks[0], wall[0] = 1.0, right + YEARS
    assert clock() == right + timedelta(seconds=1)
    ticks[0], wall[0] = 2.0, right + timedelta(seconds=2)
    assert clock() == wall[0]
    for second in range(3, 15):
        ticks[0], wall[0] = float(second), right + YEARS + timedelta(seconds=second)
        told = clock()
    assert told == wall[0]


def test_trouble_is_told_once_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    time = StoreTime()
    with caplog.at_level(logging.WARNING, "interlock.kernel.store_state"):
        for ahead in (0, 3600, 3600, 0, 0):
            time.heard(utc_now() + timedelta(seconds=ahead))
    assert len(caplog.messages) == 2


def test_ids_made_outside_a_batch_sort_after_each_other() -> None:
    made = [new_id("x") for _ in range(100)]
    assert made == sorted(made)
