"""The client that a worker is given, and what is left of a worker that is cancelled."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock import AsyncInterlock, AsyncWork, Interlock, Retry, Work, Worker
from interlock.sdk.flow import Request, Response
from interlock.sdk.retry import Backoff, RetryPolicy
from tests.sdk.scripted_server import serving
from tests.sdk.virtual_time import problem, success

ALLOW = "version: v1\ndefault: allow\n"
HANG_SECONDS = 60


def echo(work: Work) -> Any:
    return work.payload


def test_a_worker_of_a_client_in_memory_works_for_that_client() -> None:
    with Interlock(store="memory:") as il:
        il.apply_policy(ALLOW)
        job = il.submit("a", {"n": 1})
        worker = Worker(il, jobs_max=1)
        worker.handler("a")(echo)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        assert il.wait(job.id, HANG_SECONDS).result == {"n": 1}
        thread.join(HANG_SECONDS)
        assert il.get_job(job.id).state == "SUCCEEDED"


async def test_a_worker_does_not_close_the_client_that_it_was_given() -> None:
    async with AsyncInterlock(store="memory:") as il:
        await il.apply_policy(ALLOW)
        job = await il.submit("a", {"n": 1})
        worker = Worker(il, jobs_max=1)
        worker.handler("a")(echo)
        async with asyncio.timeout(HANG_SECONDS):
            await worker.serve()
        assert (await il.get_job(job.id)).state == "SUCCEEDED"


def test_a_worker_is_as_patient_as_its_client_and_tells_the_same_hook() -> None:
    told: list[Retry] = []
    answers = [problem(503, "store_unavailable"), success(jobs=[])]

    def answer(_: Request) -> Response:
        if len(answers) == 1:
            worker.stop()
            return answers[0]
        return answers.pop(0)

    soon = RetryPolicy(unavailable=Backoff(base_seconds=0.001, cap_seconds=0.001))
    with serving(answer) as server, Interlock(server.url, "il_any", retry=soon, on_retry=told.append) as il:
        worker = Worker(il)
        worker.handler("a")(echo)
        worker.run()
    assert [retry.kind for retry in told] == ["unavailable"]


async def test_a_worker_that_is_cancelled_leaves_no_task_and_gives_its_jobs_back(tmp_path: Path) -> None:
    async with AsyncInterlock(store=f"sqlite:///{tmp_path}/interlock.db") as il:
        await il.apply_policy(ALLOW)
        job = await il.submit("a", {})
        worker, begun = Worker(il, concurrency=1), asyncio.Event()

        @worker.handler("a")
        async def wait_for_ever(_: AsyncWork) -> None:
            begun.set()
            await asyncio.Event().wait()

        before = asyncio.all_tasks()
        serving = asyncio.create_task(worker.serve())
        async with asyncio.timeout(HANG_SECONDS):
            await begun.wait()
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            await asyncio.sleep(0)  # what was told to end ends in the loop's next turn
        assert asyncio.all_tasks() == before
        assert (await il.get_job(job.id)).state == "PENDING"


async def test_signals_are_the_programs_again_once_a_worker_is_done() -> None:
    async with AsyncInterlock(store="memory:") as il:
        worker = Worker(il, jobs_max=0)
        worker.handler("a")(echo)
        await worker.serve(signals=True)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_worker_that_has_ended_can_be_run_again() -> None:
    with Interlock(store="memory:") as il:
        il.apply_policy(ALLOW)
        worker = Worker(il, concurrency=1, jobs_max=2)

        @worker.handler("a")
        def stop_at_two(work: Work) -> None:
            if work.payload == 2:
                worker.stop()

        for _ in range(2):
            jobs = [il.submit("a", n) for n in (1, 2)]
            worker.run()
            assert [il.get_job(job.id).state for job in jobs] == ["SUCCEEDED"] * 2
