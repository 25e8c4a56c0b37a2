"""How a connection ends: when its client has been silent for too long, and without losing the last answer.

A client that takes nothing of what is waiting for it, for `stalled_seconds`, is cut off: to close politely would
mean to wait until it reads. A stream's client comes back with the last id that it has read. A client that is still
sending when it gets its last answer is heard out for a while: a socket that is closed over unread input is reset, and
the answer may be lost with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock.runtime.stalling import Stall

if TYPE_CHECKING:
    from interlock.runtime.listening import Listening


class Leaving:
    """The end of one connection.

    `is_begun` is set once no further request is taken, `is_heard` when something came of one or was answered;
    `gone` when the client has said its last, or is lost.
    """

    def __init__(self, listening: Listening, transport: asyncio.Transport) -> None:
        self.is_begun = False
        self.is_heard = True
        self.gone = asyncio.Event()
        self._listening = listening
        self._transport = transport
        self._stall = Stall(listening)
        self._farewell: asyncio.TimerHandle | None = None
        # Noted when somebody asks, because to read the clock for every request costs something.
        self._heard_at = 0.0

    def is_silent(self, since: float) -> bool:
        """Whether nothing came of a request since then, as far as was asked."""
        if self.is_heard:
            self._heard_at, self.is_heard = self._listening.loop.time(), False
        return self._heard_at < since

    def is_lingering(self) -> bool:
        """Whether the client has its last answer, and is heard out."""
        return self._farewell is not None

    def has_left(self) -> bool:
        """Whether there is nothing more to say."""
        return self._farewell is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close once the client has taken what is waiting for it."""
        self.is_begun = True
        self._transport.close()
        self._stall.watch(self._transport)

    def hear_out(self) -> None:
        """Say no more, and close once the client says no more either."""
        self.is_begun = True
        self._transport.write_eof()
        self.linger()
        self._stall.watch(self._transport)

    def linger(self) -> None:
        """Wait for the client's end, but no longer than this; a server that stops has less patience."""
        if self._farewell is not None:
            self._farewell.cancel()
        later = self._listening.loop.call_later
        self._farewell = later(self._listening.linger_seconds, self._transport.close)

    def see_whether_it_reads(self) -> None:
        """More is waiting than the client takes."""
        self._stall.watch(self._transport)

    def see_that_it_reads(self) -> None:
        """It takes what is waiting; one that was told to leave is watched until it has."""
        self._stall.end()
        if self.has_left():
            self._stall.watch(self._transport)

    async def until_gone(self) -> None:
        """Wait for the client to say no more, or to be lost."""
        await self.gone.wait()

    def be_gone(self) -> None:
        """The socket is closed."""
        self._stall.end()
        if self._farewell is not None:
            self._farewell.cancel()
        self.gone.set()
