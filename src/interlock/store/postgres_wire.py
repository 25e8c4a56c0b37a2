"""Connections to PostgreSQL: a writer per lane, a small pool for reads, one that listens.

Every wait is bounded. A connection that failed, timed out or may hold a transaction is thrown away,
never reused. Which driver errors mean "gone" and which mean "locked" is decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import asyncpg

from interlock.kernel.storage import LockTimeout, StoreDown, WriteConflict

log = logging.getLogger(__name__)

GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
LOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
_RACED = (asyncpg.UniqueViolationError, asyncpg.SerializationError)

_LOCK_TIMEOUT_MS = 50
_IDLE_IN_TRANSACTION_MS = 2000
_READERS_MAX = 4
_RECONNECT_SECONDS_MAX = 2.0


class Written:
    """A writer connection for one batch. `warned` holds a WARNING that came during it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.broken = False
        self.warned = ""

    def note(self, connection: Any, message: Any) -> None:
        if message.severity_en == "WARNING":
            self.warned = str(message)


class Connections:
    """All connections of one store."""

    def __init__(self, url: str, *, lanes: int, io_seconds: float) -> None:
        self._url = url
        self._io_seconds = io_seconds
        self._idle: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
        for _ in range(lanes):
            self._idle.put_nowait(None)
        self._readers: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
        for _ in range(_READERS_MAX):
            self._readers.put_nowait(None)
        self._outage_backoff = 0.0

    @contextlib.asynccontextmanager
    async def writer(self, seconds: float) -> AsyncIterator[Written]:
        """A writer connection; on any error but a race it is thrown away, and the error named."""
        kept = await self._idle.get()
        connection = None
        try:
            connection = kept if kept and not kept.is_closed() else await self._connect(seconds)
            written = Written(connection)
            connection.add_log_listener(written.note)
            try:
                yield written
            finally:
                connection.remove_log_listener(written.note)
            if written.broken:
                _throw_away(connection)
        except BaseException as error:
            await _rolled_back(connection, error)
            raise self._named(error) from error
        finally:
            self._idle.put_nowait(connection if connection and not connection.is_closed() else None)

    @contextlib.asynccontextmanager
    async def fresh(self, seconds: float) -> AsyncIterator[Any]:
        """A new connection for one purpose, closed afterwards."""
        try:
            connection = await self._connect(seconds)
        except GONE as error:
            raise self._named(error) from error
        try:
            yield connection
        except GONE as error:
            raise self._named(error) from error
        finally:
            _throw_away(connection)

    async def read(self, sql: str, arguments: Sequence[Any], seconds: float | None = None) -> list[Any]:
        """Run one read; a connection that went stale while idle is replaced once."""
        within = seconds or self._io_seconds
        try:
            kept = await asyncio.wait_for(self._readers.get(), within)
        except TimeoutError as error:
            raise StoreDown("every reading connection is busy") from error
        connection = kept if kept and not kept.is_closed() else None
        try:
            if connection is None:
                connection = await self._connect(within)
            return list(await connection.fetch(sql, *arguments, timeout=within))
        except GONE as error:
            if connection:
                _throw_away(connection)
            raise self._named(error) from error
        finally:
            usable = connection and not connection.is_closed()
            self._readers.put_nowait(connection if usable else None)

    async def connect_listener(self) -> Any:
        return await self._connect(self._io_seconds)

    async def close(self) -> None:
        for queue in (self._idle, self._readers):
            while not queue.empty():
                connection = queue.get_nowait()
                if connection:
                    _throw_away(connection)

    async def _connect(self, seconds: float) -> Any:
        connection = await asyncio.wait_for(
            asyncpg.connect(
                self._url,
                timeout=seconds,
                server_settings={
                    "application_name": "interlock",
                    "lock_timeout": str(_LOCK_TIMEOUT_MS),
                    "idle_in_transaction_session_timeout": str(_IDLE_IN_TRANSACTION_MS),
                    "default_transaction_isolation": "read committed",
                    "plan_cache_mode": "force_generic_plan",
                    "enable_seqscan": "off",
                    "enable_hashjoin": "off",
                    "enable_mergejoin": "off",
                    "jit": "off",
                },
            ),
            seconds,
        )
        self._outage_backoff = 0.0
        return connection

    def _named(self, error: BaseException) -> BaseException:
        if isinstance(error, _RACED):
            return WriteConflict(str(error))
        if isinstance(error, GONE):
            self._outage_backoff = min(_RECONNECT_SECONDS_MAX * 2, max(1.0, self._outage_backoff * 2))
            return StoreDown(
                f"PostgreSQL does not answer ({type(error).__name__})",
                retry_after_seconds=self._outage_backoff,
            )
        return error


class Listener:
    """Hears other servers' wake-ups and reconnects for ever; after each gap it says hints were lost."""

    channel = "interlock"

    def __init__(self, connections: Connections) -> None:
        self.origin = uuid.uuid4().hex
        self._connections = connections
        self._task: asyncio.Task[None] | None = None

    def start(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        self._task = asyncio.create_task(self._listen(heard), name="postgres-listen")

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        def told(connection: Any, pid: int, channel: str, note: str) -> None:
            origin, *topics = note.split("\n")
            if origin != self.origin:
                heard(frozenset(topics) or None)

        pause = 0.1
        while True:
            try:
                connection = await self._connections.connect_listener()
                try:
                    await connection.add_listener(self.channel, told)
                    heard(None)
                    pause = 0.1
                    while not connection.is_closed():
                        await asyncio.sleep(1.0)
                        await connection.fetchval("SELECT 1", timeout=5.0)
                finally:
                    _throw_away(connection)
            except GONE as error:
                log.debug("listening broke off: %s", error)
            await asyncio.sleep(pause)
            pause = min(_RECONNECT_SECONDS_MAX, pause * 2)


async def _rolled_back(connection: Any, error: BaseException) -> None:
    """Keep a connection only if its transaction is surely over."""
    if connection is None or connection.is_closed():
        return
    if isinstance(error, (*_RACED, *LOCKED, WriteConflict, LockTimeout, asyncpg.DataError)):
        with contextlib.suppress(Exception):
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK", timeout=1.0)
            return
    _throw_away(connection)


def _throw_away(connection: Any) -> None:
    with contextlib.suppress(Exception):
        connection.terminate()
