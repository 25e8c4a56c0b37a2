"""Taking over after a crash: nothing that was done is lost, and at most the step under way is repeated."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.harness.reaper import reaper
from tests.harness.server import clean_env
from tests.harness.soak import dose
from tests.races.deployment import Deployment

ROOT = Path(__file__).parents[3]
STEPS = 100
HANG_SECONDS = 120


def test_a_task_survives_its_workers_and_repeats_at_most_one_step_for_each_crash(
    place: Deployment, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    chance = random.Random(5)
    crashes = sorted(chance.sample(range(1, STEPS), dose(3)))
    for number, crash in enumerate(crashes):
        worker = _start(place, number, journal)
        _until(lambda worker=worker, crash=crash: len(_steps(journal)) >= crash or worker.poll() is not None)
        reaper().end(worker)
    last = _start(place, len(crashes), journal)
    assert last.wait(HANG_SECONDS) == 0
    reaper().forget(last.pid)
    counts = Counter(_steps(journal))
    assert set(counts) == set(range(STEPS)), "a step was lost"
    repeated = {step: count for step, count in counts.items() if count > 1}
    assert sum(count - 1 for count in repeated.values()) <= len(crashes), repeated


def _start(place: Deployment, number: int, journal: Path) -> subprocess.Popen[bytes]:
    url = place.urls[number % len(place.urls)]
    env = {**clean_env({"INTERLOCK_KEY": place.keys["bot"].key}), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.races.leases.step_worker_program", url, str(journal), str(STEPS)]
    worker = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True)
    reaper().watch(worker.pid)
    return worker


def _steps(journal: Path) -> list[int]:
    """The steps that were done, in order; half a line was never followed by anything."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [int(line.split()[0]) for line in lines if len(line.split()) == 2]


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "nothing moves"
        time.sleep(0.01)
