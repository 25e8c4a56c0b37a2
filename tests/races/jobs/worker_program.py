"""Worker processes for the campaigns: they can be killed and frozen at any moment, and write down what they did.

    python -m tests.races.jobs.worker_program careful|careless URL JOURNAL     (the key is in INTERLOCK_KEY)

A careful one is the SDK's `Worker`. A careless one is what a stalled worker does to a service: it takes a job,
works, and says that it is done whatever time has passed, so that stale fences really arrive.
A journal has a line for each thing that happened: `begin|done|stale|gone JOB FENCE`.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import IO, Any

from interlock import Conflict, Interlock, InterlockError, Work, Worker
from interlock.sdk.worker_jobs import Settled
from interlock.wire.jobs import HeldJob

LEASE_SECONDS = 2
TOPICS = ("work.*",)
POISONED = 9
STALL_SHARE = 0.1  # of a careless worker's jobs; signals alone seldom catch one between work and word


class Journal:
    """What this process did, on disk before anything else happens."""

    def __init__(self, path: str) -> None:
        self._file: IO[str] = open(path, "a", buffering=1)  # noqa: SIM115, PTH123 - open for the process's life

    def note(self, what: str, job: str, fence: int) -> None:
        self._file.write(f"{what} {job} {fence}\n")


def act(payload: Any, fence: int) -> None:
    """The work: a moment of time, or the death of the worker that tries.

    A successor takes longer, so that the worker that had the job before comes back meanwhile.
    """
    if payload.get("poison"):
        os._exit(POISONED)
    time.sleep(random.uniform(0.01, 0.12) if fence == 1 else random.uniform(0.5, 1.5))


def careful(url: str, journal: Journal) -> None:
    words = {Settled.SUCCEEDED: "done", Settled.LOST: "gone"}

    def settled(job: HeldJob, end: Settled) -> None:
        journal.note(words.get(end, end.value), job.id, job.fence)

    worker = Worker(url, concurrency=2, lease_seconds=LEASE_SECONDS, on_settled=settled)

    @worker.handler(*TOPICS)
    def work(work: Work) -> int:
        journal.note("begin", work.id, work.fence)
        act(work.payload, work.fence)
        return work.fence

    worker.run()


def careless(url: str, journal: Journal) -> None:
    il = Interlock(url)
    while True:
        try:
            jobs = il.claim_jobs(TOPICS, lease_seconds=LEASE_SECONDS, wait_seconds=1)
        except InterlockError:
            time.sleep(0.2)
            continue
        for job in jobs:
            journal.note("begin", job.id, job.fence)
            act(job.payload, job.fence)
            if random.random() < STALL_SHARE:
                time.sleep(LEASE_SECONDS * random.uniform(1.2, 2))
            say_done(il, job, journal)


def say_done(il: Interlock, job: HeldJob, journal: Journal) -> None:
    """Insist until there is an answer, long after the lease if need be."""
    key = f"{job.id}/{job.fence}"
    while True:
        try:
            il.complete_job(job.id, job.fence, result=job.fence, key=key)
            journal.note("done", job.id, job.fence)
            return
        except Conflict as conflict:
            journal.note("stale" if conflict.code == "fence_stale" else conflict.code, job.id, job.fence)
            return
        except InterlockError:
            time.sleep(0.1)


if __name__ == "__main__":
    kind, url, path = sys.argv[1:]
    {"careful": careful, "careless": careless}[kind](url, Journal(path))
