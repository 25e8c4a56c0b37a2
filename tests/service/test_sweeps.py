"""Sweeps: each for itself, and old rows forgotten."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.kernel.storage import StoreDown, Transaction
from interlock.rooms.jobs.sweeps import DueJobs, SweepDueJobs
from interlock.service.settings import BadSetting, settings_from
from interlock.store.memory import MemoryStore
from interlock.store.sqlite import SqliteStore
from tests.harness.in_process_api import ASK, InProcessApi, VirtualClock, open_api


def rows(path: Path, table: str) -> int:
    database = apsw.Connection(str(path))
    try:
        return int(str(database.execute(f"SELECT count(*) FROM {table}").get))
    finally:
        database.close()


async def test_a_sweep_that_breaks_does_not_keep_the_others_from_theirs(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "a.db"
    async with open_api(SqliteStore(path, clock=clock), clock=clock) as api:
        await api.policy(ASK)
        bot, worker = await api.agent(), await api.key("w", "worker", "work,submit")
        broken = await api.submit(bot, expires_in="1h")
        held = await api.call("POST", "leases", worker, {"resource": "repo:x", "ttl_seconds": 60})
        assert held.status == 201
        with apsw.Connection(str(path)) as database:
            database.execute("UPDATE jobs SET body = '{}' WHERE id = ?", (broken,))
        clock.advance(7200)

        await api.sweep()

        assert await api.metric('interlock_swept_total{what="overdue_leases"}') == 1


class Counting(MemoryStore):
    """Knows how many batches it has carried."""

    batches = 0

    async def transact(self, transaction: Transaction) -> None:
        self.batches += 1
        await super().transact(transaction)


async def test_one_batch_carries_a_pass_that_finds_nothing() -> None:
    async with open_api(store := Counting()) as api:
        before = store.batches
        await api.sweep()
        assert store.batches == before + 1


class Slow(MemoryStore):
    """Manages a few records in the time that it has for a batch, and no more."""

    async def transact(self, transaction: Transaction) -> None:
        if any(isinstance(pick, DueJobs) and pick.limit > 20 for pick in transaction.reads.picks):
            raise StoreDown("it takes too long")
        await super().transact(transaction)


async def test_what_a_store_cannot_sweep_at_once_is_swept_bit_by_bit() -> None:
    clock = VirtualClock()
    async with open_api(Slow(clock=clock), clock=clock) as api:
        await api.policy(ASK)
        bot = await api.agent()
        for _ in range(23):
            await api.submit(bot, expires_in="1h")
        clock.advance(7200)

        await api.service.sweeps.until_few("due_jobs", SweepDueJobs())

        assert await api.metric('interlock_swept_total{what="due_jobs"}') == 23


async def test_a_lost_run_is_found_where_this_machines_clock_is_behind_the_stores(tmp_path: Path) -> None:
    clock = VirtualClock()  # years ahead
    async with open_api(SqliteStore(tmp_path / "a.db", clock=clock), clock=clock) as api:
        await api.call("POST", "workflows/w/runs", await api.agent(), {"ttl_seconds": 60})
        clock.advance(61)

        await api.sweep()

        assert await api.metric('interlock_swept_total{what="lost_runs"}') == 1


async def test_old_batches_and_expired_answers_are_forgotten(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "a.db"
    async with open_api(SqliteStore(path, clock=clock), clock=clock) as api:
        await api.policy(ASK)
        bot = await api.agent()
        for n in range(20):
            await api.submit(bot, topic="read", idempotency_key=f"k{n}")
        assert (rows(path, "answers"), rows(path, "batches") > 20) == (20, True)
        clock.advance(31 * 86_400)
        await api.submit(bot, topic="read")

        await api.service.sweeps.prune()

        assert rows(path, "answers") == 0
        assert rows(path, "batches") <= 1


@pytest.mark.parametrize(
    "given",
    [
        {"lock_busy_status": 500},
        {"acquire_seconds": 0},
        {"acquire_seconds": float("inf")},
        {"sweep_seconds": 0},
        {"sweep_seconds": -1},
        {"body_bytes_max": 0},
        {"queue_max": 0},
        {"port": 70_000},
        {"lanes": "many"},
        {"drain_seconds": -5},
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_meant_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(BadSetting, match=next(iter(given))):
        settings_from({}, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": "x"}, "port must be a whole number, not 'x'"),
        ({"sweep_seconds": "soon"}, "sweep_seconds must be a number, not 'soon'"),
        ({"relay": "maybe"}, "relay must be true or false, not 'maybe'"),
    ],
    ids=str,
)
def test_a_setting_of_the_wrong_kind_is_refused_in_plain_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        settings_from({}, **given)


async def test_an_outage_is_no_fault_of_the_loop_that_advances_runs(
    api: InProcessApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_asked = asyncio.Event()

    async def away(*args: Any) -> Any:
        was_asked.set()
        raise StoreDown("gone")

    with caplog.at_level(logging.DEBUG, "interlock.service.sweeps"), monkeypatch.context() as outage:
        outage.setattr(api.service.store, "query", away)
        api.service.workflows.start()
        async with asyncio.timeout(30):
            await was_asked.wait()
            while not caplog.records:
                await asyncio.sleep(0.01)

    assert {record.levelname for record in caplog.records} == {"DEBUG"}
