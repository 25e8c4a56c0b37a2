"""A thread that is alone with an embedded store: its calls are decided where it stands, and nobody can tell."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from interlock import NO_RETRIES, Forbidden, Interlock, InterlockError
from interlock.api import jobs as job_routes
from interlock.api.assembly import OPERATIONS
from interlock.jobs.rules import SubmitJob
from interlock.kernel.storage import StoreDown, WriteConflict
from interlock.store.sqlite import SqliteStore
from interlock.store.sqlite_blocking import BlockingSqlite
from tests.conformance.places import open_files_at
from tests.sdk.house import House
from tests.sdk.story import HASH, Story
from tests.sdk.watching import ALLOW, Watched

LOOPLESS = {operation.id for operation in OPERATIONS if operation.loopless}


def test_whatever_is_answered_alone_is_answered_as_on_the_loop(tmp_path: Path, watched: Watched) -> None:
    told: list[list[str]] = []
    for name in ("alone", "loop"):
        (tmp_path / name).mkdir()
        house = House(tmp_path / name)
        watched.is_shut = name == "loop"
        told.append(Story(house).tell())
        house.close()
    assert told[0] == told[1]
    assert len(told[0]) > 40
    assert set(watched.alone) == LOOPLESS


def test_a_lone_thread_decides_where_it_stands(il: Interlock, watched: Watched) -> None:
    for n in range(10):
        il.submit("a.b", {"n": n})
    assert watched.alone == ["submit_job"] * 10
    assert SubmitJob.__name__ not in watched.on_the_loop
    assert len(il.jobs().items) == 10


def test_threads_together_share_batches(il: Interlock, watched: Watched) -> None:
    together = threading.Barrier(8)

    def submit() -> None:
        together.wait()
        for n in range(20):
            il.submit("a.b", {"n": n})

    in_threads([submit] * 8)
    assert len(watched.alone) < 16
    assert watched.on_the_loop.count(SubmitJob.__name__) > 144


def test_a_file_that_somebody_else_holds_is_busy(il: Interlock, path: Path, watched: Watched) -> None:
    hasty = Interlock(store=il.store, retry=NO_RETRIES)
    hasty.submit("a.b", {})
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InterlockError) as busy:
        hasty.submit("a.b", {})
    other.close()
    assert busy.value.code == "lock_busy"
    assert watched.alone == ["submit_job"] * 2
    assert hasty.submit("a.b", {}).id
    hasty.close()


@pytest.mark.parametrize("trouble", [WriteConflict("first"), StoreDown("gone"), RuntimeError("poison")])
def test_what_does_not_go_well_is_left_to_the_kernel(
    il: Interlock, watched: Watched, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def fail(*_: object) -> None:
        raise trouble

    monkeypatch.setattr(BlockingSqlite, "transact", fail)
    monkeypatch.setattr(BlockingSqlite, "get", fail)
    il.submit("a.b", {"n": 1})
    assert watched.on_the_loop.count(SubmitJob.__name__) == 1
    assert len(il.jobs().items) == 1


def test_a_file_that_does_not_open_here_is_left_to_the_kernel(
    il: Interlock, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BlockingSqlite, "is_current", lambda _: False)
    lease = il.acquire_lease("ticket/9")
    il.release_lease(lease.lease_id, lease.fence)
    assert watched.alone == ["release_lease"]
    assert "ReleaseLease" in watched.on_the_loop


def test_whoever_waits_in_this_process_is_woken(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job = house.il.submit("pay.x", {})
    monkeypatch.setattr(SqliteStore, "_notice_others", lambda *_: None)
    monkeypatch.setattr(job_routes, "_POLL_SECONDS", 60.0)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(house.il.wait(job.id, timeout=50).state))
    waiting.start()
    threading.Event().wait(0.5)  # no longer company
    house.il.cancel(job.id)
    waiting.join(10)
    assert found == ["CANCELLED"]


def test_a_withdrawn_key_is_not_remembered(il: Interlock, watched: Watched) -> None:
    job = il.submit("a.b", {})
    held = il.claim_job(job.id)
    il.begin_effect("pay:1", request_hash=HASH, permit=held.permit)
    il.rotate_permit_keys(revoke=True)
    with pytest.raises(Forbidden):
        il.begin_effect("pay:2", request_hash=HASH, permit=held.permit)
    assert watched.alone == ["submit_job", "begin_effect", "begin_effect"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nothing_is_open_while_a_process_forks(il: Interlock, path: Path, watched: Watched) -> None:
    il.submit("a.b", {"who": "parent"})
    assert watched.alone
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(1 if open_files_at(path) else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    il.submit("a.b", {"who": "parent"})
    assert watched.alone == ["submit_job"] * 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_a_call_that_is_under_way(
    il: Interlock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = BlockingSqlite._commit
    is_committing, may_commit = threading.Event(), threading.Event()

    def slow(file: BlockingSqlite) -> None:
        is_committing.set()
        may_commit.wait(0.5)
        commit(file)

    il.submit("a.b", {})
    monkeypatch.setattr(BlockingSqlite, "_commit", slow)
    threading.Event().wait(0.2)  # whoever calls now is alone
    calling = threading.Thread(target=lambda: il.submit("a.b", {}))
    calling.start()
    is_committing.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(1 if open_files_at(path) else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    calling.join()
    assert len(il.jobs().items) == 2


def test_nothing_is_open_after_the_last_client_has_left(path: Path, watched: Watched) -> None:
    il = Interlock(store=f"sqlite:///{path}")
    il.policy_put(ALLOW)
    il.submit("a.b", {})
    assert watched.alone
    assert open_files_at(path)
    il.close()
    assert not open_files_at(path)


def test_whoever_cannot_wait_is_answered_on_the_loop(il: Interlock, watched: Watched) -> None:
    hasty = Interlock(store=il.store, timeout=1.0)
    hasty.submit("a.b", {})
    hasty.close()
    assert watched.alone == []


def test_keys_are_checked_on_the_loop(house: House, watched: Watched) -> None:
    job = house.il.submit("pay.x", {})
    house.ann.approve(job.id)
    assert watched.alone == ["submit_job"]


def in_threads(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
