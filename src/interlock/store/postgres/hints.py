"""Wake-ups between servers, by LISTEN and NOTIFY. They are hints: a lost one costs time, never work.

They are sent after the commit, on a connection of their own. A transaction that notifies holds a lock on the whole
database from COMMIT until its data is on disk, so batches with a NOTIFY would commit one after another
(docs/decisions/0023).

Each listening server holds a shared lock, so once a second a server can see whether it is the only one; then it sends
no hints. A new server announces itself, and receives hints from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from typing import Any

from interlock.store.postgres.connections import Connections
from interlock.store.postgres.driver import Session

log = logging.getLogger(__name__)

_CHANNEL = "interlock"
_LISTENERS = 7_165_103
_LISTEN_IN_COMPANY = f"SELECT pg_advisory_lock_shared({_LISTENERS})"
_ARE_THERE_OTHERS = (
    "SELECT count(*) > 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objsubid = 1 "
    f"AND objid = {_LISTENERS} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_TELL = "SELECT pg_notify($1, $2)"
_NOTE_BYTES_MAX = 7000
_NOTES_MAX = 16
_LOOK_SECONDS = 1.0
_RECONNECT_SECONDS = (0.1, 2.0)

Heard = Callable[[frozenset[str] | None], None]


class Hints:
    """Tells other servers which topics this one woke, and hears theirs."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._origin = uuid.uuid4().hex
        self._untold: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._teller: Session | None = None
        self._others_listen = True

    def start(self, heard: Heard) -> None:
        """Listen until `close`; `heard` is given None whenever hints may have been lost."""
        self._listening = asyncio.create_task(self._listen(heard), name="postgres-listen")

    def tell(self, topics: frozenset[str]) -> None:
        """Tell the others soon; what comes while a note is on its way goes with the next one."""
        if not self._others_listen:
            return
        self._untold |= topics
        if self._untold and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell(), name="postgres-notify")

    async def close(self) -> None:
        """Tell what is untold, then stop."""
        if self._telling:
            await self._telling
        if self._listening:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening
        if self._teller:
            self._teller.terminate()

    # Telling.

    async def _tell(self) -> None:
        while self._untold:
            notes, self._untold = self._notes(), set()
            try:
                session = await self._open_teller()
                for note in notes:
                    await session.fetchval(_TELL, _CHANNEL, note)
            except Exception as error:  # noqa: BLE001 - the others look by themselves before long
                log.debug("could not tell other servers what changed: %r", error)
                if self._teller:
                    self._teller.terminate()
                self._teller = None

    async def _open_teller(self) -> Session:
        if self._teller is None or self._teller.is_closed():
            self._teller = await self._connections.own()
            # A note need not survive a crash, so it does not wait for the disk.
            await self._teller.execute("SET synchronous_commit = off")
        return self._teller

    def _notes(self) -> list[str]:
        """Who woke which topics, or only who, if they are too many to list: then everybody looks."""
        notes: list[str] = []
        room = 0
        for topic in sorted(self._untold):
            size = len(topic.encode()) + 1
            if size > room:
                notes.append(self._origin)
                room = _NOTE_BYTES_MAX - len(self._origin)
            notes[-1] += f"\n{topic}"
            room -= size
        return notes if len(notes) <= _NOTES_MAX else [self._origin]

    # Listening.

    async def _listen(self, heard: Heard) -> None:
        """For ever; after each gap it says that hints were lost."""
        least, most = _RECONNECT_SECONDS
        pause = least
        while True:
            try:
                session = await self._connections.own()
                pause = least
                try:
                    await self._hear(session, heard)
                finally:
                    session.terminate()
            except Exception as error:  # noqa: BLE001 - hints must come back whatever happened
                log.debug("listening broke off: %r", error)
            self._others_listen = True
            await asyncio.sleep(pause)
            pause = min(most, pause * 2)

    async def _hear(self, session: Session, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        heard_at = float("-inf")

        def told(_session: Any, _pid: int, _channel: str, note: str) -> None:
            nonlocal heard_at
            origin, *topics = note.split("\n")
            if origin != self._origin:
                self._others_listen, heard_at = True, loop.time()
                heard(frozenset(topics) or None)

        await session.add_listener(_CHANNEL, told)
        await session.fetchval(_LISTEN_IN_COMPANY)
        await session.fetchval(_TELL, _CHANNEL, self._origin)
        heard(None)
        while not session.is_closed():
            others = bool(await session.fetchval(_ARE_THERE_OTHERS))
            # A newcomer may have come while this was asked.
            self._others_listen = others or loop.time() - heard_at < _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
