"""How starts of runs ended on this server, by tenant and workflow: as metrics, and over a sliding window.

Kept in memory, because a 503 means that the store could not be asked; a restart begins anew.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

from interlock.api.metrics import OTHER, Registry

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

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
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
