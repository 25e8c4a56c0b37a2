"""Statements that travel together: sent to PostgreSQL in one go, answered in their order.

A batch asks PostgreSQL three times: BEGIN with the first load, the second load, and the writes with COMMIT. A driver
that waits for each answer before it sends the next statement asks five times, and looks at every value twice. So
asyncpg makes the connection (hosts, TLS, passwords, settings) and hands it over to a `Pipeline`, which speaks as much
of the protocol as batches need: prepared statements, values and answers as text.

An error ends its exchange: PostgreSQL skips what was sent behind it, a COMMIT above all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from interlock.store.postgres.driver import SERVER_SAID_NO, Backend, Session, error_of

Value = str | bytes | None
Row = tuple[bytes | None, ...]

# The server keeps a plan for each, which takes up to a few hundred kilobytes of it.
_STATEMENTS_MAX: Final = 256

_HEAD: Final = Struct("!cI")
_LENGTH: Final = Struct("!i")
_COUNT: Final = Struct("!H")
_NULL: Final = _LENGTH.pack(-1)
_EXECUTE: Final = b"E" + _LENGTH.pack(9) + b"\0" + _LENGTH.pack(0)
_SYNC: Final = b"S" + _LENGTH.pack(4)

_DATA_ROW, _COMPLETE, _ERROR, _NOTICE, _PARSED, _READY = b"DCEN1Z"
_IDLE: Final = b"I"
_FAILED: Final = b"E"


class Asked(NamedTuple):
    """One statement and its values, which travel as text: the statement says what they are."""

    sql: str
    values: Sequence[Value] = ()


class Answer(NamedTuple):
    """What one statement found and did (`tag`, such as COMMIT), and what the server warned of meanwhile."""

    rows: list[Row]
    tag: str
    warning: str


BEGIN, COMMIT, ROLLBACK = Asked("BEGIN"), Asked("COMMIT"), Asked("ROLLBACK")


class NotSent(ConnectionError):
    """The connection was gone before anything was sent on it."""


class Lost(ConnectionResetError):
    """The connection went after so many statements were answered; `warning` is what the server said of the next."""

    def __init__(self, why: object, answered: int, warning: str) -> None:
        super().__init__(f"the connection is gone: {why}")
        self.answered = answered
        self.warning = warning


class _Exchange:
    """Statements that were sent together, and what has come back so far."""

    __slots__ = ("answers", "done", "error", "rows", "unparsed", "warning")

    def __init__(self, done: asyncio.Future[list[Answer]], unparsed: deque[str]) -> None:
        self.done = done
        self.unparsed = unparsed
        self.answers: list[Answer] = []
        self.rows: list[Row] = []
        self.warning = ""
        self.error: Exception | None = None


class Pipeline(asyncio.Protocol):
    """A connection that carries one exchange at a time."""

    def __init__(self, session: Session, backend: Backend) -> None:
        self.backend = backend
        self._session = session
        self._transport = session.hand_over(self)
        self._statements: dict[str, bytes] = {}
        self._prepared = 0
        self._exchange: _Exchange | None = None
        self._parts: list[bytes] = []
        self._missing = 5
        self._closed = self._transport.is_closing()
        self._status = _IDLE

    # What a batch uses.

    async def ask(self, *asked: Asked, seconds: float) -> list[Answer]:
        """Send these together; an answer each, or the error that one of them met.

        `NotSent` if nothing was sent. If nothing is heard in time, or the connection goes, nobody knows what was done.
        """
        if self.is_closed():
            raise NotSent("the connection is closed")
        if self._exchange is not None:
            raise RuntimeError("an exchange is under way on this connection")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Answer]] = loop.create_future()
        self._send(asked, done)
        late = loop.call_later(seconds, _give_up, done)
        try:
            return await done
        finally:
            late.cancel()

    async def hear_out(self, seconds: float) -> None:
        """Wait for the end of an exchange that nobody waits for any more."""
        if self._exchange is not None:
            done = self._exchange.done = asyncio.get_running_loop().create_future()
            with contextlib.suppress(SERVER_SAID_NO):
                async with asyncio.timeout(seconds):
                    await done

    @property
    def is_busy(self) -> bool:
        """Whether the server is still at something that nobody waits for."""
        return self._exchange is not None

    @property
    def is_in_transaction(self) -> bool:
        return self._status != _IDLE

    @property
    def has_failed(self) -> bool:
        """Whether a transaction is open that can only be rolled back: none of it was, or ever will be, committed."""
        return self._status == _FAILED

    def is_closed(self) -> bool:
        return self._closed or self._transport.is_closing()

    def terminate(self) -> None:
        """Cut the connection; whatever was under way on it is not waited for."""
        if self._transport.is_closing():
            self._session.note_loss(None)
        else:
            self._session.terminate()
        self._lose(None)

    def _send(self, asked: Sequence[Asked], done: asyncio.Future[list[Answer]]) -> None:
        # First what could fail: a statement counts as prepared only if it is sent.
        encoded = [_encoded(values) for _, values in asked]
        messages: list[bytes] = []
        unparsed: deque[str] = deque()
        for (sql, _), values in zip(asked, encoded, strict=True):
            name = self._statements.pop(sql, None)
            if name is None:
                unparsed.append(sql)
                name = self._prepare(sql, messages)
            self._statements[sql] = name  # At the end: the one at the beginning is the next to go.
            messages += (_HEAD.pack(b"B", 5 + len(name) + len(values)), b"\0", name, values, _EXECUTE)
        messages.append(_SYNC)
        self._exchange = _Exchange(done, unparsed)
        self._transport.write(b"".join(messages))

    def _prepare(self, sql: str, messages: list[bytes]) -> bytes:
        if len(self._statements) >= _STATEMENTS_MAX:
            oldest = self._statements.pop(next(iter(self._statements)))
            # At the very beginning: behind an error it would be skipped, and kept by the server for ever.
            messages.insert(0, _message(b"C", b"S" + oldest))
        self._prepared += 1
        name = b"s%d\0" % self._prepared
        messages.append(_message(b"P", name + sql.encode() + b"\0\0\0"))
        return name

    # What the event loop uses.

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return
        data = b"".join(self._parts) if len(self._parts) > 1 else data
        at, end = 0, len(data)
        missing = 5
        while end - at >= 5:
            size = int.from_bytes(data[at + 1 : at + 5], "big") + 1
            if at + size > end:
                missing = size
                break
            self._take(data[at], data, at + 5, at + size)
            at += size
        rest = data[at:]
        self._parts = [rest] if rest else []
        self._missing = missing - len(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.note_loss(exc)
        self._lose(exc)

    def _take(self, kind: int, data: bytes, at: int, end: int) -> None:
        exchange = self._exchange
        if exchange is None:
            if kind == _ERROR:  # Between exchanges that is a goodbye.
                self.terminate()
        elif kind == _DATA_ROW:
            exchange.rows.append(_fields(data, at))
        elif kind == _COMPLETE:
            tag = data[at : end - 1].decode()
            exchange.answers.append(Answer(exchange.rows, tag, exchange.warning))
            exchange.rows, exchange.warning = [], ""
        elif kind == _PARSED:
            exchange.unparsed.popleft()
        elif kind == _READY:
            self._status = data[at:end]
            self._exchange = None
            for sql in exchange.unparsed:
                self._statements.pop(sql, None)
            self._finish(exchange)
        elif kind == _ERROR:
            exchange.error = exchange.error or error_of(_said(data, at))
        elif kind == _NOTICE:
            said = _said(data, at)
            if said.get("V", said.get("S")) == "WARNING":
                exchange.warning = said.get("M", "")

    def _finish(self, exchange: _Exchange) -> None:
        if exchange.done.done():
            return
        if exchange.error is not None:
            exchange.done.set_exception(exchange.error)
        else:
            exchange.done.set_result(exchange.answers)

    def _lose(self, why: Exception | None) -> None:
        self._closed = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None and not exchange.done.done():
            said = exchange.error or why or "no reason was given"
            exchange.done.set_exception(Lost(said, len(exchange.answers), exchange.warning))


def _give_up(done: asyncio.Future[list[Answer]]) -> None:
    if not done.done():
        done.set_exception(TimeoutError("PostgreSQL did not answer in time"))


def _message(kind: bytes, content: bytes) -> bytes:
    return _HEAD.pack(kind, len(content) + 4) + content


def _encoded(values: Sequence[Value]) -> bytes:
    """The part of a Bind message that says which formats are used (text), the values, and what format to answer in."""
    parts = [b"\0\0", _COUNT.pack(len(values))]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            text = value if isinstance(value, bytes) else value.encode()
            parts += (_LENGTH.pack(len(text)), text)
    parts.append(b"\0\0")
    return b"".join(parts)


def _fields(data: bytes, at: int) -> Row:
    count = int.from_bytes(data[at : at + 2], "big")
    at += 2
    fields: list[bytes | None] = []
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(data, at)
        at += 4
        if size < 0:
            fields.append(None)
        else:
            fields.append(data[at : at + size])
            at += size
    return tuple(fields)


def _said(data: bytes, at: int) -> dict[str, str]:
    """The fields of an error or a notice."""
    found: dict[str, str] = {}
    while data[at]:
        stop = data.index(0, at + 1)
        found[chr(data[at])] = data[at + 1 : stop].decode(errors="replace")
        at = stop + 1
    return found
