"""Rows that are not what was written, because somebody wrote to the database: left out, told of, in nobody's way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

from interlock.kernel.record import Kind, Pick, Record
from interlock.kernel.refusal import Unreadable

R = TypeVar("R", bound=Record)

_SPOILT_MAX = 256


def readable(kind: Kind[R], bodies: Iterable[bytes | str]) -> list[R]:
    """The records in these bodies. One that cannot be read must not keep anybody from the others."""
    found: list[R] = []
    for body in bodies:
        try:
            found.append(kind.decode(body))
        except Unreadable as unreadable:
            report(unreadable)
    return found


def report(unreadable: Unreadable) -> None:
    """Tell whoever runs this of a record that was left out, once."""
    _report(unreadable.kind, unreadable.why)


def met() -> int:
    """How many records this process has reported, as far as it counts."""
    return _report.cache_info().currsize


class Choosing(Generic[R]):
    """One pick under way: run its query for `asks_for` rows and `take` them, until it asks for none.

    Rows that cannot be read, or whose columns say something else than their bodies, must not use up its limit, or
    they would hide what is behind them.
    """

    def __init__(self, pick: Pick[R], now: datetime) -> None:
        self.asks_for = pick.limit
        self.chosen: Sequence[R] = ()
        self._pick = pick
        self._now = now

    def take(self, rows: Sequence[Any]) -> None:
        """Keep what was to be chosen. Ask again, for more, if the rest may have kept something from us."""
        pick, now = self._pick, self._now
        found = [each for each in readable(pick.kind, (row[0] for row in rows)) if pick.matches(each, now)]
        self.chosen = found[: pick.limit]
        is_all = len(rows) < self.asks_for or len(found) >= pick.limit
        spoilt = len(rows) - len(found)
        self.asks_for = 0 if is_all or spoilt > _SPOILT_MAX else pick.limit + spoilt


@lru_cache(maxsize=256)
def _report(kind: str, why: str) -> None:
    import logging  # Here: it takes as long to import as the rest of a small program, and rarely has a say.

    logging.getLogger(__name__).error("a stored %s cannot be read: %s", kind, why)
