"""Connections to PostgreSQL: one writer per lane, a few readers, and single ones on request.

Every wait is bounded. A connection that failed, timed out or may hold a transaction is closed, never reused.

A read that spends its whole budget waiting for a reading connection has two possible causes. If another call was
answered in the second half of its wait, the database works but has too much to do (`Overloaded`); if none was, the
database does not answer (`StoreDown`). A read of a table that another session has locked is tried again until it has
waited as long as a decision waits for a record (`LockBusy`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

from interlock.kernel.refusal import LockBusy, Overloaded
from interlock.kernel.storage import (
    CommitUnconfirmed,
    CommitUnknown,
    StoreDown,
    StoreUnwritable,
    WriteConflict,
)
from interlock.store.postgres.driver import (
    CUT,
    GONE,
    LOCKED,
    MIXED_UP,
    RACED,
    SERVER_SAID_NO,
    PostgresConnection,
    Warned,
    connect,
    is_gone,
    shares_backend,
)
from interlock.store.postgres.place import UNWRITABLE, why

A = TypeVar("A")

BEGIN = "BEGIN"

_SECONDS_MIN = 0.01
_READERS_MAX = 4
_READ_SECONDS_MIN = 0.05
_LOCKED_SECONDS = 2.0
_ROLLBACK_SECONDS = 1.0
_RETRY_SECONDS = (1.0, 30.0)
_SHARED = (
    "a pooler before PostgreSQL shares its connections between transactions (pool_mode = transaction or statement); "
    "Interlock needs prepared statements, session settings and LISTEN: set pool_mode = session for this database, or "
    "connect to PostgreSQL without the pooler"
)


class Deadline:
    """A moment, and how long it is until then."""

    def __init__(self, seconds: float) -> None:
        self._at = asyncio.get_running_loop().time() + seconds

    @property
    def left(self) -> float:
        return max(_SECONDS_MIN, self._at - asyncio.get_running_loop().time())


class _Budget:
    """One budget for the wait, the connection and the answer: a caller must not wait for three."""

    __slots__ = ("_clock", "_seconds", "asked_at", "queued_seconds")

    def __init__(self, seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._seconds = seconds
        self.asked_at = self._clock()
        self.queued_seconds = 0.0

    @property
    def spent(self) -> float:
        return self._clock() - self.asked_at

    @property
    def left(self) -> float:
        return max(_READ_SECONDS_MIN, self._seconds - self.spent)

    @property
    def went_into_queueing(self) -> bool:
        return self.queued_seconds > self._seconds / 2


class Writer:
    """A connection that batches are written on, and what the server warned of since `warnings` was last emptied."""

    def __init__(self, session: PostgresConnection) -> None:
        self.session = session
        self.warnings: list[str] = []
        session.add_log_listener(self._note)

    def _note(self, _session: object, warned: Warned) -> None:
        if (warned.severity_en or warned.severity) == "WARNING":
            self.warnings.append(warned.message)


class Connections:
    """All connections of one store."""

    def __init__(self, url: str, *, lanes: int, io_seconds: float) -> None:
        self._url = url
        self._io_seconds = io_seconds
        self._writers: asyncio.LifoQueue[Writer | None] = _slots(lanes)
        self._readers: asyncio.LifoQueue[PostgresConnection | None] = _slots(_READERS_MAX)
        self._down_at: float | None = None
        self._heard_at = float("-inf")
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def writer(self) -> AsyncGenerator[Writer]:
        """A writer whose transaction has begun, and is rolled back unless the caller commits it.

        Errors come out as those that the kernel knows.
        """
        writer = await self._writers.get()
        try:
            if writer is not None and not await self._has_begun(writer):
                writer = None
            if writer is None:
                writer = Writer(await self._connect(self._io_seconds))
                await writer.session.execute(BEGIN, timeout=self._io_seconds)
            yield writer
            await _roll_back(writer.session)
            self._hear()
        except BaseException as error:
            if writer is not None:
                await _end_transaction(writer.session, error)
            self._raise_named(error)
            raise
        finally:
            self._writers.put_nowait(writer)

    @contextlib.asynccontextmanager
    async def fresh(self, seconds: float) -> AsyncGenerator[PostgresConnection]:
        """A new connection for one purpose, closed afterwards."""
        session = await self._connect(seconds)
        try:
            yield session
        except BaseException as error:
            self._raise_named(error)
            raise
        finally:
            session.terminate()

    async def read(
        self,
        sql: str,
        arguments: Sequence[Any],
        seconds: float | None = None,
        *,
        lock_seconds: float = _LOCKED_SECONDS,
    ) -> list[Any]:
        """Run one statement by itself; a connection that went stale while idle is replaced once."""
        budget = _Budget(seconds or self._io_seconds)
        session = await self._free_reader(budget)
        try:
            if session is not None:
                with contextlib.suppress(*CUT):
                    return await self._fetch(session, sql, arguments, budget, lock_seconds)
                session.terminate()
                session = None
            session = await self._connect(budget.left)
            return await self._fetch(session, sql, arguments, budget, lock_seconds)
        except BaseException as error:
            if session is not None and is_gone(error):
                session.terminate()
            if budget.went_into_queueing and _is_late(error):
                raise self._too_late(budget, error) from error
            self._raise_named(error)
            raise
        finally:
            self._readers.put_nowait(session)
            if self._is_closed:
                await self.close()

    async def ping(self, seconds: float) -> None:
        """Return if the server answers this call or another in time; `StoreDown` if not."""
        with contextlib.suppress(Overloaded):
            await self.read("SELECT 1", (), seconds)

    async def expect_own_backend(self, session: PostgresConnection) -> None:
        """Refuse a pooler that gives a connection another backend between transactions."""
        if await shares_backend(session, self.own):
            raise StoreDown(_SHARED)

    async def own(self) -> PostgresConnection:
        """A connection for the caller to keep, and to throw away."""
        return await self._connect(self._io_seconds)

    def open(self) -> None:
        """Keep connections from now on, for the next call that needs one."""
        self._is_closed = False

    async def close(self) -> None:
        """Close the idle connections; a read that is under way closes its own when it ends."""
        self._is_closed = True
        while not self._writers.empty():
            writer = self._writers.get_nowait()
            if writer is not None:
                writer.session.terminate()
        while not self._readers.empty():
            session = self._readers.get_nowait()
            if session is not None:
                session.terminate()

    async def _has_begun(self, writer: Writer) -> bool:
        """Begin a transaction on a writer that was kept; False if its connection was lost while idle."""
        if not writer.session.is_closed():
            with contextlib.suppress(*CUT):
                await writer.session.execute(BEGIN, timeout=self._io_seconds)
                return True
        writer.session.terminate()
        return False

    async def _fetch(
        self,
        session: PostgresConnection,
        sql: str,
        arguments: Sequence[Any],
        budget: _Budget,
        lock_seconds: float,
    ) -> list[Any]:
        while True:
            try:
                return self._hear(await session.fetch(sql, *arguments, timeout=budget.left))
            except LOCKED as error:
                # The server waited a little for the lock before it said so.
                self._hear()
                if budget.spent >= lock_seconds or budget.left <= 2 * _READ_SECONDS_MIN:
                    raise LockBusy(
                        "another actor has locked a table and did not let go of it in time; nothing was read",
                        retry_after_seconds=budget.spent,
                    ) from error

    async def _free_reader(self, budget: _Budget) -> PostgresConnection | None:
        try:
            async with asyncio.timeout(budget.left):
                session = await self._readers.get()
        except TimeoutError as error:
            raise self._too_late(budget, error) from error
        budget.queued_seconds = budget.spent
        return None if session is None or session.is_closed() else session

    def _too_late(self, budget: _Budget, error: BaseException) -> Overloaded | StoreDown:
        """Why a waiting read had no answer: too many other reads, or no read has one."""
        waited = budget.spent
        if self._heard_at < budget.asked_at + waited / 2:
            return self._down(error)
        return Overloaded(
            f"{_READERS_MAX} reading connections had no time for this call in {waited:.1f} s, while PostgreSQL "
            "answered others; call again later",
            retry_after_seconds=waited,
        )

    def _hear(self, answer: A = None) -> A:
        """Note that the server answers."""
        self._heard_at, self._down_at = asyncio.get_running_loop().time(), None
        return answer

    async def _connect(self, seconds: float) -> PostgresConnection:
        try:
            async with asyncio.timeout(seconds):
                session = await connect(self._url, seconds)
        except MIXED_UP as error:
            raise StoreDown(_SHARED) from error
        except (*GONE, SERVER_SAID_NO, ValueError) as error:
            raise self._down(error) from error
        return self._hear(session)

    def _raise_named(self, error: BaseException) -> None:
        """Translate an error of the driver into one that the kernel knows, if there is one."""
        if isinstance(error, RACED):
            raise WriteConflict(str(error)) from error
        if isinstance(error, MIXED_UP):
            raise StoreDown(_SHARED) from error
        if is_gone(error):
            raise self._down(error) from error

    def _down(self, error: BaseException) -> StoreDown:
        """An outage is likely to last as long again as it has lasted."""
        now = time.monotonic()
        self._down_at = now if self._down_at is None else self._down_at
        least, most = _RETRY_SECONDS
        down = StoreUnwritable if isinstance(error, UNWRITABLE) else StoreDown
        return down(why(error, self._url), retry_after_seconds=min(most, max(least, now - self._down_at)))


def _is_late(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)


async def _end_transaction(session: PostgresConnection, error: BaseException) -> None:
    """Keep a connection only if its transaction is certainly over."""
    is_unsure = isinstance(error, CommitUnknown | CommitUnconfirmed) or is_gone(error)
    if isinstance(error, Exception) and not is_unsure and not session.is_closed():
        with contextlib.suppress(Exception):
            await _roll_back(session)
            return
    session.terminate()


async def _roll_back(session: PostgresConnection) -> None:
    if session.is_in_transaction():
        await session.execute("ROLLBACK", timeout=_ROLLBACK_SECONDS)


def _slots(count: int) -> asyncio.LifoQueue[Any]:
    """Room for this many connections, none of them made yet."""
    slots: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
    for _ in range(count):
        slots.put_nowait(None)
    return slots
