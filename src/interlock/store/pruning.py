"""What a store may forget: ids of batches that nobody can ask about any more, and expired answers."""

from __future__ import annotations

from interlock.kernel.record import Params

ROWS_MAX = 1000
BLOCKS = ("store.prune_batches", "store.prune_answers")

_HOUR_MICROS = 3_600_000_000


def params(now: int, rows_max: int) -> Params:
    """A lost COMMIT is settled within minutes, so an hour is plenty; `now` in microseconds."""
    return {"before": now - _HOUR_MICROS, "now": now, "limit": rows_max}
