"""Traffic over HTTP: how starts of runs ended on all servers, in a window and over time, by workflow or by topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from interlock.api.calls import Asked
from interlock.api.jobs import READERS
from interlock.api.operations import Operation, Query, Reply
from interlock.api.pages import LIMIT_DEFAULT, LIMIT_MAX
from interlock.api.problem import invalid
from interlock.kernel.codec.durations import duration_seconds
from interlock.kernel.codec.strict import JsonFault as FieldFault
from interlock.kernel.record import from_micros, micros
from interlock.rooms.admission import queries
from interlock.rooms.admission.model import Counts, Tally, TrafficSheet
from interlock.rooms.admission.traffic import (
    HOURS,
    MINUTES,
    NONE,
    ROLLED_UP_AFTER,
    Span,
    Subject,
    floored,
    news_of,
    plus,
    slots_of,
    total,
)
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import admission as wire
from interlock.wire.fields import OMITTED, DurationInQuery

_TALLIES_MAX = 20_000
_LOOKED_UP_MAX = 100
_BUCKETS_MAX = 400
# A page with series has as many workflows as keep it below this.
_POINTS_MAX = 20_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:\-]+$(?!\n)")]


class StatsQuery(Query, frozen=True, kw_only=True):
    """A window of more than 24 h is counted in whole hours, up to 30 days; a shorter one in whole minutes."""

    window: DurationInQuery = "1h"
    step: DurationInQuery | None = None
    by: Literal["workflow", "topic"] = "workflow"
    name: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT
    cursor: Name | None = None


async def stats(call: Asked[StatsQuery, None]) -> Reply:
    """Sums for the tenant, and a page of its workflows (or of topics) by name."""
    asked = _Window.of(call.query, call.services.now())
    pending = _Pending(asked, await _pending(call, asked))
    subject = Subject(call.query.by)
    whole = await _whole(call, asked, pending)
    names, next_cursor = await _named(call, asked, pending, subject)
    sums = total(whole.values())
    rows = tuple(_row(asked, subject, name, names[name]) for name in sorted(names))
    return Reply(
        200,
        wire.AdmissionStats(
            tenant=call.caller.tenant,
            window=call.query.window,
            since=asked.since,
            admitted=sums[0],
            full_429=sums[1],
            unavailable_503=sums[2],
            policy_throttled_429=sums[3],
            series=OMITTED if asked.step is None else _dense(asked, whole),
            workflows=rows if subject is Subject.WORKFLOW else (),
            topics=rows if subject is Subject.TOPIC else OMITTED,
            next_cursor=next_cursor,
        ),
    )


# Counts by the beginning of their bucket, in seconds since the epoch: an answer may be made of very many.
Buckets = dict[int, Counts]


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: from `since` to `until`, in buckets of `step` seconds, if any."""

    since: datetime
    until: datetime
    span: Span
    step: int | None

    @classmethod
    def of(cls, query: StatsQuery, now: datetime) -> _Window:
        seconds = min(duration_seconds(query.window), HOURS.window_seconds)
        span = MINUTES if seconds <= MINUTES.window_seconds else HOURS
        step = None if query.step is None else _checked_step(duration_seconds(query.step), seconds, span)
        return cls(since=now - timedelta(seconds=seconds), until=now, span=span, step=step)

    @property
    def first(self) -> datetime:
        """The beginning of the first slot or bucket that is part of the window."""
        return floored(self.since, self.step or self.span.slot_seconds)

    def bucket(self, second: int) -> int:
        """The beginning of the bucket that a second is in; without steps there is one for the whole window."""
        return 0 if self.step is None else second - second % self.step

    @property
    def buckets(self) -> int:
        """How many there are at most."""
        return 1 if self.step is None else int((self.until - self.first).total_seconds()) // self.step + 1


class _Pending:
    """What no sheet has yet, by what it counts for, in the buckets of a window."""

    def __init__(self, asked: _Window, tallies: Iterable[Tally]) -> None:
        self._found: dict[tuple[Subject, str], Buckets] = {}
        for tally in tallies:
            # Tallies are of a few seconds, so a short window can be told more exactly than by minutes.
            if tally.at < (asked.since if asked.step is None else asked.first):
                continue
            for subject, name, news in news_of(tally):
                _add(self._found.setdefault((subject, name), {}), asked.bucket(_second(tally.at)), news)

    def of(self, subject: Subject, name: str) -> Buckets:
        return self._found.get((subject, name), {})

    def names(self, subject: Subject) -> list[str]:
        return [name for known, name in self._found if known is subject]


async def _pending(call: Asked[StatsQuery, None], asked: _Window) -> Iterable[Tally]:
    """The tallies that no sheet has: those stored, and those that this server has not handed in."""
    service, tenant = call.services, call.caller.tenant
    stored = await queries.pending_tallies(service.store, tenant, asked.first, limit=_TALLIES_MAX)
    held = {tally.id: tally for tally in service.admission_stats.held(tenant)}
    known = {tally.id: tally for tally in stored if tally.id in held}
    # One that could not be handed in all the same may be stored, and by now rolled up.
    late = [tally.id for tally in held.values() if tally.at < asked.until - ROLLED_UP_AFTER]
    for tally_id in late[:_LOOKED_UP_MAX]:
        if tally_id not in known and (found := await queries.read_tally(service.store, tenant, tally_id)):
            known[tally_id] = found
    return [
        *(tally for tally in stored if tally.id not in held),
        *(
            msgspec.structs.replace(tally, rolled=known[tally.id].rolled) if tally.id in known else tally
            for tally in held.values()
        ),
    ]


