"""Approved while no worker is alive, through restarts of the server: every job runs, and is done once."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock import Interlock
from tests.harness.server import InterlockServer
from tests.harness.soak import dose
from tests.races.jobs.job_ledger import Ledger, unfinished
from tests.races.jobs.worker_processes import WorkerProcesses

POLICY = """
version: v1
rules:
  - {id: ask, when: {topic: "work.**"}, decision: require_human}
"""
HANG_SECONDS = 300


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """An empty store of each kind."""
    return sqlite_url if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def test_work_approved_during_a_workers_outage_is_all_done_once(
    store: str, serve: Callable[..., InterlockServer], tmp_path: Path, leaving: contextlib.ExitStack
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    server = serve(store, policy=tmp_path / "policy.yaml")
    bot_key = server.create_key("bot", kind="agent", roles="submit").key
    bot = leaving.enter_context(Interlock(server.url, bot_key))
    ada = leaving.enter_context(Interlock(server.url, server.create_key("ada", roles="review,audit").key))
    worker = server.create_key("processes", kind="worker", roles="work").key
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda n: bot.submit("work.pay", {"n": n}, max_attempts=20).id, range(dose(40))))
        list(pool.map(ada.approve, jobs))

    server.kill()
    server.start()
    server.restart()
    workers = WorkerProcesses(worker)
    try:
        for kind in ("careful", "careless"):
            workers.hire(kind, server.url)
        deadline = time.monotonic() + HANG_SECONDS
        while unfinished(ada) and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        workers.close()

    ledger = Ledger(ada)
    ledger.check()
    assert ledger.states() == {"SUCCEEDED": len(jobs)}, workers.logs()
    accepted = Counter(job for what, job, _ in workers.lines() if what == "done")
    assert max(accepted.values()) == 1
    assert ledger.count("complete") == len(jobs)
