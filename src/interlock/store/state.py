"""What a store records about itself and loads with every batch; and what it may delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.kernel.record import Params, from_micros
from interlock.kernel.store_state import StoreState

# As `state_of` takes them.
COLUMNS = "epoch, fence_floor, raised_at, raised_why, ids_ahead, clock_repairs, clock_repaired_at"
READ = f"SELECT {COLUMNS} FROM store_state WHERE id = 1"
# As one text, to travel with the clock of a PostgreSQL batch.
READ_AS_TEXT = f"(SELECT json_build_array({COLUMNS})::text FROM store_state WHERE id = 1)"

_texts = msgspec.json.Decoder(list[Any])


def state_of(row: Sequence[Any]) -> StoreState:
    """The state in the values of `COLUMNS`."""
    epoch, floor, raised_at, why, ids_ahead, repairs, repaired_at = row
    return StoreState(
        epoch=epoch,
        fence_floor=floor,
        raised_at=None if raised_at is None else from_micros(raised_at),
        raised_why=why or "",
        ids_ahead_micros=ids_ahead,
        clock_repairs=repairs,
        clock_repaired_at=None if repaired_at is None else from_micros(repaired_at),
    )


def state_in(text: bytes | str) -> StoreState:
    """The state in what `READ_AS_TEXT` found."""
    return state_of(_texts.decode(text))


ROWS_MAX = 1000
BLOCKS = ("store.prune_batches", "store.prune_answers")

_HOUR_MICROS = 3_600_000_000


def params(now: int, rows_max: int) -> Params:
    """A lost COMMIT is settled within minutes, so an hour is plenty; `now` in microseconds."""
    return {"before": now - _HOUR_MICROS, "now": now, "limit": rows_max}
