"""Counts of how starts of runs ended, kept in this process until the store has them.

A 503 means that the store cannot be asked, so it cannot be told either. What was counted waits here, by workflow and by
a few seconds each, and is stored as soon as the store is back. No workflow is ever lumped together with others: what
takes more room than there is is dropped, the oldest first, and the number dropped is itself a metric.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from interlock.kernel.clock import utc_now
from interlock.kernel.ids import new_id
from interlock.rooms.admission.model import Counts, Tallied, Tally
from interlock.rooms.admission.traffic import NONE, Subject, plus
from interlock.service.metrics import OTHER, Registry

OUTCOMES = ("admitted", "full", "unavailable", "throttled")
_ONE: dict[str, Counts] = dict(
    zip(OUTCOMES, ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)), strict=True)
)
_STARTS = OUTCOMES[:3]
_GRAIN_SECONDS = 5
_ENTRIES_MAX = 100_000
_TALLY_ROWS_MAX = 250
# Times three outcomes this stays below what a metric may have, so that 429 and 503 are never lumped together.
_LABELLED_MAX = 150

Scope = tuple[str, str]


class Unstored(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted for a tenant in a few seconds, as tallies for the store; `news` numbers its changes."""

    grain: int
    tenant: str
    news: int
    tallies: tuple[Tally, ...]


class AdmissionStats:
    """Counts in grains of a few seconds, until they are stored; and the metric of this server."""

    def __init__(
        self,
        registry: Registry,
        clock: Callable[[], float] = time.monotonic,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`now` is what servers compare, and the store forgets by."""
        self.server = new_id("srv")
        self.has_news = asyncio.Event()
        self._clock = clock
        self._now = now
        # By grain and tenant, in the order of the grains; a name keeps its place, and so its part of the grain.
        self._counts: dict[tuple[int, str], dict[tuple[Subject, str], Counts]] = {}
        self._news: dict[tuple[int, str], int] = {}
        self._changes = itertools.count()
        self._entries = 0
        self._labelled: set[Scope] = set()
        self._total = registry.counter(
            "interlock_admission_total",
            "Starts of runs: admitted, full (429) or not to be evaluated (503).",
            ("tenant", "workflow", "outcome"),
        )
        self._dropped = registry.counter(
            "interlock_admission_counts_dropped_total",
            "Starts of runs that are missing in the stored counts, because the store was away for too long.",
        )

    def count(self, tenant: str, workflow: str, outcome: str) -> None:
        """Count one start by how it ended."""
        self._total.add(*self._labels(tenant, workflow), outcome)
        self._count(tenant, Subject.WORKFLOW, workflow, outcome)

    def count_throttled(self, tenant: str, topic: str) -> None:
        """Count one job that the policy throttled."""
        self._count(tenant, Subject.TOPIC, topic, "throttled")

    def held(self, tenant: str) -> list[Tally]:
        """What this process has counted for a tenant and the store does not have."""
        return [
            tally for grain, owner in self._news if owner == tenant for tally in self._tallies(grain, owner)
        ]

    def unstored(self) -> list[Unstored]:
        """The counts that are not stored yet; each has everything that is known of its seconds."""
        return [
            Unstored(grain=grain, tenant=tenant, news=news, tallies=self._tallies(grain, tenant))
            for (grain, tenant), news in self._news.items()
        ]

    def stored(self, handed_in: Unstored) -> None:
        """Take note that the store has this; it is forgotten here once its seconds are over."""
        key = (handed_in.grain, handed_in.tenant)
        if self._news.get(key) == handed_in.news:
            del self._news[key]
        if not self._news:
            self.has_news.clear()
        self._forget_stored()

    def _count(self, tenant: str, subject: Subject, name: str, outcome: str) -> None:
        key = (int(self._clock() // _GRAIN_SECONDS), tenant)
        counts = self._counts.get(key)
        if counts is None:
            self._forget_stored()
            counts = self._counts[key] = {}
        if (subject, name) not in counts and not self._make_room(key):
            self._dropped.add()
            return
        before = counts.get((subject, name))
        self._entries += before is None
        counts[subject, name] = plus(before or NONE, _ONE[outcome])
        self._news[key] = next(self._changes)
        self.has_news.set()

    def _make_room(self, current: tuple[int, str]) -> bool:
        """Drop the oldest counts if there are too many; returns whether there is room for one more name."""
        while self._entries >= _ENTRIES_MAX:
            oldest = next(iter(self._counts))
            if oldest == current:
                return False
            dropped = self._drop(oldest)
            if self._news.pop(oldest, None) is not None:
                self._dropped.add(amount=dropped)
        return True

    def _forget_stored(self) -> None:
        now = int(self._clock() // _GRAIN_SECONDS)
        for key in [key for key in self._counts if key[0] < now and key not in self._news]:
            self._drop(key)

    def _drop(self, key: tuple[int, str]) -> int:
        """Forget a grain; returns how much it had counted."""
        counts = self._counts.pop(key)
        self._entries -= len(counts)
        return sum(map(sum, counts.values()))

    def _tallies(self, grain: int, tenant: str) -> tuple[Tally, ...]:
        """The grain in parts of a bounded size. A name is in the same part whenever it is asked for."""
        at = self._now() - timedelta(seconds=self._clock() - grain * _GRAIN_SECONDS)
        rows = [
            Tallied(**{subject.value: name}, **dict(zip(OUTCOMES, counts, strict=True)))
            for (subject, name), counts in self._counts[grain, tenant].items()
        ]
        return tuple(
            Tally(tenant=tenant, id=f"{self.server}.{grain}.{part}", at=at, rows=tuple(some))
            for part, some in enumerate(_parts(rows, _TALLY_ROWS_MAX))
        )

    def _labels(self, tenant: str, workflow: str) -> Scope:
        scope = (tenant, workflow)
        if scope not in self._labelled:
            if len(self._labelled) >= _LABELLED_MAX:
                return (OTHER, OTHER)
            self._labelled.add(scope)
            for outcome in _STARTS:
                # A rate begins with a second sample: the first 429 or 503 of a workflow must not be the first one.
                self._total.add(*scope, outcome, amount=0)
        return scope


def _parts(rows: list[Tallied], most: int) -> list[list[Tallied]]:
    return [rows[start : start + most] for start in range(0, len(rows), most)]
