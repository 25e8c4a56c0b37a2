"""Wake-ups: hints that something may have changed. A lost one costs time, never work.

A `Subscription` hears of every hint about its topics. A `QueuePlace` is for callers that want to take
something: a hint wakes the caller that has waited longest. If it finds work, it wakes two more, because there may be
more work: a hundred jobs reach a hundred workers after seven rounds, and a single job causes at most three look-ups
however many wait. Each caller also looks by itself from time to time. The longer the queue, the less often each one
looks: together they look a few times a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

Test = Callable[[str], bool]

# How many of a line look by themselves in the time in which a lone one would look once.
_LOOKS = 8
# With more patterns than this in a group, each is taken to match: trying all would keep other callers waiting.
_TRIED_MAX = 256


class Wakes:
    """The callers of this process that wait on a topic, and those that wait in line to take something."""

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


class Lines:
    """Who waits in line, by group and name: a job's topic, or a pattern that such topics match."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[QueuePlace, None]] = {}
        self._patterns: dict[str, dict[str, Test]] = {}

    def line_up(self, group: str, names: tuple[str, ...], patterns: Mapping[str, Test]) -> QueuePlace:
        """A place in the line of each name and each pattern; it counts inside its block."""
        return QueuePlace(self, group, names, patterns)

    def call(self, topic: str, besides: QueuePlace | None = None) -> bool:
        """Wake the one that has waited longest for this topic, `group:name`; False if none is left."""
        first: QueuePlace | None = None
        for line in self._lines_of(topic):
            free = next((place for place in line if place is not besides and not place.is_called), None)
            if free is not None and (first is None or free.number < first.number):
                first = free
        if first is not None:
            first.hear(topic)
        return first is not None

    def call_all(self) -> None:
        """Wake all who wait: used when hints may have been lost, and at the end."""
        for line, places in self._lines.items():
            for place in places:
                place.hear(line)

    def length(self, line: str) -> int:
        return len(self._lines.get(line, ()))

    def enter(self, place: QueuePlace) -> None:
        for line in place.lines:
            self._lines.setdefault(line, {})[place] = None
        if place.patterns:
            self._patterns.setdefault(place.group, {}).update(place.patterns)

    def leave(self, place: QueuePlace) -> None:
        for line in place.lines:
            places = self._lines[line]
            del places[place]
            if not places:
                del self._lines[line]
        known = self._patterns.get(place.group, {})
        for pattern in place.patterns:
            if _line(place.group, pattern) not in self._lines:
                known.pop(pattern, None)
        if not known:
            self._patterns.pop(place.group, None)

    def _lines_of(self, topic: str) -> list[dict[QueuePlace, None]]:
        group, _, name = topic.rpartition(":")
        patterns = self._patterns.get(group)
        lines = [self._lines[topic]] if topic in self._lines else []
        if patterns:
            tries = len(patterns) <= _TRIED_MAX
            matching = (pattern for pattern, test in list(patterns.items()) if not tries or test(name))
            lines += [self._lines.get(_line(group, pattern), {}) for pattern in matching]
        return lines


class QueuePlace:
    """One who waits, in one line or several. `number` says who came first."""

    _count = 0

    def __init__(
        self, lines: Lines, group: str, names: tuple[str, ...], patterns: Mapping[str, Test]
    ) -> None:
        QueuePlace._count += 1
        self.number = QueuePlace._count
        self.group = group
        self.patterns = patterns
        self.lines = tuple(dict.fromkeys(_line(group, name) for name in (*names, *patterns)))
        self.is_called = False
        self._all = lines
        self._event = asyncio.Event()
        self._heard: set[str] = set()

    def __enter__(self) -> QueuePlace:
        self._all.enter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._all.leave(self)
        if self.is_called:  # It was woken and left before it looked, so another one should look.
            self.pass_on(1)

    def hear(self, topic: str) -> None:
        self.is_called = True
        self._heard.add(topic)
        self._event.set()

    def pass_on(self, count: int) -> None:
        """Wake this many others for what this one was called for last."""
        for topic in self._heard:
            for _ in range(count):
                if not self._all.call(topic, besides=self):
                    break

    def look_seconds(self, seconds: float) -> float:
        """When to look without being called: after so long, or later by as much as others in line look, too."""
        shortest = min(self._all.length(line) for line in self.lines)
        return seconds * max(1.0, shortest / _LOOKS)

    async def wait(self, timeout_seconds: float) -> bool:
        """True if called, False if the time passed; either way look at the state again."""
        if not self._event.is_set():
            self._heard.clear()
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._event.wait()
            except TimeoutError:
                self._heard.update(self.lines)
                return False
        self._event.clear()
        self.is_called = False
        return True


def _line(group: str, name: str) -> str:
    return f"{group}:{name}"
