"""One connection: its requests are answered in their order, and it is bounded in what it waits for and keeps.

A request that was read whole is answered to the end even if its client goes away: a decision in flight is finished,
not torn off. Whatever is not HTTP gets a problem document like every other refusal, as the last answer.

A client that takes nothing of what is waiting for it, for `stalled_seconds`, is cut off: to close politely would
mean to wait until it reads. A stream's client comes back with the last id that it has read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from interlock.api.http import Response
from interlock.api.wire import LAST_CHUNK, encode_chunk, encode_head
from interlock.runtime.reading import Asked, RequestReader

if TYPE_CHECKING:
    from interlock.runtime.listening import Listening

log = logging.getLogger(__name__)

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
        self._stall: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._is_ending = False
        self._reads_on = True

    # What the socket tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._heard_at = self._listening.loop.time()
        self._listening.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End: nobody is left to stream to, or to wait for."""
        self._listening.lost(self)
        self._line.clear()
        self._end_stall()
        self._writable.set()
        self._gone.set()
        if self._stream is not None:
            self._stream.cancel()

    def data_received(self, data: bytes) -> None:
        """Take another piece of input."""
        self._heard_at = self._listening.loop.time()
        if not self._is_ending:
            self._reader.feed(data)
            if self._reader.is_over:
                self.end()

    def pause_writing(self) -> None:
        """More is waiting than the client takes; see whether it takes anything."""
        self._writable.clear()
        self._read_or_rest()
        self._expect_reading()

    def resume_writing(self) -> None:
        """It reads."""
        self._end_stall()
        self._writable.set()
        self._answer_line()

    # Answers, in the order of the requests.

    def _ask(self, asked: Asked) -> None:
        self._line.append(asked)
        self._answer_line()

    def _go_ahead(self) -> None:
        if self._now is None and not self._line:
            self._transport.write(_GO_AHEAD)

    def _answer_line(self) -> None:
        while self._now is None and self._line and self._writable.is_set():
            self._now = asked = self._line.popleft()
            if asked.refused is not None:
                self._send(self._listening.app.refuse(asked.request, asked.refused))
            else:
                self._listening.answer(asked.request, self._send_and_go_on)
        self._read_or_rest()

    def _send_and_go_on(self, response: Response) -> None:
        self._send(response)
        self._answer_line()

    def _send(self, response: Response) -> None:
        asked = self._now
        if asked is None or self._transport.is_closing():
            return
        if response.stream is not None:
            self._stream = self._listening.stream(self._send_stream(asked, response))
            return
        try:
            head = encode_head(response, keep_alive=self._stays(asked))
        except (ValueError, KeyError) as error:
            self._listening.app.report(error, asked.request)
            self._transport.abort()
            return
        self._transport.write(head + response.body)
        self._finish(asked)

    async def _send_stream(self, asked: Asked, response: Response) -> None:
        """Send until the stream ends, the client leaves, the server stops, or the stream breaks."""
        stream, chunked = cast("Any", response.stream), asked.can_chunk
        self._transport.write(encode_head(response, keep_alive=self._stays(asked), chunked=chunked))
        try:
            async for piece in stream:
                self._transport.write(encode_chunk(piece) if chunked else piece)
                await self._writable.wait()
        except asyncio.CancelledError:
            pass  # Whoever stops a stream wants it to end properly.
        except Exception as error:  # noqa: BLE001 - too late for another answer: the client sees it torn
            self._listening.app.report(error, asked.request)
            self._transport.abort()
        finally:
            await _close(stream)
        self._stream = None
        if not self._transport.is_closing():
            self._transport.write(LAST_CHUNK if chunked else b"")
            self._finish(asked)
            self._answer_line()

    def _finish(self, asked: Asked) -> None:
        self._now = None
        if not self._stays(asked):
            self._is_ending = True
            self._line.clear()  # Nobody would hear the answers.
            self._transport.close()

    def _stays(self, asked: Asked) -> bool:
        return asked.keep_alive and not (self._is_ending and not self._line)

    # Its end.

    def end(self) -> None:
        """Answer what was read whole, and close."""
        self._is_ending = True
        if self._now is None and not self._line:
            self._transport.close()

    def end_if_silent(self, since: float) -> None:
        """Close if nothing is being answered and nothing was heard since then."""
        if self._now is None and self._heard_at < since:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    async def _until_gone(self) -> None:
        await self._gone.wait()

    def _read_or_rest(self) -> None:
        """Read on only while there is nothing in line and the client takes its answers."""
        wanted = not self._line and self._writable.is_set()
        if wanted != self._reads_on and not self._transport.is_closing():
            self._reads_on = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _expect_reading(self) -> None:
        unsent_bytes = self._transport.get_write_buffer_size()
        self._stall = self._listening.loop.call_later(
            self._listening.stalled_seconds, self._judge_reading, unsent_bytes
        )

    def _judge_reading(self, before_bytes: int) -> None:
        if self._transport.get_write_buffer_size() < before_bytes:
            self._expect_reading()
        else:
            log.info("a client read nothing for %s s; its connection is cut", self._listening.stalled_seconds)
            self._listening.cut.add()
            self._transport.abort()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
