"""Answers to one client, in the order of its requests.

A request that was read whole is answered to the end even if its client goes away: a decision in flight is finished,
not torn off. Whatever is not HTTP gets a problem document like every other refusal, as the last answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from interlock.api.http import Response
from interlock.api.wire import LAST_CHUNK, encode_chunk, encode_head
from interlock.runtime.leaving import Leaving
from interlock.runtime.reading import Asked

if TYPE_CHECKING:
    from interlock.runtime.connection import Connection
    from interlock.runtime.listening import Listening

_GO_AHEAD = b"HTTP/1.1 100 Continue\r\n\r\n"


class Answers:
    """One answer at a time; the requests behind it wait in `line`, and all of them while nothing is `writable`.

    The connection is told to read or rest when the line may have become longer or shorter, to go on after an answer
    that was not there at once, and to leave after the last. `owes_go_ahead` is set while a client waits with its body.
    """

    def __init__(
        self,
        listening: Listening,
        connection: Connection,
        transport: asyncio.Transport,
        leaving: Leaving,
    ) -> None:
        self.line: deque[Asked] = deque()
        self.writable = asyncio.Event()
        self.writable.set()
        self.owes_go_ahead = False
        self._listening = listening
        self._transport = transport
        self._leaving = leaving
        self._connection = connection
        self._now: Asked | None = None
        self._stream: asyncio.Task[None] | None = None

    def ask(self, asked: Asked) -> None:
        """Answer this when it is its turn."""
        self.owes_go_ahead = False
        self.line.append(asked)
        self.answer_line()

    def go_ahead(self) -> None:
        """A client waits with its body; tell it to send that when it is its turn."""
        self.owes_go_ahead = True
        self.tell_to_go_ahead()

    def tell_to_go_ahead(self) -> None:
        """Tell whoever waits with its body, once it is its turn."""
        if self.owes_go_ahead and self._now is None and not (self.line or self._leaving.is_begun):
            self.owes_go_ahead = False
            self._transport.write(_GO_AHEAD)

    def are_owed(self) -> bool:
        """Whether something is being answered, or waits for it."""
        return self._now is not None or bool(self.line)

    def answer_line(self) -> None:
        """Answer whatever need not wait."""
        while self._now is None and self.line and self.writable.is_set():
            self._now = asked = self.line.popleft()
            if asked.refused is not None:
                self._send(self._listening.app.refuse(asked.request, asked.refused))
            else:
                self._listening.answer(asked.request, self._send_and_go_on, self._transport.abort)
        self._connection.read_or_rest()

    def stop_stream(self) -> None:
        """End a stream that nobody listens to."""
        if self._stream is not None:
            self._stream.cancel()

    def forget(self) -> None:
        """Nobody is left to answer."""
        self.line.clear()
        self.writable.set()
        self.stop_stream()

    def _send_and_go_on(self, response: Response) -> None:
        self._send(response)
        self._connection.go_on()

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
                await self.writable.wait()
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
            self._connection.go_on()

    def _finish(self, asked: Asked) -> None:
        self._now = None
        if self._stays(asked):
            self._leaving.is_heard = True
        else:
            self._connection.leave()

    def _stays(self, asked: Asked) -> bool:
        return asked.keep_alive and not (self._leaving.is_begun and not self.line)


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
