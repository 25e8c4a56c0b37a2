"""Clients that take nothing of what waits for them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.runtime.listening import Listening

log = logging.getLogger(__name__)


class Stall:
    """Looks at one client while it is watched, and cuts it off if it has taken nothing for `stalled_seconds`."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._next: asyncio.TimerHandle | None = None

    def watch(self, transport: asyncio.Transport) -> None:
        """See, from now on, whether the client takes anything; nothing left to take is the end of it."""
        self.end()
        unsent_bytes = transport.get_write_buffer_size()
        self._next = self._listening.loop.call_later(
            self._listening.stalled_seconds, self._judge, transport, unsent_bytes
        )

    def end(self) -> None:
        """Watch no longer."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _judge(self, transport: asyncio.Transport, before_bytes: int) -> None:
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes < before_bytes:
            self.watch(transport)
        elif unsent_bytes:
            log.info("a client read nothing for %s s; its connection is cut", self._listening.stalled_seconds)
            self._listening.cut.add()
            transport.abort()
