"""A proxy before PostgreSQL that loses exactly what a test wants lost.

    proxy = PostgresProxy(postgres_url); proxy.start()
    trap = proxy.cut_after_commit()     # the commit happens, its acknowledgement never arrives
    ... use proxy.url ...
    trap.wait()

The proxy runs in a thread of its own, so its orders can be given from sync and async tests alike. Each trap
catches one COMMIT, whichever client sends it first; `skip` lets that many go by before.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from tests.harness.commit_traps import LOST, Link, Trap
from tests.harness.postgres_protocol import (
    CANCEL_REQUEST,
    GSS_REQUEST,
    SSL_REQUEST,
    goodbye,
    read_message,
    read_opening,
    warning,
)
from tests.harness.processes import pick_port

T = TypeVar("T")
STANDBY_WARNING = "canceling wait for synchronous replication due to user request"


class PostgresProxy:
    """Passes PostgreSQL connections through to the server of `target`, until told otherwise."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self.port = pick_port()
        self.url = self.url_of(target)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres-proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._trap: Trap | None = None

    def url_of(self, url: str) -> str:
        """`url` of any database on the target server, by way of this proxy."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self.port}"))

    # --- orders ---

    def start(self) -> PostgresProxy:
        """Listen and pass everything through."""
        self._thread.start()
        self.call(self._flowing.set)
        self.accept()
        return self

    def close(self) -> None:
        """Cut everything and end the thread."""
        self.refuse()
        self.cut_all()
        self.order(self._finish_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def cut_after_commit(self, *, skip: int = 0) -> Trap:
        """Let the next COMMIT happen, and cut its client off before the answer is delivered."""
        return self._set(Trap(self.order, "cut_after", skip))

    def cut_before_commit(self, *, skip: int = 0) -> Trap:
        """Drop the next COMMIT and cut its client and its server off: the transaction rolls back."""
        return self._set(Trap(self.order, "cut_before", skip))

    def hold_commit(self, *, skip: int = 0) -> Trap:
        """Cut the client of the next COMMIT off and hold the COMMIT until `release()` or `abandon()`.

        This is the worst case: a client that reconnects and looks finds nothing, and then it commits.
        """
        return self._set(Trap(self.order, "hold", skip))

    def warn_on_commit(self, *, skip: int = 0) -> Trap:
        """Answer the next COMMIT with the WARNING of a cancelled wait for a synchronous standby."""
        return self._set(Trap(self.order, "warn", skip))

    def stall(self) -> None:
        """Deliver nothing in either direction; connections stay open and new ones are accepted."""
        self.call(self._flowing.clear)

    def resume(self) -> None:
        """Deliver again, what was stalled included."""
        self.call(self._flowing.set)

    def refuse(self) -> None:
        """Refuse new connections; open ones go on."""
        self.order(self._stop_listening())

    def accept(self) -> None:
        """Accept new connections again, on the same port."""
        self.order(self._listen())

    def cut_all(self) -> None:
        """Cut every open connection."""
        self.call(lambda: [link.cut() for link in self._links])

    def say_goodbye(self) -> None:
        """Tell every client that its server ends, and leave its connection open."""
        self.call(lambda: [link.client_writer.write(goodbye()) for link in self._links])

    def order(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the proxy's thread and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(90)

    def call(self, work: Callable[[], object]) -> None:
        """Call `work` in the proxy's thread and wait until it is done."""

        async def run() -> None:
            work()

        self.order(run())

    def _set(self, trap: Trap) -> Trap:
        assert self._trap is None, "another trap is set; wait for it first"
        self._trap = trap
        return trap

    # --- the proxy's thread ---

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._admit, "127.0.0.1", self.port, backlog=256)

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _finish_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link((reader, writer))
        self._links.add(link)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(*LOST):
                await self._serve(link)
        finally:
            self._tasks.discard(task)
            self._links.discard(link)

    async def _serve(self, link: Link) -> None:
        try:
            await self._flowing.wait()
            await link.connect(self._target.hostname or "127.0.0.1", self._target.port or 5432)
            if await self._pass_opening(link):
                await first_of(self._pass_requests(link), self._pass_answers(link))
        finally:
            if link.held_by is None:
                link.cut()
            else:
                # Sprung only now: nobody reads the server's side any more, so `release` may.
                link.held_by.spring()

    async def _pass_opening(self, link: Link) -> bool:
        while True:
            code, packet = await read_opening(link.client_reader)
            await self._flowing.wait()
            link.server_writer.write(packet)
            if code == CANCEL_REQUEST:
                await link.server_reader.read()
                return False
            if code not in (SSL_REQUEST, GSS_REQUEST):
                return True
            verdict = await link.server_reader.readexactly(1)
            assert verdict == b"N", "the proxy reads plain text only; turn ssl off on the server"
            link.client_writer.write(verdict)

    async def _pass_requests(self, link: Link) -> None:
        while True:
            message = await read_message(link.client_reader)
            await self._flowing.wait()
            if link.watch.commits(message) and (trap := self._take_trap()):
                if trap.deed == "cut_before":
                    link.cut()
                    return trap.spring()
                if trap.deed == "hold":
                    link.cut_client()
                    return trap.hold(link, message)
                link.trap = trap
            link.server_writer.write(message.encode())
            await link.server_writer.drain()

    async def _pass_answers(self, link: Link) -> None:
        while True:
            message = await read_message(link.server_reader)
            await self._flowing.wait()
            if link.trap is not None and link.trap.deed == "cut_after":
                link.detained.append(message)
                if message.tag == b"COMMIT":
                    link.cut()
                    return link.trap.spring()
                if message.tag == b"ROLLBACK" or message.kind == b"E":
                    self._let_go(link)
                continue
            if link.trap is not None and message.tag == b"COMMIT":
                link.client_writer.write(warning(STANDBY_WARNING))
                link.trap.spring()
                link.trap = None
            link.client_writer.write(message.encode())
            await link.client_writer.drain()

    def _take_trap(self) -> Trap | None:
        trap = self._trap
        if trap is None:
            return None
        if trap.skip > 0:
            trap.skip -= 1
            return None
        self._trap = None
        return trap

    def _let_go(self, link: Link) -> None:
        # That COMMIT did not commit; the trap waits for one that does.
        self._trap, link.trap = link.trap, None
        link.client_writer.write(b"".join(message.encode() for message in link.detained))
        link.detained.clear()


async def first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Run `work` side by side until one ends, then end the others and return or raise as the first did."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
