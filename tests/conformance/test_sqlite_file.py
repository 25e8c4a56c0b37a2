"""The SQLite file: shared with other processes, threads and a disk that can be full."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import LockBusy, OutcomeUnknown, StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.store.sqlite import SqliteStore
from tests.conformance.places import SqlitePlace, serving
from tests.conformance.test_pruning import once
from tests.kernel.counters import TENANT, Counter, Raise

SHORT = KernelLimits(acquire_seconds=0.4)

HOLD = """
import apsw, sys, time
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(600)
"""


async def test_a_stopped_process_that_holds_the_file_makes_it_busy_and_its_end_frees_it(
    sqlite_place: SqlitePlace,
) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(sqlite_place.path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert holder.stdout is not None
            assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
            os.kill(holder.pid, signal.SIGSTOP)
            with pytest.raises(LockBusy):
                await server.kernel.run(Raise(name="a"))
        finally:
            holder.kill()
            holder.communicate()
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 1


async def test_reads_queries_and_batches_at_once_never_share_a_connection(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store()) as server:
        await server.kernel.run(Raise(name="a"))
        listing = {"tenant": TENANT, "after": "", "limit": 50}

        async def read() -> None:
            for _ in range(50):
                assert await server.counts("a")
                await server.store.ping(1.0)

        async def query() -> None:
            for _ in range(50):
                assert await server.store.query("identity.list_principals", listing)

        async def write() -> None:
            for _ in range(50):
                await server.kernel.run(Raise(name="a"))

        await server.store.listen(lambda _: None)
        await asyncio.gather(*(work() for work in (read, query, query, query, write, write)))
        assert await server.counts("a") == [101]


async def test_a_full_disk_is_an_outage_and_loses_nothing(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.store()
    async with serving(store, SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        assert store._writer is not None
        pages = store._writer.execute("PRAGMA page_count").get
        store._writer.execute(f"PRAGMA max_page_count = {pages}")
        filling = [Raise(name=f"{n:0500d}") for n in range(200)]
        outcomes = await server.outcomes(*filling)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        store._writer.execute("PRAGMA max_page_count = 1000000")
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 2


class FailingCommit:
    """A connection whose next COMMIT fails, after it happened or before."""

    def __init__(self, inner: object, *, happened: bool) -> None:
        self._inner = inner
        self._happened = happened
        self._failed = False

    def execute(self, statements: str, *bindings: object) -> object:
        inner: object = self._inner
        if statements == "COMMIT" and not self._failed:
            self._failed = True
            if self._happened:
                inner.execute("COMMIT")  # type: ignore[attr-defined]
            raise OSError("the disk did not answer")
        return inner.execute(statements, *bindings)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("happened", [True, False])
async def test_a_commit_that_fails_is_settled_by_the_file_itself(
    sqlite_place: SqlitePlace, happened: bool
) -> None:
    store = sqlite_place.store()
    async with serving(store) as server:
        await server.kernel.run(Raise(name="warm"))
        store._writer = FailingCommit(store._writer, happened=happened)  # type: ignore[assignment]
        answer = await server.kernel.run(once("key", hours=1))
        assert not answer.replayed
        assert await server.counts("a") == [1]
    rows = await sqlite_place.rows("SELECT sum(abandoned) FROM batches")
    assert rows == [(0 if happened else 1,)]


async def test_a_commit_that_hangs_is_unknown_and_its_connection_is_not_used_meanwhile(
    sqlite_place: SqlitePlace,
) -> None:
    import threading

    go_on = threading.Event()
    store = sqlite_place.store()
    limits = KernelLimits(acquire_seconds=0.3, answer_seconds=0.6)
    async with serving(store, limits) as server:
        await server.kernel.run(Raise(name="a"))
        store._commits.submit(go_on.wait)
        under_way = asyncio.create_task(server.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.1)
        queued = await server.outcomes(Raise(name="b"))
        assert isinstance(queued[0], StoreUnavailable)
        with pytest.raises(OutcomeUnknown):
            await under_way
        go_on.set()
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 3


async def test_every_connection_syncs_every_commit(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.store()
    async with serving(store):
        assert store._writer is not None
        assert store._writer.execute("PRAGMA journal_mode").get == "wal"
        assert store._writer.execute("PRAGMA synchronous").get == 2


async def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    async with serving(SqliteStore(tmp_path / "new" / "folder" / "x.db")) as server:
        assert isinstance(await server.kernel.run(Raise(name="a")), Counter)


async def test_a_file_that_is_no_database_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and long enough to be seen as such " * 100)
    with pytest.raises(StoreDown, match=r"notes\.txt"):
        await SqliteStore(path).open()
