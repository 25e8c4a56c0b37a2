"""Traffic: how starts of runs ended over time, by workflow, kept for a month whatever the number of workflows.

Tallies are rolled up into sheets: one for each workflow and hour, with its minutes, and one for each workflow and day,
with its hours. The tenant as a whole has sheets too, so that its sums do not take longer with more workflows. A tally
and the sheets that take it in are one decision, and a tally remembers what was taken in of it, so nothing is counted
twice, even if a server hands it in again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from interlock.kernel.record import Key, Params, Pick, Reads, micros
from interlock.kernel.world import Command, World
from interlock.rooms.admission.model import TALLIES, TRAFFIC_SHEETS, Counts, Tallied, Tally, TrafficSheet

NONE: Counts = (0, 0, 0, 0)
# By then a server has handed in all that it counted in those seconds, unless the store was away.
ROLLED_UP_AFTER = timedelta(minutes=1)
_ROLLED_BYTES_MAX = 64 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One resolution: sheets of `sheet_seconds` with slots of `slot_seconds`, asked for up to `window_seconds` back."""

    name: str
    slot_seconds: int
    sheet_seconds: int
    window_seconds: int

    def shelf(self, subject: Subject) -> str:
        """Where the sheets of this resolution are that count for such a subject."""
        return f"{self.name}.{subject.value}"

    def sheet_at(self, moment: datetime) -> datetime:
        """The beginning of the sheet that a moment is on."""
        return floored(moment, self.sheet_seconds)

    def slot_at(self, moment: datetime) -> int:
        """Which slot of its sheet a moment is in."""
        return int((moment - self.sheet_at(moment)).total_seconds()) // self.slot_seconds

    @property
    def sheets_max(self) -> int:
        """On how many sheets of one name a window may be."""
        return self.window_seconds // self.sheet_seconds + 2


class Subject(StrEnum):
    """What a sheet counts for. That of the tenant has an empty name."""

    TENANT = "tenant"
    WORKFLOW = "workflow"
    TOPIC = "topic"


MINUTES = Span(name="minutes", slot_seconds=60, sheet_seconds=3600, window_seconds=24 * 3600)
HOURS = Span(name="hours", slot_seconds=3600, sheet_seconds=24 * 3600, window_seconds=30 * 24 * 3600)
SPANS = (MINUTES, HOURS)


def floored(moment: datetime, seconds: int) -> datetime:
    """The last whole multiple of `seconds` before a moment."""
    return moment - (moment - _EPOCH) % timedelta(seconds=seconds)


def plus(one: Counts, other: Counts) -> Counts:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3])


