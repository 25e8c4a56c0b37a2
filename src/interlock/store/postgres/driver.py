"""The part of asyncpg that the store uses, fully typed, and the meaning of its errors.

The protocols describe asyncpg's own connection and cost nothing at run time. Settings are made by a statement after
connecting, because poolers such as pgbouncer refuse start-up parameters that they do not know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

# Errors of a connection that was cut while idle, when it is used again. The driver reports the server's last
# message as an error of its own until it notices that the connection is closed.
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
    # The database is being restored, or rights are being changed: what is missing was there when the store was opened.
    asyncpg.UndefinedTableError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.PostgresSystemError,
    OSError,
    TimeoutError,
)
# Errors of one of several hosts while another is the primary.
_ASK_THE_NEXT = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TargetServerAttributeNotMatched,
)
LOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
RACED = (asyncpg.UniqueViolationError, asyncpg.SerializationError, *LOCKED)
# Errors of a connection whose prepared statements are on another backend than its transaction.
MIXED_UP = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
SERVER_SAID_NO = asyncpg.PostgresError

_LOCK_TIMEOUT_MS = 50
_IDLE_IN_TRANSACTION_MS = 2000
# The server keeps a plan for each, of up to a few hundred kilobytes.
_STATEMENTS_KEPT = 256
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
# An acknowledged commit must survive a crash, whatever the default of the database or the role.
_DURABLE = "set_config('synchronous_commit', 'on', false)"
_SET_UP = (
    "SELECT "
    + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
    + f", CASE current_setting('synchronous_commit') WHEN 'off' THEN {_DURABLE} END"
)


class Warned(Protocol):
    """A message of the server that is no answer: a notice or a warning."""

    severity: str
    severity_en: str | None
    message: str


class PostgresConnection(Protocol):
    """One connection to PostgreSQL."""

    def execute(self, query: str, *args: object, timeout: float | None = None) -> Awaitable[str]: ...

    def fetch(self, query: str, *args: object, timeout: float | None = None) -> Awaitable[list[Any]]: ...

    def fetchval(self, query: str, *args: object, timeout: float | None = None) -> Awaitable[Any]: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_log_listener(self, callback: Callable[[Any, Warned], None]) -> None: ...

    def get_server_pid(self) -> int: ...

    def is_in_transaction(self) -> bool: ...

    def is_closed(self) -> bool: ...

    def terminate(self) -> None: ...


async def connect(url: str, seconds: float) -> PostgresConnection:
    """A connection to the primary, with every setting that the store relies on.

    The hosts of the URL are tried in their order, each within its share of the time. The driver alone would spend
    all of the time on a host that hangs, and never try the next.
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


async def _connect_to(url: str, seconds: float, command_seconds: float) -> PostgresConnection:
    session = cast(
        "PostgresConnection",
        await cast("Any", asyncpg).connect(
            url,
            timeout=seconds,
            command_timeout=command_seconds,
            statement_cache_size=_STATEMENTS_KEPT,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            target_session_attrs="primary",
        ),
    )
    try:
        await session.execute(_SET_UP, timeout=seconds)
    except BaseException:
        session.terminate()
        raise
    return session


async def shares_backend(
    session: PostgresConnection, another: Callable[[], Awaitable[PostgresConnection]]
) -> bool:
    """Whether a pooler lets other connections use this one's backend between two transactions.

    A pooler is recognised because it reports backend numbers of its own. If it shares backends, a second connection
    that begins a transaction gets this one's backend, or this one gets another backend while that transaction
    lasts. A pooler with several idle backends may go unnoticed; then prepared statements are missing sooner or
    later (`MIXED_UP`).
    """
    backend = await _backend(session)
    if backend == session.get_server_pid():
        return False
    second = await another()
    try:
        await second.execute("BEGIN")
        return await _backend(second) == backend or await _backend(session) != backend
    except asyncpg.PostgresConnectionError as error:
        if isinstance(error.__cause__ or error, asyncpg.ProtocolViolationError):
            return True  # It allows no transaction of several statements at all.
        raise
    finally:
        second.terminate()


async def _backend(session: PostgresConnection) -> int:
    return int(await session.fetchval("SELECT pg_backend_pid()"))


def is_gone(error: BaseException) -> bool:
    """Whether the error says that the server or the way to it is gone.

    A value that cannot be sent is an `InterfaceError` too, but it is the value's fault.
    """
    return isinstance(error, GONE) and not isinstance(error, ValueError)
