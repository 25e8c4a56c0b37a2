"""A store that has grown: submits and approvals beside 100,000 jobs and beside 100; memory at rest and overrun."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
from collections.abc import Callable
from time import perf_counter

from bench import overload
from bench.report import figure, interleaved, ratio, title
from bench.scene import approve, folder, many, opened, submit
from interlock.rooms.identity.model import Caller
from interlock.service.service import Service
from tests.harness.postgres import PostgresServer

FEW, MANY = 100, 100_000
CALLERS = 64
FILLERS = 256
COUNT = 500
LONE = 40
ROUNDS = 7


class Grown:
    """A store with that many pending approvals in it, and what one more call costs there."""

    def __init__(self, runner: asyncio.Runner, service: Service, bot: Caller, ann: Caller) -> None:
        self._run = runner.run
        self._service = service
        self._bot = bot
        self._ann = ann
        self._jobs: list[str] = []

    def fill(self, count: int) -> None:
        """Submit that many jobs, with all that a submit leaves behind."""
        self._run(many(count, FILLERS, self._submit))

    def submits(self) -> float:
        """Microseconds a submit, many callers at once."""
        return 1e6 / self._run(many(COUNT, CALLERS, self._submit))

    def approvals(self) -> float:
        """Microseconds an approval, many callers at once, of the oldest jobs in the order they came."""
        jobs, self._jobs = self._jobs[:COUNT], self._jobs[COUNT:]
        return self._approve(jobs)

    def scattered(self) -> float:
        """The same of jobs from anywhere, which share no page with each other."""
        random.shuffle(self._jobs)
        jobs, self._jobs = self._jobs[:COUNT], sorted(self._jobs[COUNT:])
        return self._approve(jobs)

    def lone_pair(self) -> float:
        """The median of a submit and its approval, one caller, in microseconds."""
        return self._run(self._pairs())

    def sweep(self) -> float:
        """Milliseconds of CPU and waiting that one pass of the sweeps takes."""
        started = perf_counter()
        self._run(self._service.sweeps.sweep_once())
        return (perf_counter() - started) * 1000

    async def _pairs(self) -> float:
        times: list[float] = []
        for number in range(LONE):
            started = perf_counter()
            await approve(self._service, self._ann, await submit(self._service, self._bot, number))
            times.append(perf_counter() - started)
        return statistics.median(times) * 1e6

    async def _submit(self, number: int) -> None:
        self._jobs.append(await submit(self._service, self._bot, number))

    def _approve(self, jobs: list[str]) -> float:
        return 1e6 / self._run(many(len(jobs), CALLERS, lambda n: approve(self._service, self._ann, jobs[n])))


def run() -> bool:
    """Both stores, then a server at rest and overrun; True if every goal was met."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            met = _compare("SQLite", f"sqlite:///{here}/few.db", f"sqlite:///{here}/many.db")
        met &= _compare("PostgreSQL", postgres.create_database(), postgres.create_database())
        return met & overload.run(postgres.create_database())
    finally:
        postgres.close()


def _compare(name: str, few_store: str, many_store: str) -> bool:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        try:
            few, grown = (
                Grown(runner, *runner.run(stack.enter_async_context(opened(store))))
                for store in (few_store, many_store)
            )
            few.fill(FEW)
            grown.fill(MANY)
            return _told(name, few, grown)
        finally:
            runner.run(stack.aclose())


def _told(name: str, few: Grown, grown: Grown) -> bool:
    contestants: dict[str, Callable[[], float]] = {}
    for word, store in (("few", few), ("many", grown)):
        contestants |= {
            f"submit {word}": store.submits,
            f"approve {word}": store.approvals,
            f"again {word}": store.submits,
            f"scattered {word}": store.scattered,
            f"pair {word}": store.lone_pair,
            f"sweep {word}": store.sweep,
        }
    found = interleaved(contestants, rounds=ROUNDS)
    title(f"Growth on {name}: {MANY:,} jobs in the store against {FEW}")
    whats = {
        "submit": ("a submit", f"{CALLERS} callers", "µs"),
        "approve": ("an approval, oldest first", f"{CALLERS} callers", "µs"),
        "scattered": ("an approval from anywhere", f"{CALLERS} callers", "µs"),
        "pair": ("a submit and approval", "one caller", "µs"),
        "sweep": ("one pass of the sweeps", "nothing due", "ms"),
    }
    met = True
    for what, (words, who, unit) in whats.items():
        figure(f"{words} beside {FEW}, {who}", found[f"{what} few"], unit)
        figure(f"{words} beside {MANY:,}, {who}", found[f"{what} many"], unit)
        met &= ratio(
            f"{words}, many over few",
            found[f"{what} many"] / found[f"{what} few"],
            1.5,
            at_most=True,
        )
    return met