def total(many: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    summed = NONE
    for each in many:
        summed = plus(summed, each)
    return summed


def counts_of(row: Tallied) -> Counts:
    return (row.admitted, row.full, row.unavailable, row.throttled)


def subject_of(row: Tallied) -> tuple[Subject, str]:
    """What a row of a tally counts for."""
    return (Subject.TOPIC, row.topic) if row.topic else (Subject.WORKFLOW, row.workflow)


def news_of(tally: Tally) -> Iterator[tuple[Subject, str, Counts]]:
    """What no sheet has of a tally, for each of its names and for the tenant; the counts of a row only grow."""
    known = {subject_of(row): counts_of(row) for row in tally.rolled}
    whole = NONE
    for row in tally.rows:
        now, before = counts_of(row), known.get(subject_of(row), NONE)
        grown = (now[0] - before[0], now[1] - before[1], now[2] - before[2], now[3] - before[3])
        if any(grown):
            yield *subject_of(row), grown
            whole = plus(whole, grown)
    if any(whole):
        yield Subject.TENANT, "", whole


def slots_of(sheet: TrafficSheet, span: Span) -> Iterator[tuple[int, Counts]]:
    """What a sheet has counted: the beginning of each slot, in seconds since the epoch, and its counts."""
    begin = micros(sheet.at) // 1_000_000
    for slot, counts in sheet.slots.items():
        yield begin + slot * span.slot_seconds, counts


class PendingTallies(Pick[Tally], frozen=True, kw_only=True):
    """Tallies of a minute ago and before that no sheet has yet, in every tenant, the oldest first."""

    kind = TALLIES
    query = "admission.pending_tallies"

    @property
    def bytes_max(self) -> int:
        """A row of a tally is two sheets to write, and a batch should not have many thousands of them."""
        return _ROLLED_BYTES_MAX

    def params(self, now: datetime) -> Params:
        return {"before": micros(now - ROLLED_UP_AFTER)}

    def matches(self, record: Tally, now: datetime) -> bool:
        return record.rolled_at is None and record.at < now - ROLLED_UP_AFTER

    def sort_key(self, record: Tally) -> Any:
        return (record.at, record.tenant, record.id)


class RollUpTallies(Command[int], frozen=True, kw_only=True):
    """Add up to `most` tallies to their sheets; returns how many there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(PendingTallies(limit=self.most),))

    def more(self, world: World) -> Reads:
        return world.once(_sheets_to_own, world.pick(PendingTallies(limit=self.most)))

    def decide(self, world: World) -> int:
        tallies = world.pick(PendingTallies(limit=self.most))
        for (tenant, subject, name, span, sheet_at), slots in _added(tallies).items():
            fresh = TrafficSheet(
                tenant=tenant,
                id=_sheet_id(span, subject, name, sheet_at),
                shelf=span.shelf(subject),
                name=name,
                at=sheet_at,
                forget_at=sheet_at + timedelta(seconds=span.window_seconds + 2 * span.sheet_seconds),
                slots={},
            )
            sheet = world.get(TRAFFIC_SHEETS, tenant, fresh.id) or fresh
            summed = {slot: plus(sheet.slots.get(slot, NONE), counts) for slot, counts in slots.items()}
            world.put(TRAFFIC_SHEETS, msgspec.structs.replace(sheet, slots=sheet.slots | summed))
        for tally in tallies:
            world.put(TALLIES, msgspec.structs.replace(tally, rolled=tally.rows, rolled_at=world.now))
        return len(tallies)


class OldSheets(Pick[TrafficSheet], frozen=True, kw_only=True):
    """Sheets that no window reaches back to, in every tenant, the oldest first."""

    kind = TRAFFIC_SHEETS
    query = "admission.old_traffic_sheets"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: TrafficSheet, now: datetime) -> bool:
        return record.forget_at <= now

    def sort_key(self, record: TrafficSheet) -> Any:
        return (record.forget_at, record.tenant, record.id)


class ForgetTraffic(Command[int], frozen=True, kw_only=True):
    """Drop up to `most` sheets that are too old to be asked for; returns how many there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OldSheets(limit=self.most),))

    def decide(self, world: World) -> int:
        found = world.pick(OldSheets(limit=self.most))
        for sheet in found:
            world.delete(TRAFFIC_SHEETS, sheet)
        return len(found)


_Sheet = tuple[str, Subject, str, Span, datetime]


def _added(tallies: Iterable[Tally]) -> dict[_Sheet, dict[int, Counts]]:
    """What tallies add to which slots of which sheets."""
    added: dict[_Sheet, dict[int, Counts]] = {}
    for tally in tallies:
        for subject, name, counts in news_of(tally):
            for span in SPANS:
                slot = span.slot_at(tally.at)
                slots = added.setdefault((tally.tenant, subject, name, span, span.sheet_at(tally.at)), {})
                slots[slot] = plus(slots.get(slot, NONE), counts)
    return added


def _sheets_to_own(tallies: tuple[Tally, ...]) -> Reads:
    return Reads(own=tuple(_key(*sheet) for sheet in _added(tallies)))


def _key(tenant: str, subject: Subject, name: str, span: Span, sheet_at: datetime) -> Key:
    return TRAFFIC_SHEETS.key(tenant, _sheet_id(span, subject, name, sheet_at))


def _sheet_id(span: Span, subject: Subject, name: str, sheet_at: datetime) -> str:
    return f"{span.shelf(subject)}.{micros(sheet_at) // 1_000_000}.{name}"
