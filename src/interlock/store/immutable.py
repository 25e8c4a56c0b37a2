"""Kept copies of records that never change, so that a batch need not load the active policy each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from interlock.kernel.record import Key, Record


class KeptImmutables:
    """The most recently used immutable records, at most `most`."""

    def __init__(self, most: int = 256) -> None:
        self._records: OrderedDict[Key, Record] = OrderedDict()
        self._most = most

    def find(self, keys: Iterable[Key]) -> dict[Key, Record]:
        """Those of these keys that are kept."""
        found: dict[Key, Record] = {}
        for key in keys:
            if key.kind.immutable and key in self._records:
                self._records.move_to_end(key)
                found[key] = self._records[key]
        return found

    def keep(self, key: Key, record: Record) -> None:
        """Remember a record, if its kind never changes."""
        if key.kind.immutable:
            self._records[key] = record
            if len(self._records) > self._most:
                self._records.popitem(last=False)
