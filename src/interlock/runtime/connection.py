"""One connection: its requests are read no faster than they are answered, and it is bounded in what it keeps.

What it says is in `answering`, how it ends in `leaving`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from interlock.runtime.answering import Answers
from interlock.runtime.leaving import Leaving
from interlock.runtime.reading import NOT_READ, Asked, RequestReader

if TYPE_CHECKING:
    from interlock.runtime.listening import Listening

# Requests sent ahead are read a few at a time: read, they take far more room than as bytes.
_PIECE_BYTES = 16 * 1024
# A request has to come whole in the time that a connection may be silent; so much of it earns that time again.
_PROGRESS_BYTES = 64 * 1024
_NOTHING = memoryview(b"")


class Connection(asyncio.Protocol):
    """One client's connection to what is `listening`."""

    # There from `connection_made` on, before which nothing happens.
    _transport: asyncio.Transport
    _leaving: Leaving
    _answers: Answers
    _line: deque[Asked]
    _writable: asyncio.Event
    _reader: RequestReader

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._heard_bytes = 0
        self._unread = _NOTHING
        self._reads_on = True

    # What the socket tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many already."""
        self._transport = cast("asyncio.Transport", transport)
        self._leaving = Leaving(self._listening, self._transport)
        self._answers = Answers(self._listening, self, self._transport, self._leaving)
        # Looked at twice for every request, which is worth the names.
        self._line, self._writable = self._answers.line, self._answers.writable
        self._reader = RequestReader(
            ask=self._answers.ask,
            go_ahead=self._answers.go_ahead,
            gone=self._leaving.until_gone,
            body_bytes_max=self._listening.body_bytes_max,
            header_bytes_max=self._listening.header_bytes_max,
        )
        if (refused := self._listening.met(self)) is not None:
            self._answers.ask(Asked(NOT_READ, refused, keep_alive=False))

    def connection_lost(self, exc: Exception | None) -> None:
        """End: nobody is left to stream to, or to wait for."""
        self._listening.lost(self)
        self._unread = _NOTHING
        self._leaving.be_gone()
        self._answers.forget()

    def data_received(self, data: bytes) -> None:
        """Take another piece of input."""
        if self._leaving.is_begun:
            return
        self._heard_bytes += len(data)
        if self._reader.is_between or self._heard_bytes > _PROGRESS_BYTES:
            self._leaving.is_heard, self._heard_bytes = True, 0
        if len(data) > _PIECE_BYTES:
            self._read(memoryview(data))
        else:
            self._reader.feed(data)
            if self._reader.is_over:
                self.end()

    def eof_received(self) -> bool:
        """The client says no more, and may still listen: it gets the answers that it asked for, and no stream."""
        self._leaving.is_begun = True
        self._leaving.gone.set()
        self._answers.stop_stream()
        return self._answers.are_owed()

    def pause_writing(self) -> None:
        """More is waiting than the client takes; see whether it takes anything."""
        self._writable.clear()
        self.read_or_rest()
        self._leaving.see_whether_it_reads()

    def resume_writing(self) -> None:
        """It reads."""
        self._leaving.see_that_it_reads()
        self._writable.set()
        self.go_on()

    # What the server tells.

    def end(self) -> None:
        """Answer what was read whole, and close."""
        self._leaving.is_begun = True
        if self._leaving.is_lingering():
            self._leaving.linger()
        elif not self._answers.are_owed():
            self.leave()

    def end_if_silent(self, since: float) -> None:
        """Close if nothing is being answered and nothing came of a request since then, as far as was asked."""
        if self._leaving.is_silent(since) and not self._answers.are_owed():
            self.leave()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # What its answers tell.

    def read_or_rest(self) -> None:
        """Read on only while there is nothing in line and the client takes its answers."""
        wanted = not (self._line or self._unread) and self._writable.is_set()
        if wanted != self._reads_on and not (self._transport.is_closing() or self._leaving.gone.is_set()):
            self._reads_on = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def go_on(self) -> None:
        """Something was answered, or can be; whatever waited for that goes on."""
        self._answers.answer_line()
        if self._unread or self._answers.owes_go_ahead:
            self._read(self._unread)
            self._answers.tell_to_go_ahead()

    def leave(self) -> None:
        """Close, or hear a client out that is in the middle of a request; nobody would hear further answers."""
        if self._leaving.has_left():
            return
        self._line.clear()
        self._unread = _NOTHING
        if self._reader.is_between or self._leaving.gone.is_set():
            self._leaving.close()
        else:
            self._leaving.hear_out()
            self.read_or_rest()

    def _read(self, data: memoryview) -> None:
        """Read on until somebody has to wait."""
        self._unread = data
        while self._unread and not (self._line or self._leaving.is_begun) and self._writable.is_set():
            piece, self._unread = self._unread[:_PIECE_BYTES], self._unread[_PIECE_BYTES:]
            self._reader.feed(piece)
            if self._reader.is_over:
                self.end()
        if not self._reads_on:
            self.read_or_rest()
