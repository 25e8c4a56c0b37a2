"""COMMIT on its thread: the loop waits for a quick one and lives on beside a slow one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

import pytest

from interlock.store.sqlite import commit_thread as aside
from interlock.store.sqlite.commit_thread import Aside

HANG_SECONDS = 20


@pytest.fixture
async def commits() -> AsyncGenerator[Aside]:
    made = Aside()
    yield made
    await made.close()


async def test_nothing_else_runs_before_a_quick_commit_is_done(
    commits: Aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "_PATIENCE_SECONDS", HANG_SECONDS)
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "the rest")
    await commits.commit(lambda: order.append("commit"))
    order.append("answered")
    await asyncio.sleep(0)
    assert order == ["commit", "answered", "the rest"]


async def test_a_commit_that_needs_the_loop_to_go_on_is_not_waited_for(commits: Aside) -> None:
    go_on = threading.Event()
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    async with asyncio.timeout(HANG_SECONDS):
        await commits.commit(lambda: go_on.wait(HANG_SECONDS))
    assert go_on.is_set()


async def test_the_loop_stops_waiting_while_most_commits_are_slow(
    commits: Aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    result = Future[None].result

    def counted(done: Future[None], timeout: float | None = None) -> None:
        if timeout is not None:
            waited.append(timeout)
        return result(done, timeout)

    monkeypatch.setattr(Future, "result", counted)
    pause = threading.Event()
    for _ in range(20):
        await commits.commit(lambda: pause.wait(0.01))
    before = len(waited)
    assert 0 < before < 10
    await commits.commit(lambda: pause.wait(0.01))
    assert len(waited) == before
    for _ in range(40):
        await commits.commit(lambda: None)
    assert len(waited) > before, "quick again, and it never noticed"


@pytest.mark.parametrize("patience", [0.0, HANG_SECONDS])
async def test_what_a_commit_raises_comes_out(
    commits: Aside, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr(aside, "_PATIENCE_SECONDS", patience)
    with pytest.raises(OSError, match="no disk"):
        await commits.commit(_failing(OSError("no disk")))
    await commits.commit(lambda: None)


async def test_a_caller_that_is_cancelled_leaves_only_once_the_connection_is_free(
    commits: Aside,
) -> None:
    go_on = threading.Event()
    over: list[bool] = []

    def commit() -> None:
        go_on.wait(HANG_SECONDS)
        over.append(True)

    task = asyncio.create_task(commits.commit(commit))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert over


def _failing(error: Exception) -> Callable[[], object]:
    def commit() -> object:
        raise error

    return commit
