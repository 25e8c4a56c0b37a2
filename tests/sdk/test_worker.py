"""Workers people write, on a real service in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import (
    AsyncWork,
    Final,
    Forbidden,
    Interlock,
    LeaseLost,
    Retryable,
    Unavailable,
    Work,
    Worker,
    verify_permit,
)
from interlock.sdk.outcomes import no_answer
from interlock.sdk.worker_jobs import Hold, Settled
from interlock.wire.jobs import HeldJob

POLICY = "version: v1\ndefault: allow\n"
HANG_SECONDS = 60


@pytest.fixture
def il(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interlock]:
    """A client of an embedded store that allows everything and retries soon."""
    monkeypatch.setenv("INTERLOCK_RETRY_BASE_SECONDS", "0.05")
    with Interlock(store=f"sqlite:///{tmp_path}/interlock.db") as client:
        client.apply_policy(POLICY)
        yield client


class Watched:
    """A worker that ends by itself after so many jobs, and what it said of each."""

    def __init__(self, il: Interlock, jobs: int, **options: Any) -> None:
        self.ends: list[tuple[str, Settled]] = []
        self.worker = Worker(il, jobs_max=jobs, on_settled=self._settled, **options)

    def run(self) -> list[Settled]:
        """Run to the end on a thread of its own, so that a hang is a failure and not a hang."""
        thread = threading.Thread(target=lambda: asyncio.run(self.worker.serve()), daemon=True)
        thread.start()
        thread.join(HANG_SECONDS)
        assert not thread.is_alive(), "the worker does not end"
        return [end for _, end in self.ends]

    def _settled(self, job: HeldJob, end: Settled) -> None:
        self.ends.append((job.id, end))


def test_a_plain_function_gets_the_job_and_its_result_completes_it(il: Interlock) -> None:
    job = il.submit("pay.one", {"cents": 5})
    watched = Watched(il, 1)
    seen: list[Work] = []

    @watched.worker.handler("pay.*")
    def pay(work: Work) -> dict[str, int]:
        seen.append(work)
        return {"paid": work.payload["cents"]}

    assert watched.run() == [Settled.SUCCEEDED]
    done = il.get_job(job.id)
    assert (done.state, done.result, done.attempt) == ("SUCCEEDED", {"paid": 5}, 1)
    (work,) = seen
    permit = verify_permit(work.permit, il.signing_keys(), job_hash=job.job_hash, job_id=job.id)
    assert (permit.fence, work.fence, work.attempt, work.topic) == (1, 1, 1, "pay.one")


def test_a_coroutine_function_works_too_and_the_first_matching_handler_is_chosen(il: Interlock) -> None:
    il.submit("pay.one", {})
    il.submit("mail.one", {})
    watched = Watched(il, 2)
    called: list[str] = []

    @watched.worker.handler("pay.*")
    async def pay(work: AsyncWork) -> None:
        await asyncio.sleep(0)
        called.append(f"pay {work.topic}")

    @watched.worker.handler("**")
    async def rest(work: AsyncWork) -> None:
        called.append(f"rest {work.topic}")

    assert watched.run() == [Settled.SUCCEEDED] * 2
    assert sorted(called) == ["pay pay.one", "rest mail.one"]


def test_as_many_jobs_run_at_once_as_asked_for(il: Interlock) -> None:
    for _ in range(6):
        il.submit("a", {})
    together = threading.Barrier(3, timeout=HANG_SECONDS)
    watched = Watched(il, 6, concurrency=3)

    @watched.worker.handler("a")
    def meet(work: Work) -> None:
        together.wait()

    assert watched.run() == [Settled.SUCCEEDED] * 6


@pytest.mark.parametrize(
    ("error", "state", "kept"),
    [
        (Final("no such account"), "FAILED", {"type": "Final", "message": "no such account"}),
        (Retryable("bank is closed"), "PENDING", {"type": "Retryable", "message": "bank is closed"}),
    ],
)
def test_what_a_handler_says_of_its_failure_is_kept(
    il: Interlock, error: Exception, state: str, kept: dict[str, str]
) -> None:
    job = il.submit("a", {})
    watched = Watched(il, 1)

    @watched.worker.handler("a")
    def fail(work: Work) -> None:
        raise error

    watched.run()
    ended = il.get_job(job.id)
    assert (ended.state, ended.error) == (state, kept)


def test_an_unexpected_error_is_tried_again_and_its_message_stays_here(il: Interlock) -> None:
    job = il.submit("a", {})
    watched = Watched(il, 2)

    @watched.worker.handler("a")
    def fail_once(work: Work) -> str:
        if work.attempt == 1:
            raise ValueError("password=hunter2")
        return "fine"

    assert watched.run() == [Settled.RETRYING, Settled.SUCCEEDED]
    assert il.get_job(job.id).result == "fine"
    failed = [entry for entry in il.get_job_history(job.id).items if entry.action == "fail"]
    assert len(failed) == 1
    assert "hunter2" not in str(il.get_job_history(job.id))


def test_the_kept_error_names_type_and_place_but_not_the_message(il: Interlock) -> None:
    job = il.submit("a", {}, max_attempts=1)
    watched = Watched(il, 1)

    @watched.worker.handler("a")
    def fail(work: Work) -> None:
        raise ValueError("password=hunter2")

    assert watched.run() == [Settled.FAILED]
    error = il.get_job(job.id).error
    assert error["type"] == "ValueError"
    assert error["where"][-1].startswith("test_worker.py:")
    assert "hunter2" not in str(error)


def test_a_checkpoint_is_there_for_the_next_attempt(il: Interlock) -> None:
    il.submit("a", {})
    watched = Watched(il, 2)
    found: list[Any] = []

    @watched.worker.handler("a")
    def page(work: Work) -> None:
        found.append(work.last_checkpoint)
        work.checkpoint({"page": 3})
        if work.attempt == 1:
            raise Retryable("half way")

    assert watched.run() == [Settled.RETRYING, Settled.SUCCEEDED]
    assert found == [None, {"page": 3}]


def test_a_lease_is_renewed_for_as_long_as_the_work_takes(il: Interlock) -> None:
    job = il.submit("a", {})
    watched = Watched(il, 1, lease_seconds=3)
    left: list[float] = []

    @watched.worker.handler("a")
    def take_long(work: Work) -> int:
        time.sleep(4)
        left.append(work.seconds_left)
        return work.fence

    assert watched.run() == [Settled.SUCCEEDED]
    done = il.get_job(job.id)
    assert (done.state, done.attempt, done.result) == ("SUCCEEDED", 1, 1)
    assert left[0] > 0


def test_a_coroutine_is_cancelled_when_its_job_is_lost_and_says_nothing_more(il: Interlock) -> None:
    job = il.submit("a", {})
    watched = Watched(il, 1, lease_seconds=1)
    ended: list[str] = []

    @watched.worker.handler("a")
    async def hang(work: AsyncWork) -> None:
        il.cancel_job(job.id)
        try:
            await asyncio.sleep(HANG_SECONDS)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    assert watched.run() == [Settled.LOST]
    assert ended == ["cancelled"]
    assert il.get_job(job.id).state == "CANCELLED"


def test_a_thread_is_told_when_its_job_is_lost(il: Interlock) -> None:
    job = il.submit("a", {})
    watched = Watched(il, 1, lease_seconds=1)
    told: list[object] = []

    @watched.worker.handler("a")
    def watch(work: Work) -> None:
        told.append(
            (bool(work.lost), il.cancel_job(job.id).state, work.lost.wait(HANG_SECONDS), bool(work.lost))
        )
        try:
            work.checkpoint(1)
        except LeaseLost as lost:
            told.append(type(lost))

    assert watched.run() == [Settled.LOST]
    assert told == [(False, "CANCELLED", True, True), LeaseLost]


def test_a_worker_without_the_role_ends_with_the_reason(il: Interlock) -> None:
    issued = il.call("POST", "principals", "bot", "keys", body={"kind": "agent", "roles": ["submit"]})
    worker = Worker(store=il.store, key=issued["key"])
    worker.handler("a")(print)
    with pytest.raises(Forbidden):
        asyncio.run(worker.serve())


def test_a_worker_without_a_handler_or_with_a_wrong_topic_is_refused(il: Interlock) -> None:
    worker = Worker(il)
    with pytest.raises(ValueError, match="no handler"):
        asyncio.run(worker.serve())
    with pytest.raises(ValueError, match="empty segment"):
        worker.handler("a..b")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_was_begun_finish_and_takes_nothing_more(
    il: Interlock, number: signal.Signals
) -> None:
    first, second = il.submit("a", {}), il.submit("a", {})
    worker = Worker(il, concurrency=1, lease_seconds=5)

    @worker.handler("a")
    def work(work: Work) -> str:
        os.kill(os.getpid(), number)
        time.sleep(0.3)
        return "finished"

    worker.run()
    assert il.get_job(first.id).result == "finished"
    assert il.get_job(second.id).state == "PENDING"


def test_work_that_outlasts_the_drain_is_given_back_without_counting_an_attempt(il: Interlock) -> None:
    job = il.submit("a", {})
    worker = Worker(il, lease_seconds=30, drain_seconds=0.1)
    begun = threading.Event()

    @worker.handler("a")
    async def hang(work: AsyncWork) -> None:
        begun.set()
        await asyncio.sleep(HANG_SECONDS)

    thread = threading.Thread(target=lambda: asyncio.run(worker.serve()), daemon=True)
    thread.start()
    assert begun.wait(HANG_SECONDS)
    worker.stop()
    thread.join(HANG_SECONDS)
    returned = il.get_job(job.id)
    assert (returned.state, returned.attempt) == ("PENDING", 1)


class OutOfReach:
    """A client whose service cannot be reached."""

    def __init__(self) -> None:
        self.renewals = 0

    async def renew_job(self, *_: object, **__: object) -> None:
        self.renewals += 1
        raise Unavailable(no_answer("nobody there"))


def held(il: Interlock) -> HeldJob:
    il.submit("a", {})
    return il.claim_jobs(["a"])[0]


async def test_a_hold_ends_by_our_own_clock_counted_from_when_it_was_asked_for(il: Interlock) -> None:
    job = held(il)
    client: Any = OutOfReach()
    hold = Hold(client, job, sent_at=time.monotonic() - 29.7, lease_seconds=30)
    assert 0 < hold.seconds_left < 1
    await asyncio.wait_for(hold.keep(), HANG_SECONDS)
    assert hold.lost.is_set()
    assert hold.seconds_left == 0
    assert client.renewals > 0
    with pytest.raises(LeaseLost):
        await hold.renew(None)


async def test_an_answer_to_a_renewal_counts_from_when_it_was_sent(il: Interlock) -> None:
    job = held(il)

    class Slow:
        async def renew_job(self, *_: object, **__: object) -> HeldJob:
            await asyncio.sleep(0.3)
            return job

    client: Any = Slow()
    hold = Hold(client, job, sent_at=time.monotonic(), lease_seconds=10)
    before = time.monotonic()
    await hold.renew(None)
    # However long the answer took, it gave no more than a lease from the moment of asking.
    assert before + hold.seconds_left <= before + 10 - 0.29


def test_interlock_and_worker_agree_on_where_they_work(il: Interlock) -> None:
    make: Callable[..., Worker] = Worker
    assert make(il)._client.store == il.store  # pyright: ignore[reportPrivateUsage]
