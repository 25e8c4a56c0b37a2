"""A worker may run in any thread, and be stopped from any other, whenever."""

from __future__ import annotations

import threading
from pathlib import Path

from interlock import Interlock, Work, Worker

HANG_SECONDS = 60


def test_a_worker_runs_in_a_thread_until_another_stops_it_however_often(tmp_path: Path) -> None:
    done = threading.Event()
    with Interlock(store=f"sqlite:///{tmp_path}/interlock.db") as il:
        il.apply_policy("version: v1\ndefault: allow\n")
        job = il.submit("pay", {"cents": 5})
        worker = Worker(il, on_settled=lambda _job, _end: done.set())

        @worker.handler("pay")
        def pay(work: Work) -> int:
            return work.payload["cents"]

        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        assert done.wait(HANG_SECONDS), "the worker does not work"
        worker.stop()
        thread.join(HANG_SECONDS)
        worker.stop()

        assert not thread.is_alive()
        assert (il.get_job(job.id).state, il.get_job(job.id).result) == ("SUCCEEDED", 5)
