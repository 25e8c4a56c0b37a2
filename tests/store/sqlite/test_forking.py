"""A process that forks while it has the SQLite file open: neither side hurts the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from interlock.store.sqlite import threads
from tests.harness.store_places import Server, SqlitePlace, open_files_at, serving
from tests.kernel.counter_room import TENANT, Raise

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ALARM_SECONDS = 60  # a hang guard for children


@contextlib.contextmanager
def serving_beside(place: SqlitePlace) -> Iterator[tuple[Server, asyncio.AbstractEventLoop]]:
    """A server on a loop of its own in a thread of its own, as an embedded client has it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    opened = serving(place.store())
    try:
        yield asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(), loop
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def in_child(work: Callable[[], Coroutine[None, None, None]]) -> int:
    """Fork; the child's number."""
    child = os.fork()
    if child == 0:
        signal.alarm(ALARM_SECONDS)
        with contextlib.suppress(BaseException):
            asyncio.run(work())
        os._exit(1)
    return child


async def raised(path: Path, name: str, times: int) -> None:
    async with serving(SqlitePlace(path).store()) as server:
        for _ in range(times):
            await server.kernel.run(Raise(name=name))


def test_what_a_child_was_promised_outlives_its_parents_store(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    ready, go_on = os.pipe(), os.pipe()

    async def promised() -> None:
        async with serving(SqlitePlace(path).store()) as server:
            await server.kernel.run(Raise(name="child"))
            os.write(ready[1], b"1")
            os.read(go_on[0], 1)
            await server.kernel.run(Raise(name="child"))
            os.kill(os.getpid(), signal.SIGKILL)

    with serving_beside(SqlitePlace(path)) as (server, loop):
        asyncio.run_coroutine_threadsafe(server.kernel.run(Raise(name="parent")), loop).result()
        child = in_child(promised)
        assert os.read(ready[0], 1) == b"1"
    os.write(go_on[1], b"1")
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert asyncio.run(counts(path, "parent", "child")) == [1, 2]


def test_children_forked_in_the_middle_of_commits_write_as_anybody_does(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    done = threading.Event()
    with serving_beside(SqlitePlace(path)) as (server, loop):

        async def keep_writing() -> int:
            times = 0
            while not done.is_set():
                await server.kernel.run(Raise(name="parent"))
                times += 1
            return times

        writing = asyncio.run_coroutine_threadsafe(keep_writing(), loop)

        async def write_and_end() -> None:
            await raised(path, "child", 3)
            os._exit(0)

        children = [in_child(write_and_end) for _ in range(4)]
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        done.set()
        times = writing.result()
    assert ended == [0] * 4
    assert asyncio.run(counts(path, "parent", "child")) == [times, 12]


def test_a_child_has_none_of_the_files_that_one_loop_has_open(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stores = [SqlitePlace(tmp_path / name).store() for name in ("one.db", "other.db")]
    try:
        for store in stores:
            asyncio.run_coroutine_threadsafe(store.open(), loop).result()
        child = os.fork()
        if child == 0:
            os._exit(sum(store._writer is not None or store._reader is not None for store in stores))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for store in stores:
            asyncio.run_coroutine_threadsafe(store.ping(1.0), loop).result()
            asyncio.run_coroutine_threadsafe(store.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_reads_go_on_after_a_fork_and_a_child_has_nothing_of_them(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    everybody = {"tenant": TENANT, "after": "", "limit": 5}
    with serving_beside(SqlitePlace(path)) as (server, loop):
        for _ in range(2):
            found = server.store.query("identity.list_principals", everybody)
            assert asyncio.run_coroutine_threadsafe(found, loop).result() == []
            child = os.fork()
            if child == 0:
                os._exit(len(open_files_at(path)))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_log_is_copied_back_after_a_fork_as_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_beside(SqlitePlace(tmp_path / "interlock.db")) as (server, loop):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        copied = threading.Event()
        monkeypatch.setattr(threads, "_PAGES_MIN", 1)
        monkeypatch.setattr(threads, "_PAGES_STEP", 1)
        monkeypatch.setattr(threads, "copy_back", lambda _: copied.set())
        asyncio.run_coroutine_threadsafe(server.kernel.run(Raise(name="a")), loop).result()
        assert copied.wait(ALARM_SECONDS)


async def test_a_fork_on_a_stores_own_loop_waits_for_nobody(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_STANDSTILL_SECONDS_MAX", 0.1)
    async with serving(sqlite_place.store()):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert threads._mine.standstills == []


def test_a_child_that_forks_itself_waits_for_nobody_it_has_left_behind(tmp_path: Path) -> None:
    with serving_beside(SqlitePlace(tmp_path / "interlock.db")):
        child = os.fork()
        if child == 0:
            os._exit(len(threads._watched))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def counts(path: Path, *names: str) -> list[int | None]:
    async with serving(SqlitePlace(path).store()) as server:
        return await server.counts(*names)
