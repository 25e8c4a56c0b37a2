"""What a batch leaves of the SQLite file to others, and what a closed store leaves open: nothing."""

from __future__ import annotations

import threading

import apsw
import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.record import NOTHING
from interlock.kernel.refusal import StoreUnavailable
from interlock.kernel.storage import Loaded, Transaction
from interlock.kernel.world import Changes
from interlock.store.sqlite import store as write_lock
from tests.harness.store_places import SqlitePlace, open_files_at, serving
from tests.kernel.counter_room import TENANT, Look, Raise

SHORT = KernelLimits(acquire_seconds=0.4)


async def test_a_batch_that_changes_nothing_leaves_the_file_to_others(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store()) as server:
        await server.kernel.run(Look(name="a"))
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        other.close()


async def test_a_batch_that_fails_leaves_the_file_to_others(sqlite_place: SqlitePlace) -> None:
    def decide(_: Loaded | None) -> Changes:
        raise ZeroDivisionError

    store = sqlite_place.store()
    async with serving(store):
        with pytest.raises(ZeroDivisionError):
            await store.transact(Transaction("batch_1", NOTHING, lambda _: NOTHING, decide, 1.0))
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        other.close()


async def test_a_file_on_which_nothing_can_begin_is_an_outage(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def try_to_begin(_: object) -> None:
        raise apsw.IOError("the disk did not answer")

    async with serving(sqlite_place.store(), SHORT) as server:
        monkeypatch.setattr(write_lock, "try_to_begin", try_to_begin)
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))


async def test_a_store_that_is_closed_leaves_nothing_open(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.store()
    async with serving(store) as server:
        await server.kernel.run(Raise(name="a"))
        await store.query("identity.list_principals", {"tenant": TENANT, "after": "", "limit": 5})
        assert len(open_files_at(sqlite_place.path)) > 3
    assert open_files_at(sqlite_place.path) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sqlite-")]
