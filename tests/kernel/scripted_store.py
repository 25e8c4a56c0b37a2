"""A store that fails on demand: a real memory store behind faults that a test puts in its way."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.record import Key
from interlock.kernel.storage import CommitUnknown, Loaded, StoreDown, Transaction
from interlock.kernel.world import Changes
from interlock.store.memory import MemoryStore
from tests.kernel.counter_room import COUNTERS, TENANT

START = datetime(2026, 1, 1, tzinfo=UTC)


class ScriptedStore:
    """Carries batches in memory, except where it was told to fail."""

    def __init__(self, *, lanes: int = 1, batch_seconds: float = 0.001) -> None:
        self.lanes = lanes
        self.batch_seconds = batch_seconds
        self.inner = MemoryStore(clock=self._clock)
        self.transactions: list[Transaction] = []
        self.held: set[Key] = set()
        self.settled: list[str] = []
        self.can_settle = True
        self.up = True
        self.never_again = asyncio.Event()
        self._faults: deque[Exception] = deque()
        self._lost: deque[bool] = deque()
        self._refused: Callable[[Transaction], Exception | None] = lambda _: None
        self._after_commit: deque[Exception] = deque()
        self._hangs = False

    # What a test orders.

    def fail_next(self, *faults: Exception) -> None:
        """Fail the next batches before they do anything."""
        self._faults.extend(faults)

    def lose_commit(self, *, happened: bool) -> None:
        """Lose the answer to the next COMMIT, which happens or not."""
        self._lost.append(happened)

    def fail_after_commit(self, error: Exception) -> None:
        """Raise after the next COMMIT happened."""
        self._after_commit.append(error)

    def refuse_when(self, told: Callable[[Transaction], Exception | None]) -> None:
        """Fail every batch for which `told` gives an error."""
        self._refused = told

    def hang(self) -> None:
        """Answer nothing any more, ever."""
        self._hangs = True

    # What the kernel uses.

    async def transact(self, transaction: Transaction) -> None:
        self.transactions.append(transaction)
        if self._hangs:
            await self.never_again.wait()
        await asyncio.sleep(self.batch_seconds)
        if not self.up:
            raise StoreDown("the scripted store is down")
        if self._faults:
            raise self._faults.popleft()
        if (refused := self._refused(transaction)) is not None:
            raise refused
        await self._carry(transaction)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        await asyncio.sleep(self.batch_seconds)
        if not self.can_settle:
            raise StoreDown("the scripted store cannot say")
        self.settled.append(batch_id)
        return await self.inner.committed(batch_id, within_seconds)

    async def ping(self, within_seconds: float) -> None:
        if self._hangs:
            await asyncio.sleep(within_seconds)
            raise StoreDown("the scripted store hangs")
        if not self.up:
            raise StoreDown("the scripted store is down")

    async def _carry(self, transaction: Transaction) -> None:
        transaction = self._holding(transaction)
        lost = self._lost.popleft() if self._lost else None
        await self.inner.transact(_unwritten(transaction) if lost is False else transaction)
        if lost is not None:
            raise CommitUnknown("the answer was lost")
        if self._after_commit:
            raise self._after_commit.popleft()

    def _holding(self, transaction: Transaction) -> Transaction:
        """Another transaction holds the records in `held`: they are loaded, but not to own."""
        own = list(transaction.reads.own)

        def more(loaded: Loaded) -> Any:
            wanted = transaction.more(_with_busy(loaded, self.held.intersection(own)))
            own[:] = wanted.own
            return wanted

        def decide(loaded: Loaded | None) -> Any:
            return transaction.decide(_with_busy(loaded, self.held.intersection(own)) if loaded else None)

        return msgspec.structs.replace(transaction, more=more, decide=decide)

    def _clock(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())


class Watched:
    """Remembers what the kernel tells of itself."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.seconds: list[float] = []
        self.reruns: list[str] = []
        self.overloaded = 0

    def committed(self, commands: int, seconds: float) -> None:
        self.sizes.append(commands)
        self.seconds.append(seconds)

    def reran(self, why: str) -> None:
        self.reruns.append(why)

    def refused_overloaded(self) -> None:
        self.overloaded += 1

    def drain_seconds(self, queued: int) -> float:
        return queued / 100


class ScriptedKernel:
    """A running kernel on a scripted store, watched."""

    def __init__(self, store: ScriptedStore, limits: KernelLimits | None = None) -> None:
        numbers = itertools.count(1)
        self.store = store
        self.watched = Watched()
        self.kernel = Kernel(
            store, new_id=lambda prefix: f"{prefix}_{next(numbers):06d}", limits=limits, observer=self.watched
        )

    async def outcomes(self, *commands: Any) -> list[Any]:
        """Run all of them at once; results and exceptions in their order."""
        return await asyncio.gather(
            *(self.kernel.run(command) for command in commands), return_exceptions=True
        )

    def notes(self) -> list[str]:
        """Texts of all notes, in the order in which they were written."""
        rows = self.store.inner._mirror.execute("SELECT subject FROM events ORDER BY seq").fetchall()
        return [row[0] for row in rows]

    async def counts(self, *names: str) -> list[int | None]:
        """What is stored of these counters."""
        found = [await self.store.inner.get(COUNTERS, TENANT, name) for name in names]
        return [counter.count if counter else None for counter in found]

    async def abort(self) -> None:
        """End the kernel's tasks without finishing anything: for a store that will never answer."""
        tasks = [*self.kernel._running, self.kernel._reaper]
        for task in tasks:
            if task:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)


@asynccontextmanager
async def scripted_kernel(
    store: ScriptedStore | None = None, limits: KernelLimits | None = None
) -> AsyncGenerator[ScriptedKernel]:
    """A kernel on a scripted store, running inside the block."""
    opened = ScriptedKernel(store or ScriptedStore(), limits)
    await opened.store.inner.open()
    opened.kernel.start()
    try:
        yield opened
    finally:
        if opened.store._hangs:
            await opened.abort()
        else:
            await opened.kernel.close()
        await opened.store.inner.close()


def _unwritten(transaction: Transaction) -> Transaction:
    """The same decisions, of which nothing is written."""

    def decide(loaded: Loaded | None) -> Changes:
        transaction.decide(loaded)
        return Changes([], [], [], frozenset())

    return msgspec.structs.replace(transaction, decide=decide)


def _with_busy(loaded: Loaded, busy: Collection[Key]) -> Loaded:
    return msgspec.structs.replace(loaded, busy=frozenset(busy)) if busy else loaded
