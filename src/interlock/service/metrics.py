"""Counters, gauges and histograms of this process, in Prometheus' text format.

Label values come from code (an operation id, a problem code), but a mistake must not fill the memory: beyond
`SERIES_MAX` combinations of labels, a metric counts the rest under `other`. Safe to use from any thread.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, isnan
from threading import Lock
from typing import TypeVar

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES_MAX = 500
OTHER = "other"
# Labels whose values are tenants, or are named by them.
TENANT_LABELS = frozenset({"tenant", "workflow"})
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

Labels = tuple[str, ...]


class Registry:
    """The metrics of one process, by name. Names are unique; asking for one twice is a mistake."""

    def __init__(self) -> None:
        """Start empty."""
        self._metrics: dict[str, _Metric] = {}

    def counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        """Add a number that only grows."""
        return self._add(Counter(name, about, labels))

    def histogram(
        self, name: str, about: str, labels: Sequence[str] = (), buckets: Sequence[float] = SECONDS_BUCKETS
    ) -> Histogram:
        """Add a distribution, counted in buckets by their upper bounds."""
        return self._add(Histogram(name, about, labels, buckets))

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Add a number that is read when someone looks."""
        self._add(_Gauge(name, about, (), lambda: {(): read()}))

    def gauges(self, name: str, about: str, labels: Sequence[str], read: _ReadSeries) -> None:
        """Add a family of numbers that are read when someone looks, by label values."""
        self._add(_Gauge(name, about, labels, read))

    def exposition(self, *, tenants: bool = True) -> str:
        """Write every metric in Prometheus' text format; without `tenants`, summed over what would name one."""
        lines = [line for metric in self._metrics.values() for line in metric.lines(tenants=tenants)]
        return "\n".join(lines) + "\n"

    def _add(self, metric: _M) -> _M:
        if metric.name in self._metrics:
            raise ValueError(f"the metric {metric.name} exists; use it or choose another name")
        self._metrics[metric.name] = metric
        return metric


class _Metric:
    kind = "untyped"

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        for word in (name, *labels):
            if not _NAME.fullmatch(word):
                raise ValueError(f"{word!r} cannot name a metric or label; use letters, digits and _")
        self.name = name
        self._about = about
        self._labels = tuple(labels)
        self._lock = Lock()

    def lines(self, *, tenants: bool) -> Iterator[str]:
        yield f"# HELP {self.name} {_escaped_help(self._about)}"
        yield f"# TYPE {self.name} {self.kind}"
        if tenants or not TENANT_LABELS & set(self._labels):
            yield from self.samples()
        else:
            yield from self.sums()

    def samples(self) -> Iterator[str]:
        raise NotImplementedError

    def sums(self) -> Iterator[str]:
        """Write the values without tenants: nothing, unless the metric can be summed."""
        yield from ()

    def _series(self, known: Mapping[Labels, object], values: Labels) -> Labels:
        if len(values) != len(self._labels):
            raise ValueError(f"{self.name} has the labels {self._labels}, not {len(values)} of them")
        return values if values in known or len(known) < SERIES_MAX else (OTHER,) * len(values)

    def _sample(self, suffix: str, values: Labels, number: float, **extra: str) -> str:
        pairs = [*zip(self._labels, values, strict=True), *extra.items()]
        spelled = ",".join(f'{name}="{_escaped_label(value)}"' for name, value in pairs)
        braced = f"{{{spelled}}}" if pairs else ""
        return f"{self.name}{suffix}{braced} {_number(number)}"


_M = TypeVar("_M", bound=_Metric)
_ReadSeries = Callable[[], Mapping[Labels, float]]


class Counter(_Metric):
    """A number that only grows, for each combination of label values."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        """Start at zero; an unlabelled counter is shown from the start."""
        super().__init__(name, about, labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *values: str, amount: float = 1) -> None:
        """Count `amount` more under these label values."""
        if amount < 0:
            raise ValueError(f"{self.name} only grows; use a gauge for what can shrink")
        with self._lock:
            series = self._series(self._counts, values)
            self._counts[series] = self._counts.get(series, 0) + amount

    def value(self, *values: str) -> float:
        """Return the count under these label values so far."""
        return self._counts.get(values, 0)

    def samples(self) -> Iterator[str]:
        """Write one line for each combination of label values."""
        for values, count in sorted(self._counts.copy().items()):
            yield self._sample("", values, count)

    def sums(self) -> Iterator[str]:
        """Write one line for each combination of the label values that tell nothing of a tenant."""
        kept = [place for place, label in enumerate(self._labels) if label not in TENANT_LABELS]
        summed = Counter(self.name, self._about, [self._labels[place] for place in kept])
        for values, count in self._counts.copy().items():
            summed.add(*(values[place] for place in kept), amount=count)
        yield from summed.samples()


class Histogram(_Metric):
    """A distribution, for each combination of label values."""

    kind = "histogram"

    def __init__(self, name: str, about: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        """Count by `buckets`, upper bounds in rising order; the last, infinite one is implied."""
        super().__init__(name, about, labels)
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ValueError(f"{name}: buckets are upper bounds in rising order, at least one")
        self._bounds = tuple(buckets)
        self._tallies: dict[Labels, _Tally] = {}

    def observe(self, amount: float, *values: str) -> None:
        """Count one observation under these label values."""
        with self._lock:
            series = self._series(self._tallies, values)
            tally = self._tallies.get(series)
            if tally is None:
                tally = self._tallies[series] = _Tally(len(self._bounds) + 1)
            tally.counts[bisect_left(self._bounds, amount)] += 1
            tally.total += amount

    def samples(self) -> Iterator[str]:
        """Write the cumulative buckets, the sum and the count of each combination of label values."""
        with self._lock:
            tallies = [(values, tally.counts.copy(), tally.total) for values, tally in self._tallies.items()]
        for values, counts, total in sorted(tallies):
            running = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                running += count
                yield self._sample("_bucket", values, running, le=_number(bound))
            yield self._sample("_sum", values, total)
            yield self._sample("_count", values, running)


class _Tally:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0


class _Gauge(_Metric):
    kind = "gauge"

    def __init__(self, name: str, about: str, labels: Sequence[str], read: _ReadSeries) -> None:
        super().__init__(name, about, labels)
        self._read = read

    def samples(self) -> Iterator[str]:
        for values, number in list(self._read().items())[:SERIES_MAX]:
            yield self._sample("", values, number)


def _number(number: float) -> str:
    if not isfinite(number):
        return "NaN" if isnan(number) else "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number == int(number) else repr(float(number))


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
