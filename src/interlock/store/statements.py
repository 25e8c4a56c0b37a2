"""What the SQL stores share: statements for every kind, the store's own row, and a cache of immutable records.

The statements are made from a kind's table and columns, never from callers' input.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from interlock.kernel.record import Key, Kind, Params, Record, from_micros
from interlock.kernel.store_state import StoreState


def columns(kind: Kind[Any]) -> tuple[str, ...]:
    """The columns of a kind's table, in the order in which `kind.row` gives their values."""
    return ("tenant", "id", "version", "body", *kind.columns)


@cache
def select_one(kind: Kind[Any]) -> str:
    return f"SELECT body FROM {kind.table} WHERE tenant = ? AND id = ?"


@cache
def insert_one(kind: Kind[Any]) -> str:
    names = columns(kind)
    return f"INSERT INTO {kind.table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


@cache
def update_one(kind: Kind[Any]) -> str:
    """Takes the row, then the version that it must still have."""
    names = columns(kind)
    sets = ", ".join(
        f"{name} = ?{n}" for n, name in enumerate(names, start=1) if name not in ("tenant", "id")
    )
    return f"UPDATE {kind.table} SET {sets} WHERE tenant = ?1 AND id = ?2 AND version = ?{len(names) + 1}"


@cache
def update_some(kind: Kind[Any], changed: tuple[str, ...]) -> str:
    """Takes tenant, id, version and body, the changed columns, then the version that the row must still have.

    An index is written again if any of its columns is set, even to what it was.
    """
    names = ("version", "body", *changed)
    sets = ", ".join(f"{name} = ?{n}" for n, name in enumerate(names, start=3))
    return f"UPDATE {kind.table} SET {sets} WHERE tenant = ?1 AND id = ?2 AND version = ?{len(names) + 3}"


@cache
def delete_one(kind: Kind[Any]) -> str:
    return f"DELETE FROM {kind.table} WHERE tenant = ? AND id = ? AND version = ?"


# As `state_of` takes them.
STATE_COLUMNS = "epoch, fence_floor, raised_at, raised_why, ids_ahead, clock_repairs, clock_repaired_at"
READ_STATE = f"SELECT {STATE_COLUMNS} FROM store_state WHERE id = 1"
# As one text, to travel with the clock of a PostgreSQL batch.
READ_STATE_AS_TEXT = f"(SELECT json_build_array({STATE_COLUMNS})::text FROM store_state WHERE id = 1)"

_texts = msgspec.json.Decoder(list[Any])


def state_of(row: Sequence[Any]) -> StoreState:
    """The state in the values of `STATE_COLUMNS`."""
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
    """The state in what `READ_STATE_AS_TEXT` found."""
    return state_of(_texts.decode(text))


PRUNED_MAX = 1000
PRUNE_BLOCKS = ("store.prune_batches", "store.prune_answers")

_HOUR_MICROS = 3_600_000_000


def prune_params(now: int, rows_max: int) -> Params:
    """What may be deleted. A lost COMMIT is settled within minutes, so an hour is plenty; `now` in microseconds."""
    return {"before": now - _HOUR_MICROS, "now": now, "limit": rows_max}


class KeptImmutables:
    """The most recently used records of immutable kinds, at most `most`."""

    def __init__(self, most: int = 256) -> None:
        self._records: OrderedDict[Key, Record] = OrderedDict()
        self._most = most

    def find(self, key: Key) -> Record | None:
        record = self._records.get(key)
        if record is not None:
            self._records.move_to_end(key)
        return record

    def keep(self, key: Key, record: Record) -> None:
        self._records[key] = record
        if len(self._records) > self._most:
            self._records.popitem(last=False)
