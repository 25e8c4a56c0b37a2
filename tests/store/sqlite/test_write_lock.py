"""The write lock of a SQLite file between processes: who waits tries again, and everybody else goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from interlock.kernel.ids import new_id
from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import LockBusy
from interlock.rooms.grants.rules import IssueGrant
from interlock.service.local_kernel import LocalKernel
from interlock.store.sqlite import SqliteStore
from interlock.store.sqlite import store as write_lock
from interlock.store.sqlite.driver import BUSY, Database, connect_durably, try_to_begin
from interlock.store.sqlite.place import make_private
from tests.harness.store_places import Server, SqlitePlace, serving
from tests.kernel.counter_room import TENANT, Raise

HANG_SECONDS = 30
PATIENT = KernelLimits(acquire_seconds=HANG_SECONDS)
SHORT = KernelLimits(acquire_seconds=0.4)


@asynccontextmanager
async def two(
    place: SqlitePlace, limits: KernelLimits = PATIENT
) -> AsyncGenerator[tuple[Server, Server, Callable[[], object]]]:
    """Two services of which the first stops in the middle of its next COMMIT, until it is told to go on."""
    go_on = threading.Event()
    first, second = place.store(), place.store()
    async with (
        asyncio.timeout(HANG_SECONDS),
        serving(first, PATIENT) as one,
        serving(second, limits) as other,
    ):
        await other.kernel.run(Raise(name="a"))
        first._commits.submit(go_on.wait)
        try:
            yield one, other, go_on.set
        finally:
            go_on.set()


async def has_the_lock(store: object) -> None:
    assert isinstance(store, SqliteStore)
    while not (store._writer is not None and store._writer.in_transaction):
        await asyncio.sleep(0.001)


async def test_a_service_that_waits_for_the_lock_has_it_once_the_other_has_committed(
    sqlite_place: SqlitePlace,
) -> None:
    async with two(sqlite_place) as (one, other, go_on):
        holding = asyncio.create_task(one.kernel.run(Raise(name="a")))
        await has_the_lock(one.store)
        waiting = asyncio.create_task(other.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        go_on()
        assert [(await holding).count, (await waiting).count] == [2, 3]


async def test_a_service_that_waits_for_the_lock_pauses_between_tries_and_answers_others_meanwhile(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def counted(database: Database) -> None:
        asked.append(asyncio.get_running_loop().time())
        try_to_begin(database)

    monkeypatch.setattr(write_lock, "try_to_begin", counted)
    async with two(sqlite_place) as (one, other, go_on):
        holding = asyncio.create_task(one.kernel.run(Raise(name="a")))
        await has_the_lock(one.store)
        asked.clear()
        waiting = asyncio.create_task(other.kernel.run(Raise(name="a")))
        for _ in range(50):
            await asyncio.sleep(0.01)
            assert await other.counts("a") == [1]
        tries, seconds = len(asked), asked[-1] - asked[0]
        go_on()
        assert (await waiting).count + (await holding).count == 5
    assert tries >= 2
    assert tries < 10 + 1500 * seconds, "it keeps trying instead of pausing"


async def test_whoever_gives_up_is_told_that_the_store_is_busy_and_nothing_is_decided_later(
    sqlite_place: SqlitePlace,
) -> None:
    async with two(sqlite_place, KernelLimits(acquire_seconds=0.3)) as (one, other, go_on):
        holding = asyncio.create_task(one.kernel.run(Raise(name="a")))
        await has_the_lock(one.store)
        with pytest.raises(LockBusy):
            await other.kernel.run(Raise(name="a"))
        go_on()
        assert (await holding).count == 2
        await asyncio.sleep(0.1)
        assert await other.counts("a") == [2]


async def test_a_caller_that_leaves_while_its_command_waits_has_nothing_decided(
    sqlite_place: SqlitePlace,
) -> None:
    async with two(sqlite_place) as (one, other, go_on):
        holding = asyncio.create_task(one.kernel.run(Raise(name="a")))
        await has_the_lock(one.store)
        leaving = asyncio.create_task(other.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.25)
        leaving.cancel()
        await asyncio.sleep(0.25)
        go_on()
        assert (await holding).count == 2
        assert (await other.kernel.run(Raise(name="b"))).count == 1
        assert await other.counts("a") == [2]


def test_three_that_share_a_file_write_all_of_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    kernels = [LocalKernel(url) for _ in range(3)]
    failures: list[BaseException] = []

    def write(kernel: LocalKernel) -> None:
        try:
            for _ in range(40):
                kernel.run(IssueGrant(caller=kernel.caller, grant_id=new_id("gnt"), task="t"))
        except BaseException as error:  # noqa: BLE001 - told below, on the test's own thread
            failures.append(error)

    writers = [threading.Thread(target=write, args=(kernel,)) for kernel in kernels]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(HANG_SECONDS)
    for kernel in kernels:
        kernel.close()
    database = connect_durably(tmp_path / "a.db")
    written = database.execute("SELECT count(*) FROM grants").get
    database.close()
    assert (failures, written) == ([], 120)


def test_nothing_but_sqlites_own_files_and_the_note_of_the_newest_batch_is_beside_the_file(
    tmp_path: Path,
) -> None:
    kernels = [LocalKernel(f"sqlite:///{tmp_path}/a.db") for _ in range(2)]
    assert {found.name for found in tmp_path.iterdir()} <= {"a.db", "a.db-wal", "a.db-shm", "a.db-mark"}
    for kernel in kernels:
        kernel.close()


class Recorder:
    """Writes down what is asked of a connection."""

    def __init__(self, real: Any) -> None:
        self.asked: list[object] = []
        self._real = real

    def set_busy_timeout(self, milliseconds: int) -> None:
        self.asked.append(milliseconds)
        self._real.set_busy_timeout(milliseconds)

    def execute(self, statement: str) -> Any:
        self.asked.append(statement)
        return self._real.execute(statement)


def test_the_lock_is_asked_for_without_waiting_in_sqlite_and_reads_may_wait_again(tmp_path: Path) -> None:
    make_private(tmp_path / "a.db")
    holder = connect_durably(tmp_path / "a.db")
    try_to_begin(holder)
    other = Recorder(connect_durably(tmp_path / "a.db"))
    with pytest.raises(BUSY):
        try_to_begin(cast("Any", other))
    first, begin, last = other.asked
    assert (first, begin) == (0, "BEGIN IMMEDIATE")
    assert isinstance(last, int)
    assert last > 0


async def test_a_locked_file_ends_in_lock_busy_and_is_waited_for_within_the_budget(
    sqlite_place: SqlitePlace,
) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        busy, also_busy = await server.outcomes(Raise(name="a"), Raise(name="b"))
        assert isinstance(busy, LockBusy)
        assert isinstance(also_busy, LockBusy)
        waiting = asyncio.create_task(server.kernel.run(Raise(name="a"), acquire_seconds=10))
        await asyncio.sleep(0.3)
        other.execute("ROLLBACK")
        other.close()
        assert (await waiting).count == 1


async def test_a_locked_file_can_still_be_read(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        other = apsw.Connection(str(sqlite_place.path))
        other.execute("BEGIN IMMEDIATE")
        assert await server.counts("a") == [1]
        rows = await server.store.query(
            "identity.list_principals", {"tenant": TENANT, "after": "", "limit": 5}
        )
        assert len(rows) == 1
        await server.store.ping(1.0)
        other.close()
