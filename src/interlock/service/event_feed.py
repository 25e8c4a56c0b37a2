"""The feed: one loop per server that gives events their positions and passes new events to readers.

Readers do not query the store after each commit: a burst of commits costs one pass and one read, however many readers
there are. Each reader has a bounded buffer. A reader that does not keep up is disconnected with the last position it
got; it comes back with that position and reads the rest from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable

from interlock.kernel.refusal import LockBusy, Overloaded
from interlock.kernel.storage import Store, StoreDown
from interlock.kernel.wakes import Wakes
from interlock.rooms.events import queries
from interlock.rooms.events.cloud_events import wants
from interlock.rooms.events.model import EVENTS_TOPIC, POSITIONS_TOPIC, PlacedEvent, events_topic
from interlock.rooms.events.queries import News
from interlock.service.metrics import Registry

log = logging.getLogger(__name__)

PAGE = 500
BUFFERED_MAX = 1000

_POLL_SECONDS = 1.0
_BUSY_SECONDS = 0.003
# After a pass that found something. What is committed meanwhile shares the next pass: on PostgreSQL each is a
# commit of its own. A lone event is not held up, because the rest comes after it.
_REST_SECONDS = 0.005
_RELAYED_REST_SECONDS = 0.02
_UNREAD_REST_SECONDS = 0.25
_OUTAGE_SECONDS = 0.5
_CATCH_UP_MAX = 100


class Reader:
    """The events that one reader has not taken yet. It misses nothing from the position `start` on."""

    def __init__(self, tenant: str, types: tuple[str, ...], start: int, buffered_max: int) -> None:
        self.tenant = tenant
        self.start = start
        self.is_overrun = False
        self.is_over = False
        self._types = types
        self._most = buffered_max
        self._buffer: deque[PlacedEvent] = deque()
        self._arrived = asyncio.Event()

    def offer(self, placed: PlacedEvent) -> None:
        """Add an event, unless the buffer is full: then the reader is overrun, and gets no more."""
        if self.is_overrun or placed.position <= self.start or not wants(self._types, placed.event.type):
            return
        if len(self._buffer) >= self._most:
            self.is_overrun = True
            self._buffer.clear()
        else:
            self._buffer.append(placed)
        self._arrived.set()

    def nudge(self) -> None:
        """Wake the reader, with or without events."""
        self._arrived.set()

    def end(self) -> None:
        """Tell the reader that the server stops; it returns with the events that are there."""
        self.is_over = True
        self._arrived.set()

    async def take(self, timeout_seconds: float) -> list[PlacedEvent]:
        """The new events, as soon as there are any; none once the time has passed."""
        if not self._buffer and not self.is_overrun and not self.is_over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._arrived.wait()
        self._arrived.clear()
        taken = list(self._buffer)
        self._buffer.clear()
        return taken


class EventFeed:
    """New events of every tenant, as they get their positions."""

    def __init__(
        self, store: Store, wakes: Wakes, registry: Registry, *, buffered_max: int = BUFFERED_MAX
    ) -> None:
        self._store = store
        self._wakes = wakes
        self._buffered_max = buffered_max
        self._readers: dict[str, set[Reader]] = {}
        self._task: asyncio.Task[None] | None = None
        self._passing = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._is_closed = False
        self.is_relayed: Callable[[], bool] = lambda: False
        self.position = 0
        self.is_cut_off = False
        self._sequenced = registry.counter(
            "interlock_events_sequenced_total", "Events that this server gave their position."
        )
        self._passed_on = registry.counter("interlock_events_read_total", "Events that this server has seen.")
        self.dropped = registry.counter(
            "interlock_event_readers_dropped_total", "Readers let go because they did not keep up."
        )
        registry.gauge("interlock_event_position", "The newest position known here.", lambda: self.position)
        registry.gauge("interlock_event_readers", "Open event streams.", self._count_readers)

    async def start(self) -> None:
        """Begin to follow events, from now on; again changes nothing."""
        if self._task is None and not self._is_closed:
            self.position = await queries.head(self._store)
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="event-feed")

    async def catch_up(self) -> None:
        """Give positions to all committed events: a caller that was answered before this finds its own."""
        for _ in range(_CATCH_UP_MAX):
            sequenced = await self._sequence()
            if sequenced == queries.BUSY:
                await asyncio.sleep(_BUSY_SECONDS)
            elif sequenced < queries.PASS_MAX:
                return  # What is committed since is for those who ask since.

    async def close(self) -> None:
        """End every reader, and the loop."""
        self.end_readers()
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def end_readers(self) -> None:
        """Let every reader, now and later, return with what it has."""
        self._is_closed = True
        for reader in self._every_reader():
            reader.end()

    def join(self, tenant: str, types: tuple[str, ...] = (), *, after: int = 0) -> Reader:
        """A new reader of a tenant's events after a position; events before its `start` are read from the store."""
        # A reader may know more than this server has read: another one, or an earlier page, told it.
        reader = Reader(tenant, types, max(self.position, after), self._buffered_max)
        self._readers.setdefault(tenant, set()).add(reader)
        if self._is_closed:
            reader.end()
        self._wanted.set()
        return reader

    def leave(self, reader: Reader) -> None:
        """Stop collecting for a reader."""
        readers = self._readers.get(reader.tenant, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(reader.tenant, None)

    async def _run(self) -> None:
        with self._wakes.subscribe(EVENTS_TOPIC) as heard:
            while True:
                try:
                    pause = await self.read_once()
                    self._tell_cut_off(is_cut_off=False)
                except (StoreDown, LockBusy, Overloaded) as down:
                    log.debug("events wait for the store: %s", down)
                    self._tell_cut_off(is_cut_off=isinstance(down, StoreDown))
                    pause = _OUTAGE_SECONDS
                except Exception:
                    log.exception("reading events broke; trying again in %.1f s", _OUTAGE_SECONDS)
                    pause = _OUTAGE_SECONDS
                if pause == _POLL_SECONDS:
                    await heard.wait(pause)
                else:
                    await self._rest(pause)

    def _tell_cut_off(self, *, is_cut_off: bool) -> None:
        """Note whether the store is unavailable, and wake the readers if that is new."""
        if is_cut_off != self.is_cut_off:
            self.is_cut_off = is_cut_off
            for reader in self._every_reader():
                reader.nudge()

    async def _rest(self, seconds: float) -> None:
        """Let committed events gather, unless a reader comes."""
        self._wanted.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()

    async def read_once(self) -> float:
        """Give positions, read what has one, pass it on; returns how long to wait before the next time."""
        sequenced = await self._sequence()
        page = await self._pass_on()
        if sequenced == queries.BUSY:
            # Another server is giving positions now, and may have looked too early for the event that woke this
            # one.
            return _BUSY_SECONDS
        if page == PAGE:
            return 0.0
        if sequenced == 0 and not page:
            return _POLL_SECONDS
        if self._readers:
            return _REST_SECONDS
        return _RELAYED_REST_SECONDS if self.is_relayed() else _UNREAD_REST_SECONDS

    async def _sequence(self) -> int:
        """One pass that gives positions; how many it gave, or `BUSY`."""
        async with self._passing:
            sequenced = await queries.sequence(self._store)
        if sequenced > 0:
            self._sequenced.add(amount=sequenced)
        return sequenced

    async def _pass_on(self) -> int:
        """Give readers the new events, and wake those that wait; returns how many events there were."""
        if not self._readers:
            news = await queries.news_after(self._store, self.position, limit=PAGE)
            # A reader that came meanwhile wants the events themselves.
            if not self._readers:
                return self._moved_on(news)
        page = await queries.every_event_after(self._store, self.position, limit=PAGE)
        for placed in page:
            for reader in self._readers.get(placed.event.tenant, ()):
                reader.offer(placed)
        position = page[-1].position if page else self.position
        return self._moved_on(News(len(page), position, frozenset(placed.event.tenant for placed in page)))

    def _moved_on(self, news: News) -> int:
        if news.count:
            self.position = news.position
            self._passed_on.add(amount=news.count)
            self._wakes.publish({POSITIONS_TOPIC, *map(events_topic, news.tenants)})
        return news.count

    def _every_reader(self) -> Iterable[Reader]:
        return [reader for readers in self._readers.values() for reader in readers]

    def _count_readers(self) -> int:
        return sum(len(readers) for readers in self._readers.values())
