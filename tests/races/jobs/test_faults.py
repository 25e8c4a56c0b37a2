"""Worker processes and servers killed and frozen at random on one PostgreSQL: every job ends exactly once."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from interlock import Interlock
from tests.harness.server import InterlockServer
from tests.harness.soak import dose
from tests.races.jobs.job_ledger import Ledger, unfinished
from tests.races.jobs.worker_processes import WorkerProcesses
from tests.races.jobs.worker_program import LEASE_SECONDS

POLICY = """
version: v1
rules:
  - {id: free, when: {topic: "work.**"}, decision: allow}
"""
POISON = 2
HANG_SECONDS = max(600, dose(120))
SETTINGS = {"INTERLOCK_RETRY_BASE_SECONDS": "0.2", "INTERLOCK_RETRY_MOST_SECONDS": "2"}


class Campaign:
    """Two servers, some workers, and a thread that breaks things."""

    def __init__(self, servers: list[InterlockServer], workers: WorkerProcesses, seed: int) -> None:
        self.servers = servers
        self.workers = workers
        self.faults: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._frozen: list[tuple[float, Callable[[], None]]] = []

    def play_until(self, is_over: Callable[[], bool]) -> None:
        """Break something every moment until everything is over; then mend it all."""
        deadline = time.monotonic() + HANG_SECONDS
        while not is_over():
            assert time.monotonic() < deadline, "the campaign does not end"
            self._thaw(time.monotonic())
            self.faults["worker died of poison"] += self.workers.replace_the_dead()
            self._break_something()
            time.sleep(self._chance.uniform(0.1, 0.5))
        self._thaw(float("inf"))

    def _break_something(self) -> None:
        kind = self._chance.choices(
            ["worker killed", "worker frozen", "server killed", "server frozen", "nothing"], [4, 4, 1, 1, 3]
        )[0]
        until = time.monotonic() + LEASE_SECONDS * self._chance.uniform(1.1, 1.6)
        worker, server = self._chance.choice(self.workers.processes), self._chance.choice(self.servers)
        if kind.endswith("frozen") and len(self._frozen) > 2:
            return
        match kind:
            case "worker killed":
                worker.kill()
                worker.start()
            case "worker frozen" if worker.alive:
                worker.send(signal.SIGSTOP)
                self._frozen.append((until, lambda: worker.send(signal.SIGCONT) if worker.alive else None))
            case "server killed":
                server.kill()
                server.start(ready=False)
            case "server frozen":
                server.pause()
                self._frozen.append((until, server.resume))
            case _:
                return
        self.faults[kind] += 1

    def _thaw(self, now: float) -> None:
        for until, thaw in self._frozen:
            if until <= now:
                thaw()
        self._frozen = [(until, thaw) for until, thaw in self._frozen if until > now]


def test_every_job_ends_exactly_once_whatever_happens_to_workers_and_servers(
    postgres_url: str,
    serve: Callable[..., InterlockServer],
    tmp_path: Path,
    leaving: contextlib.ExitStack,
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    servers = [serve(postgres_url, policy=tmp_path / "policy.yaml", env=SETTINGS) for _ in range(2)]
    # A third, left in peace, to submit through and to ask; the workers never talk to it.
    calm = serve(postgres_url, env=SETTINGS)
    bot_key = calm.create_key("bot", kind="agent", roles="submit").key
    bot = leaving.enter_context(Interlock(calm.url, bot_key))
    eye = leaving.enter_context(Interlock(calm.url, calm.create_key("eye", roles="audit").key))
    workers = WorkerProcesses(calm.create_key("processes", kind="worker", roles="work").key)
    count = dose(120)
    submit_all(bot, [{"poison": True}] * POISON + [{"n": n} for n in range(count)])

    campaign = Campaign(servers, workers, seed=count)
    started = time.monotonic()
    try:
        for n in range(8 if dose(1) > 1 else 6):
            workers.hire(("careful", "careless")[n % 2], servers[n % 4 // 2].url)
        campaign.play_until(lambda: is_all_over(bot, eye, workers))
    finally:
        workers.close()

    ledger = Ledger(eye)
    report(ledger, campaign, time.monotonic() - started)
    ledger.check()
    assert workers.counts()["stale"] > 0, "no stale fence came, so none was seen to be refused"
    check_journals(ledger, workers)
    poisoned = [job for job in ledger.jobs.values() if "poison" in job["payload"]]
    assert [job["state"] for job in poisoned] == ["FAILED"] * POISON


def submit_all(bot: Interlock, payloads: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda p: bot.submit("work.any", p, max_attempts=3 if "poison" in p else 12), payloads))


def is_all_over(bot: Interlock, eye: Interlock, workers: WorkerProcesses) -> bool:
    """Every job has ended and a stale fence has come; chance alone decides when, so there is work until then."""
    if unfinished(eye):
        return False
    if not workers.counts()["stale"]:
        submit_all(bot, [{"more": n} for n in range(20)])
        return False
    return True


def check_journals(ledger: Ledger, workers: WorkerProcesses) -> None:
    """What workers were told agrees with what the service kept: one accepted end a job, no stale one."""
    accepted = {(job, fence) for what, job, fence in workers.lines() if what == "done"}
    assert len({job for job, _ in accepted}) == len(accepted)
    for job, fence in accepted:
        assert ledger.jobs[job]["state"] == "SUCCEEDED"
        assert ledger.jobs[job]["result"] == fence, "a worker that had lost the job ended it"
    for what, job, fence in workers.lines():
        if what == "stale":
            assert (job, fence) not in accepted


def report(ledger: Ledger, campaign: Campaign, seconds: float) -> None:
    """What `-s` shows, and a soak is run for."""
    attempts = ledger.count("claim")
    print(f"\n{len(ledger.jobs)} jobs in {seconds:.1f} s: {dict(ledger.states())}")
    print(f"attempts {attempts}, leases lost {ledger.count('lose')}, stale writes refused {ledger.stale()}")
    print(f"faults {dict(campaign.faults)}; journals {dict(campaign.workers.counts())}")
