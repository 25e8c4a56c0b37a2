"""The embedded store without an event loop keeps every promise of the kernel's, and hands over what it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest

from interlock.grants.claiming import ClaimGrant
from interlock.grants.model import GRANTS, Grant
from interlock.grants.rules import IssueGrant
from interlock.kernel.batch import Batch
from interlock.kernel.ids import new_id
from interlock.kernel.pending import Pending
from interlock.kernel.refusal import LockBusy, OutcomeUnknown
from interlock.kernel.storage import CommitUnknown, StoreDown, Transaction
from interlock.runtime.local_kernel import LocalKernel
from interlock.store.migrations import migrations, newest
from interlock.store.sqlite.driver import connect, connect_durably
from interlock.store.sqlite_blocking import BlockingSqlite
from tests.conformance.test_sqlite_file import FailingCommit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the current schema."""
    path = tmp_path / "interlock.db"
    LocalKernel(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def direct(path: Path) -> Iterator[LocalKernel]:
    store = LocalKernel(f"sqlite:///{path}")
    yield store
    store.close()


def issue(store: LocalKernel) -> Grant:
    return store.run(IssueGrant(caller=store.caller, grant_id=new_id("gnt"), task="t", expires_seconds=60))


def count(path: Path) -> int:
    database = connect(str(path))
    try:
        return database.execute(f"SELECT count(*) FROM {GRANTS.table}").get
    finally:
        database.close()


def test_an_older_file_is_brought_to_the_current_schema_before_anything_is_decided(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    database = connect_durably(path)
    for migration in migrations("sqlite")[:-1]:
        database.execute(migration.sql)
        database.execute(f"PRAGMA user_version = {migration.number}")
    database.close()

    store = LocalKernel(f"sqlite:///{path}")
    issue(store)
    store.close()

    assert count(path) == 1
    file = BlockingSqlite(path)
    assert file.is_current()
    file.close()


def test_the_newest_schema_is_known_without_reading_it() -> None:
    for dialect in ("sqlite", "postgres"):
        assert newest(dialect) == migrations(dialect)[-1].number


def test_a_commit_that_happened_without_an_answer_is_not_made_twice(
    direct: LocalKernel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = BlockingSqlite._commit

    def unheard(file: BlockingSqlite) -> None:
        commit(file)
        monkeypatch.setattr(BlockingSqlite, "_commit", commit)
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(BlockingSqlite, "_commit", unheard)

    assert issue(direct).task == "t"
    assert count(path) == 1


def test_a_commit_that_never_happened_is_decided_again(
    direct: LocalKernel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = BlockingSqlite._commit

    def lost(file: BlockingSqlite) -> None:
        file._database.execute("ROLLBACK")
        monkeypatch.setattr(BlockingSqlite, "_commit", commit)
        raise CommitUnknown("the request was lost")

    monkeypatch.setattr(BlockingSqlite, "_commit", lost)

    assert issue(direct).task == "t"
    assert count(path) == 1


@pytest.mark.parametrize(
    ("error", "told"), [(apsw.IOError("no answer"), CommitUnknown), (apsw.FullError("no room"), StoreDown)]
)
def test_a_commit_that_fails_is_unknown_unless_there_was_no_room_for_it(
    path: Path, error: Exception, told: type[Exception]
) -> None:
    file = BlockingSqlite(path)
    file._begin(1.0)
    file._database = cast("Any", FailingCommit(file._database, error, happened=False))
    with pytest.raises(told):
        file._commit()
    file.close()


def test_a_commit_that_nobody_can_settle_is_unknown(
    direct: LocalKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(file: BlockingSqlite) -> None:
        raise CommitUnknown("the disk is silent")

    monkeypatch.setattr(BlockingSqlite, "_commit", lost)

    with pytest.raises(OutcomeUnknown, match="look at the record"):
        issue(direct)


def test_a_commit_that_the_file_may_have_forgotten_is_unknown(
    direct: LocalKernel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, now = BlockingSqlite._commit, time.time

    def unheard(file: BlockingSqlite) -> None:
        commit(file)
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(BlockingSqlite, "_commit", unheard)

    with pytest.raises(OutcomeUnknown, match="slept"):
        issue(direct)
    assert count(path) == 1


def test_trouble_before_the_commit_is_left_to_the_kernel(
    direct: LocalKernel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(file: BlockingSqlite, *_: object) -> None:
        raise StoreDown("the file does not answer")

    monkeypatch.setattr(BlockingSqlite, "_begin", down)

    assert issue(direct).task == "t"
    assert count(path) == 1


def test_a_file_held_past_the_budget_is_busy_and_nothing_was_written(path: Path) -> None:
    holder = connect_durably(path)
    store = LocalKernel(f"sqlite:///{path}", acquire_seconds=0.1)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LockBusy):
        issue(store)
    holder.execute("ROLLBACK")
    holder.close()

    assert issue(store).task == "t"
    assert count(path) == 1
    store.close()


def test_one_commit_carries_the_claims_of_many(direct: LocalKernel, path: Path) -> None:
    for _ in range(20):
        issue(direct)
    members = [
        Pending(
            ClaimGrant(caller=direct.caller, task="t", args=msgspec.Raw(b"{}"), execution_id=f"x{number}"),
            cast("Any", None),
            now=0.0,
            budget=1.0,
            weight=0,
        )
        for number in range(12)
    ]
    batch = Batch("batch_1", members, new_id)
    file = BlockingSqlite(path)
    file.transact(Transaction(batch.id, batch.reads(), batch.more, batch.decide, 1.0))
    file.close()

    assert batch.early == []
    assert len({outcome.grant_id for outcome in batch.outcomes.values()}) == 12
