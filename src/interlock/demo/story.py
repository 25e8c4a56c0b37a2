"""How a scene is printed: a few lines, a histogram of the server's answers, and promises kept or broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from textwrap import wrap
from typing import Any, NamedTuple

from interlock.cli.output import painted, safe, say

_BAR_MAX = 40


class Answer(NamedTuple):
    """What the server said to one request."""

    status: int
    word: str  # the outcome, the state or the problem's code
    body: dict[str, Any]
    raw: bytes = b""
    replayed: bool = False


class Promise(NamedTuple):
    """Something that Interlock promises, and whether it was seen to hold."""

    text: str
    kept: bool


Histogram = Counter[tuple[int, str]]


def histogram_of(answers: Iterable[Answer]) -> Histogram:
    """How often each answer was given."""
    return Counter((answer.status, answer.word) for answer in answers)


class Story:
    """Tells scenes, numbered from `first`, and remembers which promises were broken."""

    def __init__(self, first: int = 1) -> None:
        self.promises: list[Promise] = []
        self._scenes = first - 1
        self._answers: Histogram = Counter()
        self._drawn: Histogram = Counter()

    @property
    def broken(self) -> list[Promise]:
        """The promises that were not kept."""
        return [promise for promise in self.promises if not promise.kept]

    def begin(self, title: str) -> None:
        """Start a scene."""
        self._scenes += 1
        self._answers.clear()
        self._drawn.clear()
        say("", painted(f"{self._scenes}. {title}", "bold"))

    def tell(self, line: str) -> None:
        """Say what happens."""
        say(f"   {line}")

    def step(self, who: str, answer: Answer) -> Answer:
        """Print what an actor did, and what the server answered."""
        self._answers[answer.status, answer.word] += 1
        style = "green" if answer.status < 300 else "yellow" if answer.status < 500 else "red"
        say(f"   {who:<44} {painted(f'{answer.status} {safe(answer.word)}', style)}")
        return answer

    def show(self, histogram: Histogram) -> None:
        """Draw how often each answer was given."""
        self._answers += histogram
        self._drawn += histogram
        for (status, word), count in sorted(histogram.items()):
            bar = "█" * min(count, _BAR_MAX)
            say(f"   {f'{status} {safe(word)}':<28} {count:>4}  {painted(bar, 'cyan')}")

    def end(self, promises: Iterable[Promise]) -> None:
        """End a scene: how often each answer was given, if that is not drawn yet, and which promises were kept."""
        if self._answers != self._drawn:
            self._say_counts()
        self.keep(promises)

    def _say_counts(self) -> None:
        counts = [
            f"{status} {safe(word)} x {count}" for (status, word), count in sorted(self._answers.items())
        ]
        for line in wrap(", ".join(counts), 90):
            say(painted(f"   {line}", "dim"))

    def keep(self, promises: Iterable[Promise]) -> None:
        """Say which promises were kept."""
        for promise in promises:
            self.promises.append(promise)
            mark = painted("✓", "green") if promise.kept else painted("✗ NOT KEPT:", "red")
            say(f"   {mark} {promise.text}")
