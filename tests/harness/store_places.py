"""Somewhere a store keeps its records: open stores on it, and look behind their backs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg

from interlock.kernel.clock import utc_now
from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.record import Key
from interlock.kernel.storage import Store
from interlock.kernel.world import NewId
from interlock.store.memory import MemoryStore
from interlock.store.postgres import PostgresStore
from interlock.store.sqlite import SqliteStore
from tests.kernel.counter_room import COUNTERS, TENANT


class Place(Protocol):
    """A database of one kind."""

    def store(self) -> Store:
        """A store on this place, not yet opened."""
        ...

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Look at what is stored without asking a store."""
        ...

    async def age(self, hours: float) -> None:
        """Let so much time pass for everything that is stored."""
        ...

    async def close(self) -> None: ...


class ShiftedClock:
    """The wall clock, moved on demand."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.ahead


class MemoryPlace:
    def __init__(self) -> None:
        self.clock = ShiftedClock()
        self._made: MemoryStore | None = None

    def store(self) -> MemoryStore:
        self._made = MemoryStore(clock=self.clock)
        return self._made

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        assert self._made is not None
        if "batches" in sql:
            return [(batch_id,) for batch_id in self._made._batches]
        return self._made._mirror.execute(sql).fetchall()

    async def age(self, hours: float) -> None:
        self.clock.ahead += timedelta(hours=hours)

    def spoil(self, key: Key, body: bytes) -> None:
        """Put this into a record's place."""
        assert self._made is not None
        self._made._bodies[key] = body

    async def close(self) -> None:
        """Nothing is left."""


class SqlitePlace:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ShiftedClock()
        self._behind: apsw.Connection | None = None

    def store(self, clock: ShiftedClock | None = None) -> SqliteStore:
        return SqliteStore(self.path, clock=clock or self.clock)

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self._behind is None:
            self._behind = apsw.Connection(str(self.path))
            self._behind.set_busy_timeout(5000)
        return self._behind.execute(sql).fetchall()

    async def age(self, hours: float) -> None:
        self.clock.ahead += timedelta(hours=hours)

    async def close(self) -> None:
        if self._behind is not None:
            self._behind.close()


class PostgresPlace:
    def __init__(self, url: str) -> None:
        self.url = url
        self._behind: Any = None

    def store(self, *, lanes: int = 1, url: str | None = None, io_seconds: float = 2.0) -> PostgresStore:
        return PostgresStore(url or self.url, lanes=lanes, io_seconds=io_seconds)

    async def connect(self) -> Any:
        return await asyncpg.connect(self.url, timeout=30)

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self._behind is None or self._behind.is_closed():
            self._behind = await self.connect()
        return [tuple(row) for row in await self._behind.fetch(sql)]

    async def age(self, hours: float) -> None:
        micros = int(hours * 3_600_000_000)
        await self.rows(f"UPDATE batches SET at = at - {micros}")
        await self.rows(f"UPDATE answers SET expires_at = expires_at - {micros}")

    async def close(self) -> None:
        if self._behind is not None:
            self._behind.terminate()


class Server:
    """A kernel on a store, as one server process has them."""

    def __init__(self, store: Store, kernel: Kernel) -> None:
        self.store = store
        self.kernel = kernel

    async def outcomes(self, *commands: Any) -> list[Any]:
        """Run all of them at once; results and exceptions in their order."""
        return await asyncio.gather(
            *(self.kernel.run(command) for command in commands), return_exceptions=True
        )

    async def counts(self, *names: str) -> list[int | None]:
        found = [await self.store.get(COUNTERS, TENANT, name) for name in names]
        return [counter.count if counter else None for counter in found]


@contextlib.asynccontextmanager
async def serving(
    store: Store, limits: KernelLimits | None = None, make_id: NewId = new_id
) -> AsyncGenerator[Server]:
    """A server that is open inside the block."""
    await store.open()
    kernel = Kernel(store, new_id=make_id, limits=limits)
    kernel.start()
    try:
        yield Server(store, kernel)
    finally:
        await kernel.close()
        await store.close()


def counted_ids() -> NewId:
    """Ids that two runs of the same commands have in common."""
    counts: dict[str, itertools.count[int]] = {}

    def make(prefix: str) -> str:
        return f"{prefix}_{next(counts.setdefault(prefix, itertools.count(1))):06d}"

    return make


def open_files_at(path: Path) -> list[str]:
    """Which of a database's files this process has open."""
    found: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return sorted(name for name in found if name.startswith(str(path)))


@contextlib.asynccontextmanager
async def two_servers(
    place: Place, limits: KernelLimits | None = None
) -> AsyncGenerator[tuple[Server, Server]]:
    async with serving(place.store(), limits) as one, serving(place.store(), limits) as other:
        yield one, other


class Heard:
    def __init__(self) -> None:
        self.topics: list[frozenset[str] | None] = []
        self._event = asyncio.Event()

    def __call__(self, topics: frozenset[str] | None) -> None:
        self.topics.append(topics)
        self._event.set()

    async def next(self) -> None:
        async with asyncio.timeout(30):
            await self._event.wait()
        self._event.clear()
