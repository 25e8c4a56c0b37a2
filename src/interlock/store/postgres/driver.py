"""The part of asyncpg that the store uses, with its types said in full, and which of its errors mean what.

The protocol costs nothing at run time: it describes asyncpg's own connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

# What a connection that was cut while idle says when it is used. The driver calls the server's goodbye a fault
# of its own, as nobody was waiting for it, until it hears that the connection is closed too.
CUT = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.InternalClientError,
    ConnectionError,
)
GONE = (
    *CUT,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.ReadOnlySQLTransactionError,
    # Somebody is restoring the database or changing rights: what is missing was there when the store was opened.
    asyncpg.UndefinedTableError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.PostgresSystemError,
    OSError,
    TimeoutError,
)
# What one of several hosts may say while another is the primary.
_ASK_THE_NEXT = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TargetServerAttributeNotMatched,
)
LOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
RACED = (asyncpg.UniqueViolationError, asyncpg.SerializationError, *LOCKED)
# What `postgres_sql.write` fails with on purpose.
MISCOUNTED = asyncpg.DivisionByZeroError
SERVER_SAID_NO = asyncpg.PostgresError

_LOCK_TIMEOUT_MS = 50
_IDLE_IN_TRANSACTION_MS = 2000
_STATEMENTS_KEPT = 512
_HOST_SECONDS_MAX = 2.0

# Plans are made once and must stay good: an index is always right, and its condition says for whom (decision 0033).
_SETTINGS = {
    "application_name": "interlock",
    "lock_timeout": str(_LOCK_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(_IDLE_IN_TRANSACTION_MS),
    # Every wait is bounded on this side; a COMMIT that the server itself cuts short while it waits for a standby counts
    # as done there only, which it says in a warning.
    "statement_timeout": "0",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
# What is acknowledged must survive a crash, whatever the database's or the role's default says.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)

_BACKEND = (
    "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
_CANCEL = (
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
    "WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2"
)


class Backend(NamedTuple):
    """The server's process on the other side: its number, and when it began, for numbers are used again."""

    number: int
    began: str


class _Connection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument, reportUntypedBaseClass]
    """asyncpg's connection, which somebody else may take over."""

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        transport = cast("asyncio.Transport", self._transport)
        transport.set_protocol(protocol)
        return transport

    def note_loss(self, why: Exception | None) -> None:
        protocol = cast("asyncio.Protocol | None", self._protocol)  # pyright: ignore[reportUnknownMemberType]
        if protocol is not None:
            protocol.connection_lost(why)


class Session(Protocol):
    """One connection to PostgreSQL."""

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """From now on `protocol` hears what the server says; all that is left for this side is to end it."""
        ...

    def note_loss(self, why: Exception | None) -> None:
        """Take note that a connection which was handed over is gone."""
        ...

    def execute(self, query: str, *args: object, timeout: float | None = None) -> Awaitable[str]: ...

    def fetch(self, query: str, *args: object, timeout: float | None = None) -> Awaitable[list[Any]]: ...

    def fetchval(self, query: str, *args: object, timeout: float | None = None) -> Awaitable[Any]: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...


async def connect(url: str, seconds: float) -> Session:
    """A connection to the primary, with every setting that the store relies on.

    The hosts of the URL are asked in their order, and each has its share of the time: the driver by itself would wait
    for one that hangs for as long as there is, and never ask the next.
    """
    *others, last = each_host(url)
    share = min(_HOST_SECONDS_MAX, seconds / (1 + len(others)))
    for host in others:
        with contextlib.suppress(*_ASK_THE_NEXT):
            return await _connect_to(host, share, seconds)
    return await _connect_to(last, seconds, seconds)


def each_host(url: str) -> list[str]:
    """The URL once for every host that it names."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


async def _connect_to(url: str, seconds: float, command_seconds: float) -> Session:
    session = cast(
        "Session",
        await cast("Any", asyncpg).connect(
            url,
            connection_class=_Connection,
            timeout=seconds,
            command_timeout=command_seconds,
            statement_cache_size=_STATEMENTS_KEPT,
            max_cached_statement_lifetime=0,
            target_session_attrs="primary",
            server_settings=_SETTINGS,
        ),
    )
    try:
        await session.execute(_DURABLE, timeout=seconds)
    except BaseException:
        session.terminate()
        raise
    return session


async def backend_of(session: Session) -> Backend:
    """As the server itself knows it: what a pooler in between says is its own."""
    return Backend(*(await session.fetch(_BACKEND))[0])


async def cancel(session: Session, backend: Backend, seconds: float) -> None:
    """Have another process of the server give up what it is at, if it is still the same."""
    await session.fetch(_CANCEL, *backend, timeout=seconds)


def error_of(fields: Mapping[str, str]) -> Exception:
    """The error that the fields of the server's message tell of."""
    return cast("Any", asyncpg).PostgresError.new(fields)


def is_gone(error: BaseException) -> bool:
    """Whether the error says that the server or the way to it is gone.

    A value that cannot be sent is an `InterfaceError` too, but it is the value's fault.
    """
    return isinstance(error, GONE) and not isinstance(error, ValueError)


def throw_away(session: Session) -> None:
    """Cut the connection; whatever was under way on it is not waited for."""
    session.terminate()
