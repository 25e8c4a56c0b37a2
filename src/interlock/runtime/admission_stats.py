"""How starts of runs ended on this server, by tenant and workflow, over a sliding window.

Kept in memory, because a 503 means that the store could not be asked; a restart begins anew.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

OUTCOMES = ("admitted", "full", "unavailable")
_GRAIN_SECONDS = 5
_WINDOW_SECONDS_MAX = 24 * 3600
_SCOPES_MAX = 2000

Scope = tuple[str, str]


class AdmissionStats:
    """Counts in grains of a few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._grains: deque[tuple[int, Counter[tuple[str, str, str]]]] = deque()

    def count(self, tenant: str, workflow: str, outcome: str) -> None:
        """Count one start that ended so."""
        grain = int(self._clock() // _GRAIN_SECONDS)
        if not self._grains or self._grains[-1][0] != grain:
            self._grains.append((grain, Counter()))
            self._drop_old(grain)
        counts = self._grains[-1][1]
        key = (tenant, workflow, outcome)
        if key in counts or len(counts) < _SCOPES_MAX:
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

    def _drop_old(self, grain: int) -> None:
        oldest = grain - _WINDOW_SECONDS_MAX // _GRAIN_SECONDS
        while self._grains and self._grains[0][0] < oldest:
            self._grains.popleft()
