"""What a drill found: the answers, their times, and which claims held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

# Told what is being done, and how many steps of how many are done.
Tell: TypeAlias = Callable[[str, int, int], object]


def tell_nobody(what: str, done: int, total: int) -> None:
    """For a drill whose progress nobody follows."""


class Steps:
    """Counts the steps of a drill, and tells of each."""

    def __init__(self, tell: Tell, total: int) -> None:
        self._tell = tell
        self._total = total
        self._done = 0

    def begin(self, what: str) -> None:
        """Say what the steps that follow are part of."""
        self._what = what
        self._tell(what, self._done, self._total)

    def done(self, count: int = 1) -> None:
        """Count what is done."""
        self._done = min(self._total, self._done + count)
        self._tell(self._what, self._done, self._total)


CODES = ("200", "201", "409", "423", "429", "5xx")
_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How one call was answered; status 0 if it was not. `document` is the body, if that was JSON."""

    status: int
    seconds: float
    document: Any = None

    @property
    def word(self) -> str:
        """The outcome or the problem's code."""
        return str(self.field("outcome") or self.field("code") or "")

    def field(self, name: str) -> Any:
        """A field of the body, or None."""
        return cast("dict[str, Any]", self.document).get(name) if isinstance(self.document, dict) else None


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """How many answers took at most `to_ms`, and longer than the bar before."""

    to_ms: int | None
    count: int


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One burst of calls."""

    name: str
    count: int
    codes: dict[str, int]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    latency: list[Bar]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, whether it held (None: too little happened to tell), and what was seen."""

    claim: str
    held: bool | None
    seen: str = ""


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to retry, and what came of it."""

    name: str
    success_ratio: float
    amplification: float
    outage_amplification: float
    recovery_seconds: float
    peak_over_steady: float
    requests_each_second: list[int]


Verdict: TypeAlias = Literal["passed", "failed", "too small to tell"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a drill found. It passed if every claim held and nothing of it is left behind."""

    drill: str
    where: str
    verdict: Verdict
    phases: list[Phase]
    checks: list[Check]
    contestants: list[Contestant] = []
    left_behind: list[str] = []


def report(
    drill: str,
    where: str,
    phases: Sequence[Phase],
    checks: Sequence[Check],
    *,
    contestants: Sequence[Contestant] = (),
    left_behind: Sequence[str] = (),
) -> Report:
    """Judge."""
    return Report(
        drill=drill,
        where=where,
        verdict=_verdict(checks, left_behind),
        phases=list(phases),
        checks=list(checks),
        contestants=list(contestants),
        left_behind=list(left_behind),
    )


def _verdict(checks: Sequence[Check], left_behind: Sequence[str]) -> Verdict:
    if left_behind or any(check.held is False for check in checks):
        return "failed"
    return "too small to tell" if any(check.held is None for check in checks) else "passed"


def phase(name: str, answers: Sequence[Answer]) -> Phase:
    """Sum a burst up."""
    seconds = sorted(answer.seconds for answer in answers)
    return Phase(
        name=name,
        count=len(answers),
        codes=histogram(answers),
        p50_ms=_quantile_ms(seconds, 0.50),
        p95_ms=_quantile_ms(seconds, 0.95),
        p99_ms=_quantile_ms(seconds, 0.99),
        latency=_bars(seconds),
    )


def histogram(answers: Iterable[Answer]) -> dict[str, int]:
    """Counts by status; those that operators look for are always there."""
    counted = Counter(_column(answer.status) for answer in answers)
    return {column: counted.get(column, 0) for column in (*CODES, *sorted(set(counted) - set(CODES)))}


def _column(status: int) -> str:
    if status == 0:
        return "none"
    return "5xx" if status >= 500 else str(status)


def _quantile_ms(ordered: Sequence[float], q: float) -> float:
    if not ordered:
        return 0.0
    return round(ordered[min(len(ordered) - 1, int(q * len(ordered)))] * 1000, 2)


def _bars(ordered: Sequence[float]) -> list[Bar]:
    bars: list[Bar] = []
    below = 0
    for bound in (*_BOUNDS_MS, None):
        upto = len(ordered) if bound is None else sum(seconds * 1000 <= bound for seconds in ordered)
        if upto > below or bars:
            bars.append(Bar(to_ms=bound, count=upto - below))
        below = upto
        if below == len(ordered):
            break
    return bars
