"""The hint that the SQLite file is free: who is woken by it, and who can do without."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.runtime.local_kernel import LocalKernel
from interlock.store import beside
from interlock.store.beside import Beside
from interlock.store.sqlite.driver import BUSY, connect_durably, try_to_begin
from interlock.store.sqlite.write_lock import WriterLock
from interlock.store.turns import Turns
from tests.conformance.places import open_files_at

PATIENCE = 30  # a hang guard
FOR_EVER = 10 * PATIENCE


def asleep(work: Callable[[], None]) -> threading.Thread:
    sleeper = threading.Thread(target=work, daemon=True)
    sleeper.start()
    return sleeper


def test_whoever_is_done_wakes_a_sleeper(tmp_path: Path) -> None:
    mine, yours = Turns(Beside(tmp_path / "a.db")), Turns(Beside(tmp_path / "a.db"))
    seen = mine.seen()
    sleeper = asleep(lambda: mine.wait(seen, FOR_EVER))
    while sleeper.is_alive() and not yours.pass_on():
        pass
    sleeper.join(PATIENCE)
    assert not sleeper.is_alive()


def test_whoever_was_done_since_the_look_ends_the_sleep_before_it_begins(tmp_path: Path) -> None:
    mine, yours = Turns(Beside(tmp_path / "a.db")), Turns(Beside(tmp_path / "a.db"))
    mine.wait(mine.seen(), 0.001)
    seen = mine.seen()
    assert yours.pass_on() is False  # nobody sleeps at this moment
    sleeper = asleep(lambda: mine.wait(seen, FOR_EVER))
    sleeper.join(PATIENCE)
    assert not sleeper.is_alive()


def test_a_sleeper_whom_nobody_wakes_wakes_by_itself(tmp_path: Path) -> None:
    mine = Turns(Beside(tmp_path / "a.db"))
    sleeper = asleep(lambda: mine.wait(mine.seen(), 0.01))
    sleeper.join(PATIENCE)
    assert not sleeper.is_alive()


def test_a_process_that_meets_nobody_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    for _ in range(2):
        LocalKernel(f"sqlite:///{path}").close()
    assert {found.name for found in tmp_path.iterdir()} <= {"a.db", "a.db-wal", "a.db-shm"}


def test_where_the_file_cannot_be_made_one_sleeps_and_looks(tmp_path: Path) -> None:
    mine = Turns(Beside(tmp_path / "no such folder" / "a.db"))
    assert mine.seen() is None
    mine.wait(None, 0.001)
    assert mine.pass_on() is False


def test_a_full_disk_has_no_hint_instead_of_a_hole_that_ends_whoever_looks_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int, _offset: int, _count: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    mine = Turns(Beside(tmp_path / "a.db"))
    assert mine.seen() is None
    monkeypatch.undo()
    assert mine.seen() is not None
    assert (tmp_path / "a.db-turn").stat().st_size > 0


def test_where_there_is_no_futex_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "IS_LINUX", False)
    mine = Turns(Beside(tmp_path / "a.db"))
    assert (mine.seen(), mine.pass_on()) == (None, None)


@pytest.mark.parametrize("has_futex", [True, False])
def test_the_lock_changes_hands_with_the_hint_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_futex: bool
) -> None:
    monkeypatch.setattr(beside, "IS_LINUX", has_futex)
    url = f"sqlite:///{tmp_path}/a.db"
    LocalKernel(url).close()
    stores = [LocalKernel(url) for _ in range(3)]
    failures: list[BaseException] = []

    def write(store: LocalKernel) -> None:
        from interlock.grants.rules import IssueGrant
        from interlock.kernel.ids import new_id

        try:
            for _ in range(40):
                store.run(IssueGrant(caller=store.caller, grant_id=new_id("gnt"), task="t"))
        except BaseException as error:  # noqa: BLE001 - told below, on the test's own thread
            failures.append(error)

    writers = [asleep(lambda store=store: write(store)) for store in stores]
    for writer in writers:
        writer.join(PATIENCE)
    database = connect_durably(tmp_path / "a.db")
    written = database.execute("SELECT count(*) FROM grants").get
    database.close()
    for store in stores:
        store.close()
    assert (failures, written) == ([], 120)


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
    holder = connect_durably(tmp_path / "a.db")
    try_to_begin(holder)
    other = Recorder(connect_durably(tmp_path / "a.db"))
    with pytest.raises(BUSY):
        try_to_begin(cast("Any", other))
    first, begin, last = other.asked
    assert (first, begin) == (0, "BEGIN IMMEDIATE")
    assert isinstance(last, int)
    assert last > 0


def test_the_hint_is_looked_at_before_the_lock_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is done between the two then ends the rest before it begins."""
    order: list[str] = []
    monkeypatch.setattr(Turns, "seen", lambda _: order.append("look"))
    monkeypatch.setattr(WriterLock, "_has_begun", lambda _: order.append("ask"))
    database = connect_durably(tmp_path / "interlock.db")
    tries = WriterLock(database, tmp_path / "interlock.db").tries(60.0)
    next(tries)
    next(tries)
    assert order == ["ask", "look", "ask", "look", "ask"]
    database.close()


def test_the_small_file_is_closed_also_if_somebody_still_has_a_word_of_it(tmp_path: Path) -> None:
    small = Beside(tmp_path / "interlock.db")
    small.open(make=True)
    word = small.futex(0)
    small.close()
    assert word.value == 0
    del word
    assert not open_files_at(tmp_path)
    assert small.open(make=True) is None, "what is closed stays so"