async def _whole(call: Asked[StatsQuery, None], asked: _Window, pending: _Pending) -> Buckets:
    """What was counted for the whole tenant, or for the one name that was asked for, by bucket."""
    subject = Subject(call.query.by) if call.query.name is not None else Subject.TENANT
    name = call.query.name or ""
    return await _one(call, asked, pending, subject, name)


async def _one(
    call: Asked[StatsQuery, None], asked: _Window, pending: _Pending, subject: Subject, name: str
) -> Buckets:
    store, tenant, span = call.services.store, call.caller.tenant, asked.span
    since = span.sheet_at(asked.first)
    sheets = await queries.sheets_of(store, tenant, span.shelf(subject), name, since, limit=span.sheets_max)
    return _bucketed(asked, sheets, {name: pending.of(subject, name)}).get(name, {})


async def _named(
    call: Asked[StatsQuery, None], asked: _Window, pending: _Pending, subject: Subject
) -> tuple[dict[str, Buckets], str | None]:
    """A page of names with what was counted for each, and where to go on."""
    query, span = call.query, asked.span
    if query.name is not None:
        found = await _one(call, asked, pending, subject, query.name)
        return ({query.name: found} if found else {}), None
    most = max(1, min(query.limit, _POINTS_MAX // asked.buckets))
    after, limit = query.cursor or "", (most + 1) * span.sheets_max
    sheets = await queries.sheets_from(
        call.services.store,
        call.caller.tenant,
        span.shelf(subject),
        after,
        span.sheet_at(asked.first),
        limit=limit,
    )
    names = sorted(
        {sheet.name for sheet in sheets} | {name for name in pending.names(subject) if name > after}
    )
    page = names[:most]
    kept = set(page)
    found = _bucketed(
        asked,
        [sheet for sheet in sheets if sheet.name in kept],
        {name: pending.of(subject, name) for name in page},
    )
    return found, page[-1] if len(names) > most else None


def _bucketed(
    asked: _Window, sheets: Sequence[TrafficSheet], pending: dict[str, Buckets]
) -> dict[str, Buckets]:
    """What sheets and tallies have counted within the window, by name and bucket."""
    found = {name: dict(counts) for name, counts in pending.items() if counts}
    first, last = _second(asked.first), _second(asked.until)
    for sheet in sheets:
        for second, counts in slots_of(sheet, asked.span):
            if first <= second <= last:
                _add(found.setdefault(sheet.name, {}), asked.bucket(second), counts)
    return found


def _add(buckets: Buckets, at: int, counts: Counts) -> None:
    before = buckets.get(at)
    buckets[at] = counts if before is None else plus(before, counts)


def _second(moment: datetime) -> int:
    return micros(moment) // 1_000_000


def _dense(asked: _Window, found: Buckets) -> tuple[wire.TrafficPoint, ...]:
    """Every bucket of the window, also those in which nothing happened."""
    first, step = _second(asked.first), asked.step or 1
    seconds = range(first, first + asked.buckets * step, step)
    return tuple(_point(second, found.get(second, NONE)) for second in seconds)


def _point(second: int, counts: Counts) -> wire.TrafficPoint:
    return wire.TrafficPoint(
        at=from_micros(second * 1_000_000),
        admitted=counts[0],
        full_429=counts[1],
        unavailable_503=counts[2],
        policy_throttled_429=counts[3],
    )


def _row(asked: _Window, subject: Subject, name: str, found: Buckets) -> Any:
    """One workflow or topic; its series has the buckets with something to count."""
    sums = total(found.values())
    points = (_point(at, found[at]) for at in sorted(found))
    series = OMITTED if asked.step is None else tuple(points)
    if subject is Subject.TOPIC:
        return wire.ThrottlesOfTopic(topic=name, policy_throttled_429=sums[3], series=series)
    return wire.StartsOfWorkflow(
        workflow=name, admitted=sums[0], full_429=sums[1], unavailable_503=sums[2], series=series
    )


def _checked_step(step: int, window: int, span: Span) -> int:
    unit = "minutes" if span is MINUTES else "hours, because the window is longer than 24h"
    if step == 0 or step % span.slot_seconds:
        raise invalid(FieldFault("query/step", f"must be a whole number of {unit}"))
    if window // step > _BUCKETS_MAX:
        least = -(-window // _BUCKETS_MAX // span.slot_seconds) * span.slot_seconds
        reason = f"gives more than {_BUCKETS_MAX} steps; send at least {least}, or a shorter window"
        raise invalid(FieldFault("query/step", reason))
    return step


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="admission_stats", method="GET", path="/api/v1/admission/stats", tag="Admission", roles=READERS,
        summary="How starts ended: admitted, full, could not be evaluated",
        description="With `step`, also over time. `by=topic` lists the jobs that the policy throttled by topic "
        "instead of the starts by workflow; `name` asks for one of them.",
        query=StatsQuery, answers={200: wire.AdmissionStats}, answer=stats,
    ),
)  # fmt: skip
