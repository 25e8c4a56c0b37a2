"""One connection: its requests are answered in their order, and it is bounded in what it waits for and keeps.

A request that was read whole is answered to the end even if its client goes away: a decision in flight is finished,
not torn off. Whatever is not HTTP gets a problem document like every other refusal, as the last answer.

A client that takes nothing of what is waiting for it, for `stalled_seconds`, is cut off: to close politely would
mean to wait until it reads. A stream's client comes back with the last id that it has read. A client that is still
sending when it gets its last answer is heard out for a while: a socket that is closed over unread input is reset, and
the answer may be lost with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from interlock.api.http import Response
from interlock.api.wire import LAST_CHUNK, encode_chunk, encode_head
from interlock.runtime.reading import NOT_READ, Asked, RequestReader
from interlock.runtime.stalling import Stall

if TYPE_CHECKING:
    from interlock.runtime.listening import Listening

# Requests sent ahead are read a few at a time: read, they take far more room than as bytes.
_PIECE_BYTES = 16 * 1024
# A request has to come whole in the time that a connection may be silent; so much of it earns that time again.
_PROGRESS_BYTES = 64 * 1024
_NOTHING = memoryview(b"")
_GO_AHEAD = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """One client's connection to what is `listening`."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._reader = RequestReader(
            ask=self._ask,
            go_ahead=self._go_ahead,
            gone=self._until_gone,
            body_bytes_max=listening.body_bytes_max,
            header_bytes_max=listening.header_bytes_max,
        )
        self._transport = cast("asyncio.Transport", None)
        self._line: deque[Asked] = deque()
        self._now: Asked | None = None
        self._stream: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._stall = Stall(listening)
        self._farewell: asyncio.TimerHandle | None = None
        # Noted when somebody asks, because to read the clock for every request costs something.
        self._heard_at = 0.0
        self._is_heard = True
        self._heard_bytes = 0
        self._unread = _NOTHING
        self._owes_go_ahead = False
        self._is_ending = False
        self._reads_on = True

    # What the socket tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many already."""
        self._transport = cast("asyncio.Transport", transport)
        if (refused := self._listening.met(self)) is not None:
            self._ask(Asked(NOT_READ, refused, keep_alive=False))

    def connection_lost(self, exc: Exception | None) -> None:
        """End: nobody is left to stream to, or to wait for."""
        self._listening.lost(self)
        self._line.clear()
        self._unread = _NOTHING
        self._stall.end()
        if self._farewell is not None:
            self._farewell.cancel()
        self._writable.set()
        self._gone.set()
        if self._stream is not None:
            self._stream.cancel()

    def data_received(self, data: bytes) -> None:
        """Take another piece of input."""
        if self._is_ending:
            return
        self._heard_bytes += len(data)
        if self._reader.is_between or self._heard_bytes > _PROGRESS_BYTES:
            self._is_heard, self._heard_bytes = True, 0
        if len(data) > _PIECE_BYTES:
            self._read(memoryview(data))
        else:
            self._reader.feed(data)
            if self._reader.is_over:
                self.end()

    def eof_received(self) -> bool:
        """The client says no more, and may still listen: it gets the answers that it asked for, and no stream."""
        self._gone.set()
        if self._stream is not None:
            self._stream.cancel()
        self._is_ending = True
        return self._now is not None or bool(self._line)

    def pause_writing(self) -> None:
        """More is waiting than the client takes; see whether it takes anything."""
        self._writable.clear()
        self._read_or_rest()
        self._stall.watch(self._transport)

    def resume_writing(self) -> None:
        """It reads."""
        self._stall.end()
        if self._has_left():
            self._stall.watch(self._transport)
        self._writable.set()
        self._go_on()

    # Answers, in the order of the requests.

    def _read(self, data: memoryview) -> None:
        """Read on until somebody has to wait."""
        self._unread = data
        while self._unread and not (self._line or self._is_ending) and self._writable.is_set():
            piece, self._unread = self._unread[:_PIECE_BYTES], self._unread[_PIECE_BYTES:]
            self._reader.feed(piece)
            if self._reader.is_over:
                self.end()
        if not self._reads_on:
            self._read_or_rest()

    def _ask(self, asked: Asked) -> None:
        self._owes_go_ahead = False
        self._line.append(asked)
        self._answer_line()

    def _go_ahead(self) -> None:
        self._owes_go_ahead = True
        self._tell_to_go_ahead()

    def _tell_to_go_ahead(self) -> None:
        """Tell whoever waits with its body, once it is its turn."""
        if self._owes_go_ahead and self._now is None and not (self._line or self._is_ending):
            self._owes_go_ahead = False
            self._transport.write(_GO_AHEAD)

    def _go_on(self) -> None:
        self._answer_line()
        if self._unread or self._owes_go_ahead:
            self._read(self._unread)
            self._tell_to_go_ahead()

    def _answer_line(self) -> None:
        while self._now is None and self._line and self._writable.is_set():
            self._now = asked = self._line.popleft()
            if asked.refused is not None:
                self._send(self._listening.app.refuse(asked.request, asked.refused))
            else:
                self._listening.answer(asked.request, self._send_and_go_on, self.abort)
        self._read_or_rest()

    def _send_and_go_on(self, response: Response) -> None:
        self._send(response)
        self._go_on()

    def _send(self, response: Response) -> None:
        asked = self._now
        if asked is None or self._transport.is_closing():
            return
        chunked = response.stream is not None and asked.can_chunk
        try:
            head = encode_head(response, keep_alive=self._stays(asked), chunked=chunked)
        except (ValueError, KeyError) as error:
            self._listening.app.report(error, asked.request)
            self._transport.abort()
            return
        self._transport.write(head + response.body)
        if response.stream is None:
            self._finish(asked)
        else:
            self._stream = self._listening.stream(self._send_stream(response.stream, chunked=chunked))
            self._stream.add_done_callback(self._end_stream)

    async def _send_stream(self, stream: AsyncIterator[bytes], *, chunked: bool) -> None:
        try:
            async for piece in stream:
                self._transport.write(encode_chunk(piece) if chunked else piece)
                await self._writable.wait()
        finally:
            await _close(stream)

    def _end_stream(self, sent: asyncio.Task[None]) -> None:
        """End properly what came to its end or was stopped; too late for another answer, what broke is torn."""
        asked, self._stream = cast("Asked", self._now), None
        if not sent.cancelled() and (error := sent.exception()) is not None:
            self._listening.app.report(error, asked.request)
            self._transport.abort()
        elif not self._transport.is_closing():
            self._transport.write(LAST_CHUNK if asked.can_chunk else b"")
            self._finish(asked)
            self._go_on()

    def _finish(self, asked: Asked) -> None:
        self._now = None
        if self._stays(asked):
            self._is_heard = True
        else:
            self._leave()

    def _stays(self, asked: Asked) -> bool:
        return asked.keep_alive and not (self._is_ending and not self._line)

    # Its end.

    def end(self) -> None:
        """Answer what was read whole, and close."""
        self._is_ending = True
        if self._farewell is not None:
            self._linger()
        elif self._now is None and not self._line:
            self._leave()

    def end_if_silent(self, since: float) -> None:
        """Close if nothing is being answered and nothing came of a request since then, as far as was asked."""
        if self._is_heard:
            self._heard_at, self._is_heard = self._listening.loop.time(), False
        if self._now is None and not self._line and self._heard_at < since:
            self._leave()

    def _leave(self) -> None:
        """Close, or hear a client out that is in the middle of a request; nobody would hear further answers."""
        if self._has_left():
            return
        self._is_ending = True
        self._line.clear()
        self._unread = _NOTHING
        if self._reader.is_between or self._gone.is_set():
            self._transport.close()
        else:
            self._transport.write_eof()
            self._linger()
            self._read_or_rest()
        self._stall.watch(self._transport)

    def _linger(self) -> None:
        """Wait for the client's end, but no longer than this; a server that stops has less patience."""
        if self._farewell is not None:
            self._farewell.cancel()
        later = self._listening.loop.call_later
        self._farewell = later(self._listening.linger_seconds, self._transport.close)

    def _has_left(self) -> bool:
        return self._farewell is not None or self._transport.is_closing()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    async def _until_gone(self) -> None:
        await self._gone.wait()

    def _read_or_rest(self) -> None:
        """Read on only while there is nothing in line and the client takes its answers."""
        wanted = not (self._line or self._unread) and self._writable.is_set()
        if wanted != self._reads_on and not (self._transport.is_closing() or self._gone.is_set()):
            self._reads_on = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
