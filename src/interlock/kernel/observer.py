"""What the kernel reports to its observer: batch sizes, commit times, re-runs, refusals for overload."""

from __future__ import annotations

from typing import Protocol


class BatchObserver(Protocol):
    """Receives the kernel's figures; must be quick and must not raise."""

    def committed(self, commands: int, seconds: float) -> None: ...

    def reran(self, why: str) -> None: ...

    def refused_overloaded(self) -> None: ...

    def drain_seconds(self, queued: int) -> float:
        """How long the present queue is likely to take."""
        ...


class Unobserved:
    """Watches nothing; its estimate is one second."""

    def committed(self, commands: int, seconds: float) -> None:
        return None

    def reran(self, why: str) -> None:
        return None

    def refused_overloaded(self) -> None:
        return None

    def drain_seconds(self, queued: int) -> float:
        return 1.0
