"""The records that a pick loaded, kept in the pick's order while the commands of a batch change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar

from interlock.kernel.record import Key, Pick, Record

R = TypeVar("R", bound=Record)


class Candidates(Generic[R]):
    """The records one pick may choose from: those it loaded, and those the batch changed so that they fit.

    A pick that loaded as many as it asked for knows nothing of what sorts after its last record, so a
    changed record beyond that horizon is no candidate: something unseen may come before it. `records` match at the
    world's time, as they were loaded.
    """

    def __init__(self, pick: Pick[R], records: Sequence[R]) -> None:
        ordered = sorted(records, key=pick.sort_key)
        self.is_full = len(ordered) >= pick.limit
        self.last: R | None = ordered[-1] if ordered and self.is_full else None
        self._horizon: Any = pick.sort_key(self.last) if self.last is not None else None
        self.loaded = [(pick.kind.key_of(record), record) for record in ordered]
        self._skip = 0
        self._read = 0
        self._changed: dict[Key, None] = {}
        # Many commands of a batch ask before any of them changes something; all get the same answer.
        self._chosen: tuple[R, ...] = ()
        self._chosen_at = (-1, -1)

    def start_over(self) -> None:
        """Forget what was learned of changes: some were undone, or more was loaded."""
        self._skip = self._read = 0
        self._changed.clear()
        self._chosen_at = (-1, -1)

    def choose(
        self,
        pick: Pick[R],
        records: Mapping[Key, Any],
        staged: Mapping[Key, object],
        changes: Sequence[Key],
        now: datetime,
    ) -> tuple[R, ...]:
        """The first `pick.limit` that match now. `changes` is the batch's log of changed keys."""
        asked_at = (pick.limit, len(changes))
        if asked_at == self._chosen_at:
            return self._chosen
        self._learn(pick, records, changes, now)
        loaded = self.loaded
        while self._skip < len(loaded) and loaded[self._skip][0] in staged:
            self._skip += 1
        untouched = (one for one in islice(loaded, self._skip, None) if one[0] not in staged)
        # What was loaded again, to own it, may be another by now.
        matching = (
            record
            for key, as_loaded in untouched
            if (record := records[key]) is as_loaded or pick.matches(record, now)
        )
        found: list[R] = list(islice(matching, pick.limit))
        if self._changed:
            found.extend(records[key] for key in self._changed)
            found.sort(key=pick.sort_key)
        self._chosen, self._chosen_at = tuple(found[: pick.limit]), asked_at
        return self._chosen

    def _learn(
        self, pick: Pick[R], records: Mapping[Key, Any], changes: Sequence[Key], now: datetime
    ) -> None:
        for key in islice(changes, self._read, None):
            if key.kind is not pick.kind:
                continue
            record = records[key]
            if record is not None and pick.matches(record, now) and self._is_in_sight(pick, record):
                self._changed[key] = None
            else:
                self._changed.pop(key, None)
        self._read = len(changes)

    def _is_in_sight(self, pick: Pick[R], record: R) -> bool:
        return not self.is_full or (self._horizon is not None and pick.sort_key(record) <= self._horizon)
