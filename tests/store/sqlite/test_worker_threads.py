"""COMMIT on its thread: the event loop lives on beside it, and no connection is used by two at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from interlock.store.sqlite.threads import WorkerThreads

HANG_SECONDS = 20


@pytest.fixture
def commits() -> Iterator[WorkerThreads]:
    made = WorkerThreads("test-commit")
    yield made
    made.stop()


async def test_the_loop_goes_on_while_a_commit_waits(commits: WorkerThreads) -> None:
    go_on = threading.Event()
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    async with asyncio.timeout(HANG_SECONDS):
        await commits.run(lambda: go_on.wait(HANG_SECONDS))
    assert go_on.is_set()


async def test_what_a_commit_raises_comes_out_and_the_next_one_goes_on(commits: WorkerThreads) -> None:
    with pytest.raises(OSError, match="no disk"):
        await commits.run(_failing(OSError("no disk")))
    assert await commits.run(lambda: 7) == 7


async def test_a_caller_that_is_cancelled_leaves_only_once_the_connection_is_free(
    commits: WorkerThreads,
) -> None:
    go_on = threading.Event()
    over: list[bool] = []

    def commit() -> None:
        go_on.wait(HANG_SECONDS)
        over.append(True)

    task = asyncio.create_task(commits.run(commit))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert over


async def test_one_thread_takes_work_in_its_order(commits: WorkerThreads) -> None:
    order: list[int] = []
    await asyncio.gather(*(commits.run(lambda n=n: order.append(n)) for n in range(50)))
    assert order == list(range(50))


async def test_threads_that_were_stopped_start_again_with_the_next_work(commits: WorkerThreads) -> None:
    assert await commits.run(lambda: 1) == 1
    commits.stop()
    assert "test-commit" not in {thread.name for thread in threading.enumerate()}
    assert await commits.run(lambda: 2) == 2


def test_work_is_taken_also_after_the_main_thread_is_through() -> None:
    program = """
import threading, time
from interlock.store.sqlite.threads import WorkerThreads
def late():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print(WorkerThreads("late").submit(lambda: "done").result(20))
threading.Thread(target=late).start()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def _failing(error: Exception) -> Callable[[], object]:
    def commit() -> object:
        raise error

    return commit
