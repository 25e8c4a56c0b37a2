"""How starts of runs ended on this server, by tenant and workflow: as metrics, and over a sliding window.

Counted in memory, because a 503 means that the store could not be asked, and handed in to the store from there.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime, timedelta

from interlock.admission.model import Tallied, Tally
from interlock.api.metrics import OTHER, Registry
from interlock.kernel.ids import new_id
from interlock.store.clock import utc_now

OUTCOMES = ("admitted", "full", "unavailable")
_GRAIN_SECONDS = 5
_WINDOW_SECONDS_MAX = 24 * 3600
_ENTRIES_MAX = 100_000
_GRAIN_SCOPES_MAX = 1000
# Times three outcomes this stays below what a metric may have, so that 429 and 503 are never lumped together.
_LABELLED_MAX = 150

Scope = tuple[str, str]


class AdmissionStats:
    """Counts in grains of a few seconds. What would take too much room is counted as `other`, or forgotten."""

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
        self._news: set[tuple[int, str]] = set()
        self._clock = clock
        self._now = now
        self._grains: deque[tuple[int, Counter[tuple[str, str, str]]]] = deque()
        self._entries = 0
        self._labelled: set[Scope] = set()
        self._total = registry.counter(
            "interlock_admission_total",
            "Starts of runs: admitted, full (429) or not to be evaluated (503).",
            ("tenant", "workflow", "outcome"),
        )

    def count(self, tenant: str, workflow: str, outcome: str) -> None:
        """Count one start that ended so."""
        self._total.add(*self._labels(tenant, workflow), outcome)
        counts = self._current()
        known = (tenant, workflow, outcome) in counts or len(counts) < _GRAIN_SCOPES_MAX
        key = (tenant, workflow if known else OTHER, outcome)
        self._entries += key not in counts
        counts[key] += 1
        self._news.add((self._grains[-1][0], tenant))
        self.has_news.set()

    def of(self, tenant: str, window_seconds: int) -> dict[str, dict[str, int]]:
        """For each workflow of a tenant, how many starts were admitted, found it full, or could not ask."""
        since = int((self._clock() - window_seconds) // _GRAIN_SECONDS)
        found: dict[str, dict[str, int]] = {}
        for grain, counts in self._grains:
            if grain < since:
                continue
            for (owner, workflow, outcome), number in counts.items():
                if owner == tenant:
                    row = found.setdefault(workflow, dict.fromkeys(OUTCOMES, 0))
                    row[outcome] += number
        return found

    def unreported(self) -> list[Tally]:
        """What was counted since this was asked last; each record says all that is known of its seconds."""
        news, self._news = self._news, set()
        self.has_news.clear()
        oldest = min((grain for grain, _ in news), default=0)
        recent = itertools.takewhile(lambda each: each[0] >= oldest, reversed(self._grains))
        return [
            self._tally(grain, tenant, counts)
            for grain, counts in recent
            for tenant in sorted(owner for told, owner in news if told == grain)
        ]

    def report_again(self, tally: Tally) -> None:
        """Take note that this could not be handed in."""
        self._news.add((int(tally.id.rpartition(".")[2]), tally.tenant))
        self.has_news.set()

    def _tally(self, grain: int, tenant: str, counts: Counter[tuple[str, str, str]]) -> Tally:
        ended: dict[str, dict[str, int]] = {}
        for (owner, workflow, outcome), number in counts.items():
            if owner == tenant:
                ended.setdefault(workflow, {})[outcome] = number
        ago = timedelta(seconds=self._clock() - grain * _GRAIN_SECONDS)
        rows = tuple(Tallied(workflow=workflow, **ended[workflow]) for workflow in sorted(ended))
        return Tally(tenant=tenant, id=f"{self.server}.{grain}", at=self._now() - ago, rows=rows)

    def _current(self) -> Counter[tuple[str, str, str]]:
        grain = int(self._clock() // _GRAIN_SECONDS)
        if not self._grains or self._grains[-1][0] != grain:
            self._grains.append((grain, Counter()))
            oldest = grain - _WINDOW_SECONDS_MAX // _GRAIN_SECONDS
            while self._grains[0][0] < oldest or self._entries > _ENTRIES_MAX:
                self._entries -= len(self._grains.popleft()[1])
        return self._grains[-1][1]

    def _labels(self, tenant: str, workflow: str) -> Scope:
        scope = (tenant, workflow)
        if scope not in self._labelled:
            if len(self._labelled) >= _LABELLED_MAX:
                return (OTHER, OTHER)
            self._labelled.add(scope)
        return scope
