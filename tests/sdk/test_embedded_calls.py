"""Calls of an embedded store by threads, beside other processes, forks, interrupts and finalizers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from interlock import NO_RETRIES, Forbidden, Interlock, InterlockError, Unavailable
from interlock.api import jobs as job_routes
from interlock.sdk import embedded
from interlock.store.sqlite import SqliteStore
from interlock.store.sqlite.driver import connect
from tests.harness.soak import dose
from tests.harness.store_places import open_files_at
from tests.sdk.approval_team import ApprovalTeam

ALLOW = {"version": "v1", "default": "allow", "rules": []}
HASH = "sha256:" + "0" * 64
CALLS = 300


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """As in a program that somebody started; what runs in the background may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_threads_together_share_batches(il: Interlock, path: Path) -> None:
    together = threading.Barrier(8)

    def submit() -> None:
        together.wait()
        for n in range(20):
            il.submit("a.b", {"n": n})

    in_threads([submit] * 8)
    database = connect(str(path))
    batches: int = database.execute("SELECT count(*) FROM batches").get
    database.close()
    assert batches < 120


def test_a_file_that_somebody_else_holds_is_busy(il: Interlock, path: Path) -> None:
    hasty = Interlock(store=il.store, retry=NO_RETRIES)
    hasty.submit("a.b", {})
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InterlockError) as busy:
        hasty.submit("a.b", {})
    other.close()
    assert busy.value.code == "lock_busy"
    assert hasty.submit("a.b", {}).id
    hasty.close()


def test_whoever_waits_in_this_process_is_woken(team: ApprovalTeam, monkeypatch: pytest.MonkeyPatch) -> None:
    job = team.il.submit("pay.x", {})
    monkeypatch.setattr(SqliteStore, "_notice_others", lambda *_: None)
    monkeypatch.setattr(job_routes, "_POLL_SECONDS", 60.0)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(team.il.wait(job.id, timeout=50).state))
    waiting.start()
    threading.Event().wait(0.5)
    team.il.cancel_job(job.id)
    waiting.join(10)
    assert found == ["CANCELLED"]


def test_a_withdrawn_key_is_not_remembered(il: Interlock) -> None:
    job = il.submit("a.b", {})
    held = il.claim_job(job.id)
    il.begin_effect("pay:1", request_hash=HASH, permit=held.permit)
    il.rotate_signing_keys(revoke=True)
    with pytest.raises(Forbidden):
        il.begin_effect("pay:2", request_hash=HASH, permit=held.permit)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nothing_is_open_while_a_process_forks(il: Interlock, path: Path) -> None:
    il.submit("a.b", {"who": "parent"})
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(1 if open_files_at(path) else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    il.submit("a.b", {"who": "parent"})
    assert len(il.jobs().items) == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_a_call_that_is_under_way(
    il: Interlock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = SqliteStore._commit
    is_committing = threading.Event()

    async def slow(store: SqliteStore, *args: Any) -> None:
        is_committing.set()
        await asyncio.sleep(0.5)
        await commit(store, *args)

    il.submit("a.b", {})
    monkeypatch.setattr(SqliteStore, "_commit", slow)
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


def test_nothing_is_open_after_the_last_client_has_left(path: Path) -> None:
    il = Interlock(store=f"sqlite:///{path}")
    il.apply_policy(ALLOW)
    il.submit("a.b", {})
    assert open_files_at(path)
    il.close()
    assert not open_files_at(path)


class CtrlC:
    """Pressed once, after so long, unless it is over by then."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._press)

    def start(self) -> None:
        self._thread.start()

    def over(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _press(self) -> None:
        main = threading.main_thread().ident
        if not self._is_over.wait(self._seconds) and main is not None:
            signal.pthread_kill(main, signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
def test_calls_that_are_interrupted_at_any_moment_leave_nothing_behind(il: Interlock, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.set_busy_timeout(1000)  # what was under way ends, and the service sweeps now and then
    made: set[str] = set()
    interrupted = 0
    for n in range(dose(CALLS)):
        press = CtrlC(random.uniform(0.0, 0.002))
        try:
            press.start()
            made.add(il.submit("a.b", {"n": n}).id)
            press.over()
        except KeyboardInterrupt:
            interrupted += 1
            with contextlib.suppress(KeyboardInterrupt):
                press.over()
        other.execute("BEGIN IMMEDIATE; ROLLBACK")
    assert interrupted > 0
    kept = {row[0] for row in other.execute("SELECT id FROM jobs").fetchall()}
    other.close()
    assert made <= kept
    assert len(open_files_at(path)) < 30, "files are left open"
    assert il.submit("a.b", {"n": -1}).id


class CallsAsItGoes:
    """Garbage that makes a call once it is found."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def __del__(self) -> None:
        self._call()


def test_a_finalizer_may_call_in_the_middle_of_a_call(il: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = embedded._Host.submit
    seen: list[str] = []

    def interrupted(host: Any, request: Any) -> Any:
        monkeypatch.setattr(embedded._Host, "submit", submit)
        submitted = submit(host, request)
        CallsAsItGoes(lambda: seen.append(il.submit("a.b", {"who": "finalizer"}).id))
        return submitted

    monkeypatch.setattr(embedded._Host, "submit", interrupted)
    seen.append(il.submit("a.b", {"who": "program"}).id)
    assert len(set(seen)) == 2
    assert {job.payload["who"] for job in il.jobs().items} == {"program", "finalizer"}


def test_a_finalizer_on_the_services_own_thread_is_told_so_and_blocks_nobody(il: Interlock) -> None:
    il.submit("a.b", {})
    told: list[BaseException] = []

    def call() -> None:
        try:
            il.submit("a.b", {})
        except BaseException as error:  # noqa: BLE001 - looked at below, on the test's own thread
            told.append(error)

    async def find_garbage() -> None:
        CallsAsItGoes(call)

    (host,) = embedded._registry.hosts.values()
    cast("Any", host)._loop.run(find_garbage(), 60)
    assert [type(error) for error in told] == [Unavailable]
    assert len(il.jobs().items) == 1


def in_threads(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
