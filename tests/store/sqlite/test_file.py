"""The SQLite file: shared with other processes, threads and a disk that can be full."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.api.embedded import open_embedded
from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import LockBusy, OutcomeUnknown, StoreUnavailable
from interlock.kernel.storage import NotAStore, StoreDown
from interlock.store.sqlite import SqliteStore, store
from interlock.store.sqlite.driver import Database, connect_durably
from tests.harness.store_places import SqlitePlace, serving
from tests.kernel.counter_room import TENANT, Counter, Raise, once

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
        await server.outcomes(Raise(name="a"), *(Raise(name=f"c{n}") for n in range(2000)))
        listing = {"tenant": TENANT, "after": "", "limit": 5000}

        async def read() -> None:
            for _ in range(200):
                assert await server.counts("a")
                await server.store.ping(1.0)
                await asyncio.sleep(0)

        async def query() -> None:
            for _ in range(20):
                assert len(await server.store.query("identity.list_principals", listing)) == 2001

        async def write() -> None:
            for _ in range(50):
                await server.kernel.run(Raise(name="a"))

        await server.store.listen(lambda _: None)
        await asyncio.gather(*(work() for work in (read, query, query, query, write, write)))
        assert await server.counts("a") == [101]


async def test_a_full_disk_is_an_outage_told_once_and_loses_nothing(
    sqlite_place: SqlitePlace, caplog: pytest.LogCaptureFixture
) -> None:
    store = sqlite_place.store()
    async with serving(store, SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        assert store._writer is not None
        pages = store._writer.execute("PRAGMA page_count").get
        store._writer.execute(f"PRAGMA max_page_count = {pages}")
        filling = [Raise(name=f"{n:0500d}") for n in range(200)]
        outcomes = await server.outcomes(*filling)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        assert all("the disk is full" in str(outcome) for outcome in outcomes)
        outcomes = await server.outcomes(*filling)
        store._writer.execute("PRAGMA max_page_count = 1000000")
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 2
    told = [record.message for record in caplog.records if record.name == "interlock.kernel.lane"]
    assert ["the disk is full" in line for line in told] == [True, False]
    assert told[1] == "the store takes writes again"


class FailingCommit:
    """A connection whose next COMMITs fail, after they happened or before."""

    def __init__(self, inner: Any, error: Exception, *, happened: bool, times: int = 1) -> None:
        self._inner = inner
        self._error = error
        self._happened = happened
        self.times = times

    def execute(self, statements: str, *bindings: object) -> Any:
        if statements == "COMMIT" and self.times:
            self.times -= 1
            if self._happened:
                self._inner.execute("COMMIT")
            raise self._error
        return self._inner.execute(statements, *bindings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_a_commit_without_room_for_it_is_an_outage_and_not_unknown(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.store()
    async with serving(store, SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        writer: Any = FailingCommit(store._writer, apsw.FullError("disk full"), happened=False, times=10**6)
        store._writer = writer
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
        writer.times = 0
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 2


async def test_a_batch_waits_for_the_files_lock_as_long_as_it_was_told(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.store()
    async with serving(store):
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        settling = asyncio.create_task(store.committed("batch_unknown", 30.0))
        await asyncio.sleep(0.2)
        assert not settling.done()
        other.close()
        assert not await settling


@pytest.mark.parametrize("happened", [True, False])
async def test_a_commit_that_fails_is_settled_by_the_file_itself(
    sqlite_place: SqlitePlace, happened: bool
) -> None:
    store = sqlite_place.store()
    async with serving(store) as server:
        await server.kernel.run(Raise(name="warm"))
        error = OSError("the disk did not answer")
        store._writer = FailingCommit(store._writer, error, happened=happened)  # type: ignore[assignment]
        answer = await server.kernel.run(once("key", hours=1))
        assert not answer.replayed
        assert await server.counts("a") == [1]
    rows = await sqlite_place.rows("SELECT sum(abandoned) FROM batches")
    assert rows == [(0 if happened else 1,)]


async def test_a_commit_that_fails_is_unknown_if_what_would_settle_it_fails_too(
    sqlite_place: SqlitePlace,
) -> None:
    store = sqlite_place.store()
    async with serving(store) as server:
        await server.kernel.run(Raise(name="warm"))
        error = OSError("the disk did not answer")
        store._writer = FailingCommit(store._writer, error, happened=False, times=2)  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknown):
            await server.kernel.run(Raise(name="a"))
        assert await server.counts("a") == [None]
        assert (await server.kernel.run(Raise(name="a"))).count == 1


async def test_a_commit_that_hangs_is_unknown_and_its_connection_is_not_used_meanwhile(
    sqlite_place: SqlitePlace,
) -> None:
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


@pytest.mark.parametrize("other", ["prune", "committed"])
async def test_nothing_else_begins_on_the_connection_while_a_commit_is_under_way(
    sqlite_place: SqlitePlace, other: str
) -> None:
    go_on = threading.Event()
    store = sqlite_place.store()
    async with serving(store) as server:
        await server.kernel.run(Raise(name="warm"))
        store._commits.submit(go_on.wait)
        deciding = asyncio.create_task(server.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.1)
        work = store.prune() if other == "prune" else store.committed("batch_unknown", 10.0)
        meanwhile = asyncio.create_task(work)
        await asyncio.sleep(0.1)
        go_on.set()
        assert (await deciding).count == 1
        assert not await meanwhile
        assert await server.counts("a") == [1]


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
    with pytest.raises(NotAStore, match=r"notes\.txt"):
        await SqliteStore(path).open()


async def test_whoever_only_reads_opens_a_file_that_somebody_holds(sqlite_place: SqlitePlace) -> None:
    url = f"sqlite:///{sqlite_place.path}"
    await (await open_embedded(url)).close()
    other = apsw.Connection(str(sqlite_place.path))
    other.execute("BEGIN IMMEDIATE")
    reading = await open_embedded(url)
    await reading.close()
    other.close()


async def test_a_service_that_cannot_begin_leaves_nothing_open(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store()):
        pass  # The schema is there, and the person who opens it is not.
    other = apsw.Connection(str(sqlite_place.path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreDown, match="did not let go"):
        await open_embedded(f"sqlite:///{sqlite_place.path}")
    other.close()
    assert not any(task.get_name() in ("sweeps", "lane", "sqlite-watch") for task in asyncio.all_tasks())


@pytest.fixture(autouse=True)
def _usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_store_is_nobody_elses_to_read(tmp_path: Path) -> None:
    file = tmp_path / ".interlock" / "interlock.db"
    async with serving(SqliteStore(file)) as server:
        await server.outcomes(Raise(name="a"))
        beside = {path.name: mode(path) for path in file.parent.iterdir() if path.name != ".gitignore"}
    assert mode(file.parent) == 0o700
    assert set(beside) >= {"interlock.db", "interlock.db-wal"}
    assert set(beside.values()) == {0o600}
    assert (file.parent / ".gitignore").read_text() == "*\n"


async def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    before = mode(tmp_path)
    async with serving(SqliteStore(tmp_path / "a.db")) as server:
        await server.outcomes(Raise(name="a"))
    assert (mode(tmp_path), mode(tmp_path / "a.db")) == (before, 0o600)
    assert not (tmp_path / ".gitignore").exists()


async def test_a_store_that_was_shared_stays_shared(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    async with serving(SqliteStore(file)) as server:
        await server.outcomes(Raise(name="a"))
    file.chmod(0o660)
    async with serving(SqliteStore(file)) as server:
        await server.outcomes(Raise(name="a"))
        assert {mode(path) for path in tmp_path.iterdir()} == {0o660}


@pytest.mark.parametrize("replaced", [True, False])
async def test_nothing_is_decided_in_a_file_that_nobody_will_find(
    sqlite_place: SqlitePlace, tmp_path: Path, replaced: bool
) -> None:
    aside = tmp_path / "aside.db"
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        sqlite_place.path.rename(aside)
        if replaced:
            sqlite_place.path.write_bytes(aside.read_bytes())
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
        with pytest.raises(StoreDown, match="removed or replaced"):
            await server.store.ping(1.0)
        aside.replace(sqlite_place.path)
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 2


async def test_nor_in_one_that_was_replaced_as_it_was_opened(
    sqlite_place: SqlitePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
    copy = tmp_path / "copy.db"
    copy.write_bytes(sqlite_place.path.read_bytes())

    def then_replaced(path: Path, *seconds: float) -> Database:
        database = connect_durably(path, *seconds)
        if copy.exists():
            copy.replace(path)
        return database

    monkeypatch.setattr(store, "connect_durably", then_replaced)
    async with serving(sqlite_place.store(), SHORT) as server:
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
