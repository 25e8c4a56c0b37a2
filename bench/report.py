"""How figures are told: one line each, a ratio against its goal where there is one."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Generator, Sequence

from interlock.cli.output import say
from interlock.cli.progress import Progress

ROUNDS = 3


class _Course:
    """How far a run of `make bench` is, for the person who watches it."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._section, self._done, self._total = "", 0, 1

    @contextlib.contextmanager
    def shown(self, *, quiet: bool) -> Generator[None]:
        """Show it inside the block."""
        with Progress("bench", is_even=False, is_shown=not quiet, quick_seconds=0) as self._progress:
            yield
        self._progress = None

    def begin(self, section: str, done: int, total: int) -> None:
        """Begin a section, `done` of `total` being over."""
        self._section, self._done, self._total = section, done, total
        self.tell("")

    def tell(self, what: str) -> None:
        """Name the part of the section that is measured now."""
        if self._progress:
            self._progress(f"{self._section}{what and ', '}{what}", self._done, self._total)


course = _Course()


def interleaved(contestants: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, float]:
    """Run every contestant in turn, several times, and take each one's median."""
    return {name: statistics.median(values) for name, values in in_turns(contestants, rounds).items()}


def in_turns(contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every contestant in turn, several times; what each made, round by round."""
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name, run in contestants.items():
            course.tell(f"turn {turn + 1} of {rounds}: {name}")
            figures[name].append(run())
    return figures


def over(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of what ran right after each other.

    A shared machine changes its speed within seconds, by more than what is to be found out. Many short turns see
    a few percent where the ratio of two medians of long ones moves by twenty.
    """
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def title(text: str) -> None:
    say("", text, "-" * len(text))


def figure(name: str, value: float, unit: str) -> None:
    say(f"  {name:<58} {value:>12,.1f} {unit}")


def ratio(name: str, value: float, goal: float, *, at_most: bool = False, unit: str = "x") -> bool:
    """Print a ratio, or another figure with a goal; returns whether the goal was met."""
    met = value <= goal if at_most else value >= goal
    sign = "≤" if at_most else "≥"
    say(f"  {name:<58} {value:>12.2f} {unit}   goal {sign} {goal:g}   {'met' if met else 'MISSED'}")
    return met


def quantile(values: Sequence[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
