"""Wake-ups: hints that something may have changed. A lost one costs time, never work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from interlock.kernel.lines import Lines


class Wakes:
    """Who waits on which topic in this process, to be told of it; and who waits in line, to take something."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.lines = Lines()

    def publish(self, topics: Iterable[str]) -> None:
        """Wake everyone who waits on one of these topics, and the first in line for it."""
        for topic in topics:
            self.lines.call(topic)
            for event in self._waiting.get(topic, ()):
                event.set()

    def publish_all(self) -> None:
        """Wake everyone: used when hints may have been lost."""
        self.publish(tuple(self._waiting))
        self.lines.call_all()

    def is_awaited(self, topics: Iterable[str]) -> bool:
        """Whether anybody waits on one of these topics; any thread may ask."""
        return any(topic in self._waiting or self.lines.has_anybody(topic) for topic in topics)

    def subscribe(self, *topics: str) -> Subscription:
        """Start listening; subscribe before reading the state, or a wake-up in between is lost."""
        return Subscription(self._waiting, topics)


class Subscription:
    """A context in which wake-ups of some topics are heard."""

    def __init__(self, waiting: dict[str, set[asyncio.Event]], topics: tuple[str, ...]) -> None:
        self._waiting = waiting
        self._topics = topics
        self._event = asyncio.Event()

    def __enter__(self) -> Subscription:
        for topic in self._topics:
            self._waiting.setdefault(topic, set()).add(self._event)
        return self

    def __exit__(self, *exc: object) -> None:
        for topic in self._topics:
            listeners = self._waiting.get(topic)
            if listeners is not None:
                listeners.discard(self._event)
                if not listeners:
                    del self._waiting[topic]

    async def wait(self, timeout_seconds: float) -> bool:
        """True if woken, False if the time passed; either way look at the state again."""
        if not self._event.is_set():
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._event.wait()
            except TimeoutError:
                return False
        self._event.clear()
        return True
