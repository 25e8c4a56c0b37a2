"""The kernel as `interlock exec` has it, without a server: it keeps every promise that a server keeps."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest

from interlock.kernel.ids import new_id
from interlock.kernel.refusal import LockBusy, OutcomeUnknown
from interlock.kernel.storage import NotAStore
from interlock.rooms.grants.claims import ClaimGrant
from interlock.rooms.grants.model import GRANTS, Grant, GrantUse
from interlock.rooms.grants.rules import IssueGrant
from interlock.service.local_kernel import LocalKernel
from interlock.store.catalogue import migrations, newest
from interlock.store.sqlite import SqliteStore
from interlock.store.sqlite.driver import connect, connect_durably, schema_of
from tests.harness.store_places import open_files_at
from tests.store.sqlite.test_file import FailingCommit

HANG_SECONDS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "interlock.db"


@pytest.fixture
def local(path: Path) -> Iterator[LocalKernel]:
    kernel = LocalKernel(f"sqlite:///{path}")
    yield kernel
    kernel.close()


def issue(kernel: LocalKernel) -> Grant:
    return kernel.run(IssueGrant(caller=kernel.caller, grant_id=new_id("gnt"), task="t", expires_seconds=60))


def count(path: Path) -> int:
    database = connect(str(path))
    try:
        return database.execute(f"SELECT count(*) FROM {GRANTS.table}").get
    finally:
        database.close()


def failing(kernel: LocalKernel, *, happened: bool, times: int = 1) -> None:
    """Have the next COMMITs fail, after they happened or before."""
    store = cast("SqliteStore", kernel._store)
    error = OSError("the disk did not answer")
    store._writer = cast("Any", FailingCommit(store._writer, error, happened=happened, times=times))


def test_an_older_file_is_brought_to_the_current_schema_before_anything_is_decided(path: Path) -> None:
    database = connect(str(path))
    for migration in migrations("sqlite")[:-1]:
        database.execute(migration.sql)
        database.execute(f"PRAGMA user_version = {migration.number}")
    database.close()

    kernel = LocalKernel(f"sqlite:///{path}")
    issue(kernel)
    kernel.close()

    assert count(path) == 1
    database = connect_durably(path)
    assert schema_of(database) == newest("sqlite")
    database.close()


def test_the_newest_schema_is_known_without_reading_it() -> None:
    for dialect in ("sqlite", "postgres"):
        assert newest(dialect) == migrations(dialect)[-1].number


@pytest.mark.parametrize("happened", [True, False])
def test_a_commit_without_an_answer_is_decided_once(local: LocalKernel, path: Path, happened: bool) -> None:
    failing(local, happened=happened)
    assert issue(local).task == "t"
    assert count(path) == 1


def test_a_commit_that_nobody_can_settle_is_unknown(local: LocalKernel) -> None:
    failing(local, happened=False, times=2)
    with pytest.raises(OutcomeUnknown):
        issue(local)


def test_a_commit_that_the_file_may_have_forgotten_is_unknown(
    local: LocalKernel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    failing(local, happened=True)
    later = iter([0.0])
    monkeypatch.setattr(time, "time", lambda: now() + next(later, 3600.0))
    with pytest.raises(OutcomeUnknown, match="slept"):
        issue(local)
    assert count(path) == 1


def test_a_file_held_past_the_budget_is_busy_and_nothing_was_written(path: Path) -> None:
    kernel = LocalKernel(f"sqlite:///{path}", acquire_seconds=0.1)
    holder = connect_durably(path)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LockBusy):
        issue(kernel)
    holder.execute("ROLLBACK")
    holder.close()

    assert issue(kernel).task == "t"
    assert count(path) == 1
    kernel.close()


def test_a_file_that_is_no_database_is_refused_and_leaves_nothing_behind(path: Path) -> None:
    path.write_text("these are notes, and long enough to be seen as such " * 100)
    with pytest.raises(NotAStore, match=r"interlock\.db"):
        LocalKernel(f"sqlite:///{path}")
    assert not open_files_at(path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("interlock", "sqlite"))]


def test_threads_that_claim_at_once_win_different_grants(local: LocalKernel) -> None:
    for _ in range(20):
        issue(local)
    won: list[str] = []

    def claim(number: int) -> None:
        found = local.run(
            ClaimGrant(caller=local.caller, task="t", args=msgspec.Raw(b"{}"), execution_id=f"x{number}")
        )
        assert isinstance(found, GrantUse)
        won.append(found.grant_id)

    in_threads([lambda number=number: claim(number) for number in range(12)])
    assert len(set(won)) == 12


def test_an_interrupt_leaves_neither_a_lock_nor_a_broken_kernel(local: LocalKernel, path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    press = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    press.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            issue(local)
    finally:
        press.join()
        signal.signal(signal.SIGINT, before)
    threading.Event().wait(0.3)  # longer than one turn at the lock
    holder.execute("ROLLBACK")
    assert issue(local).task == "t"
    assert count(path) == 1, "what was interrupted as it waited is not decided later"
    holder.execute("BEGIN IMMEDIATE; ROLLBACK")
    holder.close()


def in_threads(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
