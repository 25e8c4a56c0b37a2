"""Worker processes: started, killed, frozen and replaced by a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.harness.reaper import reaper
from tests.harness.server import clean_env
from tests.races.jobs.worker_program import POISONED

ROOT = Path(__file__).parents[3]


class WorkerProcess:
    """One worker process."""

    def __init__(self, kind: str, url: str, key: str, journal: Path) -> None:
        self.kind = kind
        self.url = url
        self._key = key
        self._journal = journal
        self._log = journal.with_suffix(".log")
        self.start()

    def start(self) -> None:
        env = {**clean_env({"INTERLOCK_KEY": self._key}), "PYTHONPATH": str(ROOT)}
        command = [
            sys.executable,
            "-m",
            "tests.races.jobs.worker_program",
            self.kind,
            self.url,
            str(self._journal),
        ]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=env,
                start_new_session=True,
            )
        reaper().watch(self.process.pid)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        reaper().end(self.process)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class WorkerProcesses:
    """Hands with one key, and the journals they leave."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-workers-"))
        reaper().remove(self._folder)
        self.processes: list[WorkerProcess] = []

    def hire(self, kind: str, url: str) -> WorkerProcess:
        journal = self._folder / f"{len(self.processes)}.journal"
        self.processes.append(WorkerProcess(kind, url, self._key, journal))
        return self.processes[-1]

    def replace_the_dead(self) -> int:
        """Start again the workers that ended (poison kills its worker); returns how many there were."""
        dead = [worker for worker in self.processes if not worker.alive]
        for worker in dead:
            # Workers that fall over by themselves would prove nothing.
            assert worker.process.returncode == POISONED, (
                f"{worker.kind} died of {worker.process.returncode}: {worker.log()}"
            )
            worker.kill()
            worker.start()
        return len(dead)

    def close(self) -> None:
        for worker in self.processes:
            worker.kill()

    def lines(self) -> Iterator[tuple[str, str, int]]:
        """Everything that any of them wrote down: what, job, fence."""
        for path in sorted(self._folder.glob("*.journal")):
            for line in path.read_text().splitlines():
                words = line.split()
                # A killed process may leave half a line; it had not gone on to do anything with it.
                if len(words) == 3 and words[2].isdigit():
                    yield words[0], words[1], int(words[2])

    def counts(self) -> Counter[str]:
        return Counter(what for what, _, _ in self.lines())

    def logs(self) -> str:
        return "\n".join(
            f"--- {worker.kind} {worker.process.pid}\n{worker.log()}" for worker in self.processes
        )
