"""The service's own figures: decisions by kind, batches, the queue."""

from __future__ import annotations

from collections.abc import Callable

from interlock.api.metrics import Registry

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
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
        self.replays = registry.counter(
            "interlock_idempotent_replays_total", "Answers given again under their idempotency key."
        )


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
