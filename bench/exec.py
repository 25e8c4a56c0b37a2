"""A whole `interlock exec true` on the embedded store, process start included, beside `python -c 'import msgspec'`.

Both sides find their bytecode compiled, as they do wherever Python may write it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.report import figure, ratio, title
from bench.scene import folder

ROUNDS = 25
GOAL = 4.0
INTERLOCK = str(Path(sys.executable).parent / "interlock")
TASKS = 'tasks:\n  "true": {command: "true"}\n'
POLICY = "version: v1\nrules:\n  - {id: free, when: {topic: exec.true}, decision: allow}\n"
CONTESTANTS: dict[str, Sequence[str]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "python -c 'import msgspec'": (sys.executable, "-c", "import msgspec"),
    "interlock exec true, under a grant": (INTERLOCK, "exec", "true"),
    "interlock exec -- true, allowed by policy": (INTERLOCK, "exec", "--", "true"),
}
BASE, *OURS = list(CONTESTANTS)[1:]


class Took(NamedTuple):
    """Seconds of one process: by the clock, and of the processor in it and its children."""

    wall: float
    cpu: float


def run() -> bool:
    """Print the ratios; True if every goal was met."""
    with folder() as here:
        environ = _prepared(here)
        figures: dict[str, list[Took]] = {name: [] for name in CONTESTANTS}
        for turn in range(ROUNDS + 2):
            for name, words in CONTESTANTS.items():
                took = _timed(words, here, environ)
                if turn >= 2:  # the first two find or leave things cold
                    figures[name].append(took)
    return _told({name: _median(took) for name, took in figures.items()})


def _prepared(here: Path) -> dict[str, str]:
    """A store with a policy and a grant, and an environment in which bytecode is kept."""
    (here / "interlock.yaml").write_text(TASKS)
    (here / "policy.yaml").write_text(POLICY)
    away = ("PYTHONDONTWRITEBYTECODE", "INTERLOCK_URL", "INTERLOCK_KEY", "INTERLOCK_STORE")
    environ = {name: value for name, value in os.environ.items() if name not in away}
    environ["PYTHONPYCACHEPREFIX"] = str(here / "bytecode")
    _timed((INTERLOCK, "policy", "apply", "policy.yaml"), here, environ)
    _timed((INTERLOCK, "grant", "true", "--uses", "1000"), here, environ)
    return environ


def _timed(words: Sequence[str], here: Path, environ: Mapping[str, str]) -> Took:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    ended = subprocess.run(
        words, cwd=here, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {ended.returncode}: {ended.stderr.decode()}")
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _median(took: Sequence[Took]) -> Took:
    return Took(statistics.median(one.wall for one in took), statistics.median(one.cpu for one in took))


def _told(found: Mapping[str, Took]) -> bool:
    title(f"A start of `interlock exec`, medians of {ROUNDS} alternating runs")
    for name, took in found.items():
        figure(f"{name}: time", took.wall * 1000, "ms")
        figure(f"{name}: processor", took.cpu * 1000, "ms")
    met = True
    for name in OURS:
        met &= ratio(f"{name}: time", found[name].wall / found[BASE].wall, GOAL, at_most=True)
        met &= ratio(f"{name}: processor", found[name].cpu / found[BASE].cpu, GOAL, at_most=True)
    return met
