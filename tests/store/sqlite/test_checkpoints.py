"""SQLite's log is copied back beside the commits, stays short, and never makes a COMMIT fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.store.sqlite import SqliteStore, threads
from interlock.store.sqlite.driver import copy_back
from tests.harness.store_places import SqlitePlace, serving
from tests.kernel.counter_room import Raise

PAGE = 4096 + 24
COMMITS = 120
# SQLite's WAL_CKPT_LOCK is one byte of the file that processes share.
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)
print("held", flush=True)
sys.stdin.read()
"""


def log_pages(place: SqlitePlace) -> int:
    """How long the log has ever been."""
    return Path(f"{place.path}-wal").stat().st_size // PAGE


def copied_by(monkeypatch: pytest.MonkeyPatch, *, least: int = 20, step: int = 1) -> list[Any]:
    """Which connections copied the log back: from `least` pages on, and then for each `step` of new ones."""
    monkeypatch.setattr(threads, "_PAGES_MIN", least)
    monkeypatch.setattr(threads, "_PAGES_STEP", step)
    copied: list[Any] = []

    def noted(database: Any) -> None:
        copied.append(database)
        copy_back(database)

    monkeypatch.setattr(threads, "copy_back", noted)
    return copied


@contextmanager
def copying_elsewhere(place: SqlitePlace) -> Generator[None]:
    """Hold the lock of a process that copies the log, which makes every other attempt `SQLITE_BUSY`."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, f"{place.path}-shm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


async def commit(server: Any, times: int = COMMITS) -> None:
    for number in range(times):
        await server.kernel.run(Raise(name=f"c{number}"))


async def nobody_copies(store: SqliteStore) -> None:
    async with asyncio.timeout(30):
        while store._checkpoint._is_copying:
            await asyncio.sleep(0.001)


async def test_the_log_is_copied_while_others_commit_and_begins_again(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copied_by(monkeypatch)
    store = sqlite_place.store()
    async with serving(store) as server:
        await commit(server)
        await nobody_copies(store)
        await commit(server, 1)
        await nobody_copies(store)
        grown = log_pages(sqlite_place)
        await commit(server, 10)
        assert log_pages(sqlite_place) == grown
        assert copied
        assert store._writer not in copied  # no COMMIT had to


async def test_small_commits_are_copied_several_at_a_time(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copied_by(monkeypatch, step=100)
    store = sqlite_place.store()
    async with serving(store) as server:
        with closing(apsw.Connection(str(sqlite_place.path))) as reader:
            # So that the log never begins again.
            reader.execute("BEGIN; SELECT count(*) FROM batches").fetchall()
            for _ in range(COMMITS):
                await commit(server, 1)
                await nobody_copies(store)
            assert 1 < len(copied) <= 1 + log_pages(sqlite_place) // 100


async def test_what_another_process_copies_is_not_copied_again(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copied_by(monkeypatch, step=50)
    store = sqlite_place.store()
    async with serving(store) as server:
        await commit(server, 1)
        await nobody_copies(store)
        copied.clear()  # what was there from the beginning
        with closing(apsw.Connection(str(sqlite_place.path))) as other:
            for _ in range(COMMITS):
                # It goes along, so that the log can be copied and does not begin again.
                other.execute("BEGIN; SELECT count(*) FROM batches").fetchall()
                await commit(server, 1)
                other.execute("COMMIT; BEGIN; SELECT count(*) FROM batches").fetchall()
                with closing(apsw.Connection(str(sqlite_place.path))) as copying:
                    copying.execute("SELECT count(*) FROM batches").fetchall()
                    copy_back(copying)  # type: ignore[arg-type]
                await commit(server, 1)
                other.execute("COMMIT")
            await nobody_copies(store)
            assert log_pages(sqlite_place) > 200
            assert copied == []


async def test_a_log_that_begins_again_is_copied_again(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copied_by(monkeypatch, step=100)
    store = sqlite_place.store()
    async with serving(store) as server:
        await commit(server)
        await nobody_copies(store)
        copy_back(store._writer)  # type: ignore[arg-type]
        copied.clear()
        await commit(server, 30)
        await nobody_copies(store)
        assert copied


async def test_a_log_that_became_too_long_is_copied_by_a_commit(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "WAL_PAGES_MAX", 50)
    copied = copied_by(monkeypatch, least=50)
    store = sqlite_place.store()
    async with serving(store) as server:
        await commit(server)
        assert set(copied) == {store._writer}
        assert log_pages(sqlite_place) < 3 * COMMITS


async def test_a_reader_who_needs_the_log_keeps_it_and_fails_nobody(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_PAGES_MIN", 20)
    monkeypatch.setattr(threads, "WAL_PAGES_MAX", 60)
    async with serving(sqlite_place.store()) as server:
        reader = apsw.Connection(str(sqlite_place.path))
        reader.execute("BEGIN; SELECT count(*) FROM batches").fetchall()
        await commit(server)
        grown = log_pages(sqlite_place)
        assert grown >= COMMITS
        reader.execute("COMMIT")
        reader.close()
        await commit(server)
        assert log_pages(sqlite_place) < 2 * grown


async def test_a_copy_that_fails_is_not_the_failure_of_a_commit(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "WAL_PAGES_MAX", 1)
    copied = copied_by(monkeypatch)
    store = sqlite_place.store()
    async with serving(store) as server:
        await commit(server, 1)
        writer: Any = store._writer
        with copying_elsewhere(sqlite_place):
            # Not through the kernel, which would find out that the COMMIT happened after all.
            writer.execute("CREATE TABLE noted (n)")
        assert copied[-1] is writer


async def test_where_no_thread_can_be_had_a_commit_copies_now_and_then(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if thread.name == "sqlite-checkpoint":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_others)
    copied = copied_by(monkeypatch)
    monkeypatch.setattr(threads, "WAL_PAGES_MAX", 60)
    store = sqlite_place.store()
    async with serving(store) as server:
        await commit(server)
        assert set(copied) == {store._writer}
        assert log_pages(sqlite_place) < 3 * COMMITS
