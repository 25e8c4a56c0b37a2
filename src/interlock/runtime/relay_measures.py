"""The figures of relays: how much left, how much did not, how far behind each target is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.api.metrics import Registry


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
