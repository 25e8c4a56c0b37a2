"""Connections to PostgreSQL: a writer per lane, a few for reads, and whatever else is asked for.

Every wait is bounded. A connection that failed, timed out or may hold a transaction is thrown away,
never reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from interlock.kernel.storage import CommitUnconfirmed, CommitUnknown, StoreDown, WriteConflict
from interlock.store.postgres_driver import (
    CUT,
    GONE,
    RACED,
    SERVER_SAID_NO,
    Session,
    connect,
    is_gone,
    throw_away,
)

_READERS_MAX = 4
_READ_SECONDS_MIN = 0.05
_ROLLBACK_SECONDS = 1.0
_RETRY_SECONDS = (1.0, 30.0)


class Writer:
    """A connection that writes batches. `warning` holds what the server last warned of."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.warning = ""
        session.add_log_listener(self._note)

    def _note(self, _session: Any, message: Any) -> None:
        if message.severity_en == "WARNING":
            self.warning = str(message)


class Connections:
    """All connections of one store."""

    def __init__(self, url: str, *, lanes: int, io_seconds: float) -> None:
        self._url = url
        self._io_seconds = io_seconds
        self._writers: asyncio.LifoQueue[Writer | None] = _slots(lanes)
        self._readers: asyncio.LifoQueue[Session | None] = _slots(_READERS_MAX)
        self._down_at: float | None = None

    @contextlib.asynccontextmanager
    async def writer(self) -> AsyncGenerator[Writer]:
        """A writer with no transaction open; errors come out as those that the kernel knows."""
        writer = await self._writers.get()
        try:
            if writer is None or writer.session.is_closed():
                writer = None
                writer = Writer(await self._connect(self._io_seconds))
            yield writer
        except BaseException as error:
            if writer is not None:
                await _end_transaction(writer.session, error)
            self._raise_named(error)
            raise
        finally:
            self._writers.put_nowait(writer)

    @contextlib.asynccontextmanager
    async def fresh(self, seconds: float) -> AsyncGenerator[Session]:
        """A new connection for one purpose, closed afterwards."""
        session = await self._connect(seconds)
        try:
            yield session
        except BaseException as error:
            self._raise_named(error)
            raise
        finally:
            throw_away(session)

    async def read(self, sql: str, arguments: Sequence[Any], seconds: float | None = None) -> list[Any]:
        """Run one statement by itself; a connection that went stale while idle is replaced once."""
        clock = asyncio.get_running_loop().time
        # One budget for the wait, the connection and the answer: whoever asks must not wait for three.
        deadline = clock() + (seconds or self._io_seconds)

        def left() -> float:
            return max(_READ_SECONDS_MIN, deadline - clock())

        session = await self._free_reader(left())
        try:
            if session is not None:
                with contextlib.suppress(*CUT):
                    return await session.fetch(sql, *arguments, timeout=left())
                throw_away(session)
                session = None
            session = await self._connect(left())
            return await session.fetch(sql, *arguments, timeout=left())
        except BaseException as error:
            if session is not None and is_gone(error):
                throw_away(session)
            self._raise_named(error)
            raise
        finally:
            self._readers.put_nowait(session)

    async def own(self) -> Session:
        """A connection for the caller to keep, and to throw away."""
        return await self._connect(self._io_seconds)

    async def close(self) -> None:
        while not self._writers.empty():
            writer = self._writers.get_nowait()
            if writer is not None:
                throw_away(writer.session)
        while not self._readers.empty():
            session = self._readers.get_nowait()
            if session is not None:
                throw_away(session)

    async def _free_reader(self, within: float) -> Session | None:
        try:
            async with asyncio.timeout(within):
                session = await self._readers.get()
        except TimeoutError as error:
            raise StoreDown("every reading connection is busy") from error
        return None if session is None or session.is_closed() else session

    async def _connect(self, seconds: float) -> Session:
        try:
            async with asyncio.timeout(seconds):
                session = await connect(self._url, seconds)
        except (*GONE, SERVER_SAID_NO, ValueError) as error:
            raise self._down(error) from error
        self._down_at = None
        return session

    def _raise_named(self, error: BaseException) -> None:
        """Raise what the kernel knows in place of what the driver says, where there is such a thing."""
        if isinstance(error, RACED):
            raise WriteConflict(str(error)) from error
        if is_gone(error):
            raise self._down(error) from error

    def _down(self, error: BaseException) -> StoreDown:
        """An outage is likely to last as long again as it has lasted."""
        now = time.monotonic()
        self._down_at = now if self._down_at is None else self._down_at
        least, most = _RETRY_SECONDS
        return StoreDown(
            f"PostgreSQL does not answer ({type(error).__name__}: {error})",
            retry_after_seconds=min(most, max(least, now - self._down_at)),
        )


async def _end_transaction(session: Session, error: BaseException) -> None:
    """Keep a connection only if its transaction is surely over."""
    is_open = isinstance(error, CommitUnknown | CommitUnconfirmed) or is_gone(error)
    if isinstance(error, Exception) and not is_open and not session.is_closed():
        with contextlib.suppress(Exception):
            if session.is_in_transaction():
                await session.execute("ROLLBACK", timeout=_ROLLBACK_SECONDS)
            return
    throw_away(session)


def _slots(count: int) -> asyncio.LifoQueue[Any]:
    """Room for so many connections, none of them made yet."""
    slots: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
    for _ in range(count):
        slots.put_nowait(None)
    return slots
