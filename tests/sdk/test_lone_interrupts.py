"""A lone call that something comes between: Ctrl-C, a finalizer, or a handler of signals that might."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock import NO_RETRIES, Interlock
from interlock.runtime import lone_calls
from interlock.store.sqlite.wal_checkpoint import Checkpoints
from interlock.store.sqlite_blocking import BlockingSqlite
from tests.conformance.places import open_files_at
from tests.harness.soak import dose
from tests.sdk.watching import ALLOW, Watched

CALLS = 300


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """As in a program that somebody started; what runs in the background may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_calls_that_are_interrupted_at_any_moment_leave_nothing_behind(il: Interlock, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.set_busy_timeout(1000)  # the service sweeps now and then
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
    # One that comes between opening the small file beside the database and noting it leaves that open.
    opened = [name for name in open_files_at(path) if not name.endswith("-turn")]
    assert len(opened) < 30, "files are left open"
    assert il.submit("a.b", {"n": -1}).id


def test_a_program_with_handlers_of_signals_is_answered_on_the_loop(il: Interlock, watched: Watched) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        il.submit("a.b", {})
        assert watched.alone == []
        threading.Event().wait(0.2)
        elsewhere = threading.Thread(target=lambda: il.submit("a.b", {}))
        elsewhere.start()
        elsewhere.join()
        assert watched.alone == ["submit_job"], "no handler ever runs on another thread"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_finalizer_may_call_in_the_middle_of_a_call(il: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    il = Interlock(store=il.store, retry=NO_RETRIES)
    commit = BlockingSqlite._commit
    seen: list[str] = []

    def interrupted(file: BlockingSqlite) -> None:
        monkeypatch.setattr(BlockingSqlite, "_commit", commit)
        seen.append(il.submit("a.b", {"who": "finalizer"}).id)
        seen.append(il.acquire_lease("ticket/9").lease_id)
        commit(file)

    il.submit("a.b", {"who": "first"})
    monkeypatch.setattr(BlockingSqlite, "_commit", interrupted)
    seen.append(il.submit("a.b", {"who": "program"}).id)
    assert len(set(seen)) == 3
    assert {job.payload["who"] for job in il.jobs().items} == {"first", "program", "finalizer"}
    assert il.submit("a.b", {"who": "last"}).id
    il.close()


@pytest.mark.parametrize("where", ["_carry", "_begin", "_commit"])
def test_an_interrupted_call_leaves_nothing_behind(
    il: Interlock, path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    il.submit("a.b", {"n": 1})
    whole = getattr(BlockingSqlite, where)

    def interrupted(file: BlockingSqlite, *args: Any, **options: Any) -> Any:
        if where == "_begin":
            whole(file, *args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockingSqlite, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        il.submit("a.b", {"n": 2})
    monkeypatch.setattr(BlockingSqlite, where, whole)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE; ROLLBACK")
    other.close()
    il.submit("a.b", {"n": 3})
    assert {job.payload["n"] for job in il.jobs().items} == {1, 3}
    assert watched.alone == ["submit_job"] * 2


def test_a_finalizer_may_close_the_client_in_the_middle_of_a_call(
    il: Interlock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = BlockingSqlite._commit
    client = Interlock(store=f"sqlite:///{path.parent}/other.db")
    client.policy_put(ALLOW)
    client.submit("a.b", {})

    def interrupted(file: BlockingSqlite) -> None:
        monkeypatch.setattr(BlockingSqlite, "_commit", commit)
        monkeypatch.setattr(lone_calls, "_CLOSE_SECONDS_MAX", 60.0)
        client.close()
        commit(file)

    monkeypatch.setattr(BlockingSqlite, "_commit", interrupted)
    client.submit("a.b", {})  # which opens it again
    assert len(client.jobs().items) == 2
    client.close()
    assert not open_files_at(path.parent / "other.db")


def test_a_finalizer_may_call_as_a_commit_ends(
    path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = Checkpoints._committed
    seen: list[str] = []

    def interrupted(self: Checkpoints, *args: Any) -> int:
        if len(seen) == 1 and threading.current_thread() is threading.main_thread():
            seen.append(il.submit("a.b", {}).id)
        return committed(self, *args)

    monkeypatch.setattr(Checkpoints, "_committed", interrupted)
    with Interlock(store=f"sqlite:///{path}", retry=NO_RETRIES) as il:
        il.policy_put(ALLOW)
        il.submit("a.b", {})
        seen.append("now")
        seen.append(il.submit("a.b", {}).id)
        assert len(seen) == len(set(seen)) == 3
        assert len(il.jobs().items) == 3
        assert il.submit("a.b", {}).id
    assert not open_files_at(path)
