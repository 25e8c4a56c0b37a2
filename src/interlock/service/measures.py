"""The server's own metrics: of its kernel, its relays and its slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from interlock.kernel import pages
from interlock.kernel.clock import StoreTime, utc_now
from interlock.rooms.jobs.queries import Awaiting
from interlock.service.metrics import Registry

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
        self.attention = AttentionMeasures(registry)
        self.replays = registry.counter(
            "interlock_idempotent_replays_total", "Answers given again under their idempotency key."
        )


class AttentionMeasures:
    """What waits for people, by tenant, as the last sweep found it; and how long ago that was.

    Every server tells the same of the store, so a sum over servers takes the highest.
    """

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self.awaiting: Sequence[Awaiting] = ()
        self.ambiguous: Mapping[str, int] = {}
        self._clock = clock
        self._now: Callable[[], datetime] = utc_now
        self._swept_at = clock()
        registry.gauges(
            "interlock_approvals_waiting",
            "Requests that wait for people.",
            ("tenant",),
            lambda: {(each.tenant,): each.count for each in self.awaiting},
        )
        registry.gauges(
            "interlock_approvals_oldest_seconds",
            "Age of the oldest request that waits for people.",
            ("tenant",),
            self._ages,
        )
        registry.gauges(
            "interlock_effects_ambiguous",
            "Effects whose outcome is unknown and that nobody has resolved.",
            ("tenant",),
            lambda: {(tenant,): count for tenant, count in self.ambiguous.items()},
        )
        registry.gauge(
            "interlock_sweep_age_seconds",
            "Time since this server last swept everything without trouble.",
            lambda: self._clock() - self._swept_at,
        )

    def follow(self, now: Callable[[], datetime]) -> None:
        """From now on, take the time from this clock."""
        self._now = now

    def swept(self) -> None:
        """Note that a pass over everything succeeded."""
        self._swept_at = self._clock()

    def _ages(self) -> Mapping[tuple[str, ...], float]:
        now = self._now()
        return {(each.tenant,): max(0.0, (now - each.since).total_seconds()) for each in self.awaiting}


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
        """From now on, ask this function for the newest position."""
        self._head = head

    def at(self, relay: str, position: int, age_seconds: float) -> None:
        """Note a relay's position, and how old the next event to settle is (0 if there is none)."""
        self._positions[relay] = position
        self._ages[relay] = max(0.0, age_seconds)

    def gone(self, relay: str) -> None:
        """Note that this server no longer holds the relay."""
        self._positions.pop(relay, None)
        self._ages.pop(relay, None)

    def _lags(self) -> Mapping[tuple[str, ...], float]:
        head = self._head()
        return {(relay,): max(0, head - position) for relay, position in self._positions.items()}
