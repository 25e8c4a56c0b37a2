"""A cache of records that never change, so that a batch need not load the active policy each time."""

from __future__ import annotations

from collections import OrderedDict

from interlock.kernel.record import Key, Record


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
