"""The server's own metrics: of its kernel, its relays and its slots."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from interlock.kernel import pages
from interlock.kernel.ids import new_id
from interlock.kernel.store_time import StoreTime
from interlock.rooms.admission.model import Tallied, Tally
from interlock.service.metrics import OTHER, Registry
from interlock.store.clock import utc_now

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_WAITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
_AGES = (60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_SMOOTHING = 0.2


class Measures:
    """Counters that rooms' routes and the sweeps add to."""

    def __init__(self, registry: Registry) -> None:
        self.submits = registry.counter(
            "interlock_submits_total", "Jobs submitted, by what the policy decided.", ("decision",)
        )
        self.approvals = registry.counter(
            "interlock_approvals_total",
            "Approval decisions, by their outcome or refusal.",
            ("verb", "outcome"),
        )
        self.swept = registry.counter("interlock_swept_total", "Records tidied up by sweeps.", ("what",))
        self.work = WorkMeasures(registry)
        self.replays = registry.counter(
            "interlock_idempotent_replays_total", "Answers given again under their idempotency key."
        )


class WorkMeasures:
    """What workers do, and what becomes of it."""

    def __init__(self, registry: Registry) -> None:
        self.claims = registry.counter(
            "interlock_claims_total", "Claims, by whether there was work.", ("outcome",)
        )
        self.looks = registry.counter(
            "interlock_claim_looks_total", "How often waiting claims looked for work again."
        )
        self.finished = registry.counter(
            "interlock_attempts_finished_total",
            "Attempts that workers ended, by what came of them.",
            ("outcome",),
        )
        self.stale_fences = registry.counter(
            "interlock_fences_stale_total", "Calls refused because their fence was stale.", ("verb",)
        )
        self.lost = registry.counter("interlock_leases_lost_total", "Leases of jobs that ran out.")
        self.dead = registry.counter(
            "interlock_dead_letters_total", "Jobs that became dead letters by a sweep."
        )
        self.replayed = registry.counter(
            "interlock_replayed_total", "Unclaimed jobs that were offered again."
        )
        self.replay_age = registry.histogram(
            "interlock_replayed_age_seconds", "How long offered-again jobs had waited.", buckets=_AGES
        )
        self.claim_wait = registry.histogram(
            "interlock_claim_wait_seconds",
            "Time from when a job could run to when it was claimed.",
            buckets=_WAITS,
        )
        self.dead_letters = 0
        registry.gauge(
            "interlock_dead_letters", "Dead letters waiting for someone.", lambda: self.dead_letters
        )

    def claimed(self, waited_seconds: float) -> None:
        self.claims.add("claimed")
        self.claim_wait.observe(waited_seconds)


class KernelMeasures:
    """Watches the kernel; estimates how long its queue takes from how fast it has been."""

    def __init__(self, registry: Registry, queue_depth: Callable[[], int]) -> None:
        self._sizes = registry.histogram(
            "interlock_batch_commands", "Commands carried by one commit.", buckets=_BATCH_SIZES
        )
        self._seconds = registry.histogram(
            "interlock_commit_seconds", "Time from batch start to durable commit."
        )
        self._reruns = registry.counter(
            "interlock_batch_reruns_total", "Batches carried again, by why.", ("why",)
        )
        self._overloaded = registry.counter(
            "interlock_overloaded_total", "Commands refused for a full queue."
        )
        registry.gauge("interlock_queue_depth", "Commands waiting for a batch.", queue_depth)
        registry.gauge(
            "interlock_unreadable_records",
            "Stored records that this server met and could not read; its log names them.",
            unreadable_records,
        )
        self._seconds_each = 0.001

    def committed(self, commands: int, seconds: float) -> None:
        self._sizes.observe(commands)
        self._seconds.observe(seconds)
        self._seconds_each += _SMOOTHING * (seconds / max(1, commands) - self._seconds_each)

    def reran(self, why: str) -> None:
        self._reruns.add(why)

    def refused_overloaded(self) -> None:
        self._overloaded.add()

    def drain_seconds(self, queued: int) -> float:
        return max(0.1, queued * self._seconds_each)


def measure_store(registry: Registry, store_time: StoreTime) -> None:
    """What the store says of itself: how its clock compares with this machine's, and the epoch of its fences."""
    registry.gauge(
        "interlock_store_clock_ahead_seconds",
        "How far the store's clock is ahead of this machine's; more than 5 either way is trouble.",
        lambda: store_time.ahead_seconds,
    )
    registry.gauge(
        "interlock_fence_epoch",
        "How often fences were raised, after a restore or a failover.",
        lambda: store_time.state.epoch,
    )


def unreadable_records() -> int:
    """How many records this process found that were damaged in the store."""
    return pages.met()


class RelayMeasures:
    """Counters and gauges of the relays that this server holds."""

    def __init__(self, registry: Registry) -> None:
        self.deliveries = registry.counter(
            "interlock_deliveries_total",
            "Attempts to deliver an event, by the kind of target and what came of it.",
            ("target", "outcome"),
        )
        self.rewinds = registry.counter(
            "interlock_broker_rewinds_total", "Times that the broker had lost events and got them again."
        )
        self._positions: dict[str, int] = {}
        self._ages: dict[str, float] = {}
        self._head: Callable[[], int] = lambda: 0
        registry.gauges("interlock_relay_lag_events", "Positions a relay is behind.", ("relay",), self._lags)
        registry.gauges(
            "interlock_relay_lag_seconds",
            "Age of the oldest event that a relay has not settled.",
            ("relay",),
            lambda: {(relay,): age for relay, age in self._ages.items()},
        )

    def follow(self, head: Callable[[], int]) -> None:
        """Where to ask for the newest position."""
        self._head = head

    def at(self, relay: str, position: int, age_seconds: float) -> None:
        """A relay stands at a position; the next event to settle is so old (0 if there is none)."""
        self._positions[relay] = position
        self._ages[relay] = max(0.0, age_seconds)

    def gone(self, relay: str) -> None:
        """This server holds the relay no longer."""
        self._positions.pop(relay, None)
        self._ages.pop(relay, None)

    def _lags(self) -> Mapping[tuple[str, ...], float]:
        head = self._head()
        return {(relay,): max(0, head - position) for relay, position in self._positions.items()}


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
        """The counts since the last call; each record has the full count of its seconds."""
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
