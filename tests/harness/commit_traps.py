"""One COMMIT to be caught on its way through the proxy, and the pair of connections it travels on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from tests.harness.postgres_protocol import SYNC, CommitWatch, Message, read_message

Deed = Literal["cut_after", "cut_before", "hold", "warn"]
Order = Callable[[Coroutine[Any, Any, bool]], bool]
LOST = (OSError, asyncio.IncompleteReadError)


class Trap:
    """One COMMIT to be caught. `sprung` once it was."""

    def __init__(self, order: Order, deed: Deed, skip: int) -> None:
        self.deed: Deed = deed
        self.skip = skip
        self._order = order
        self._event = threading.Event()
        self._held: tuple[Link, Message] | None = None

    @property
    def sprung(self) -> bool:
        """Whether the COMMIT came and was dealt with."""
        return self._event.is_set()

    def wait(self, *, seconds: float = 60) -> None:
        """Return once sprung. In a coroutine: `await asyncio.to_thread(trap.wait)`."""
        if not self._event.wait(seconds):
            raise TimeoutError(f"no COMMIT went by in {seconds} s")

    def release(self) -> bool:
        """Let a held COMMIT reach the server now; returns whether the server committed."""
        return self._order(self._release())

    def abandon(self) -> None:
        """Close a held COMMIT's connection to the server without delivering it."""
        self._order(self._abandon())

    def hold(self, link: Link, message: Message) -> None:
        """Keep `message` and the server's side of `link`."""
        self._held = (link, message)
        link.held_by = self

    def spring(self) -> None:
        """It was dealt with."""
        self._event.set()

    async def _abandon(self) -> bool:
        assert self._held is not None, "nothing is held"
        self._held[0].cut()
        return False

    async def _release(self) -> bool:
        assert self._held is not None, "nothing is held"
        link, message = self._held
        try:
            link.server_writer.write(message.encode() + (SYNC if message.kind == b"E" else b""))
            async with asyncio.timeout(60):
                while True:
                    answer = await read_message(link.server_reader)
                    if answer.tag in (b"COMMIT", b"ROLLBACK") or answer.kind == b"E":
                        return answer.tag == b"COMMIT"
        except LOST:
            return False
        finally:
            link.cut()


class Link:
    """One client's connection and the proxy's connection to the server for it."""

    def __init__(self, client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.client_reader, self.client_writer = client
        self.server_reader: asyncio.StreamReader
        self.server_writer: asyncio.StreamWriter
        self.watch = CommitWatch()
        self.trap: Trap | None = None
        self.held_by: Trap | None = None
        self.detained: list[Message] = []

    async def connect(self, host: str, port: int) -> None:
        self.server_reader, self.server_writer = await asyncio.open_connection(host, port)

    def cut_client(self) -> None:
        """Reset the client's connection: a cut cable, not a goodbye."""
        raw = self.client_writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client_writer.transport.abort()

    def cut(self) -> None:
        """Cut both sides."""
        self.cut_client()
        if hasattr(self, "server_writer"):
            self.server_writer.transport.abort()
