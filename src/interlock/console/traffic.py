"""Traffic: how starts of runs ended over time. 429 was evaluated and full; 503 could not be evaluated."""

from __future__ import annotations

import re

import msgspec

from interlock.console.visit import PageRoute, Visit
from interlock.wire.admission import AdmissionStats, StartsOfWorkflow, ThrottlesOfTopic, TrafficPoint
from interlock.wire.http import Response

_NAME = re.compile(r"[A-Za-z0-9_.:\-]{1,255}")


class Window(msgspec.Struct, frozen=True):
    """How far to look back, and in which steps."""

    window: str
    step: str
    name: str
    step_name: str


_WINDOWS = (
    Window("1h", "1m", "last hour", "minute"),
    Window("6h", "5m", "last 6 hours", "5 minutes"),
    Window("24h", "15m", "last day", "15 minutes"),
    Window("7d", "1h", "last 7 days", "hour"),
    Window("30d", "2h", "last 30 days", "2 hours"),
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow or topic, with what share of its starts was refused."""

    name: str
    admitted: int
    full_429: int
    unavailable_503: int
    throttled: int

    @property
    def full_share(self) -> float:
        return _share(self.full_429, self.admitted, self.unavailable_503)


async def show(visit: Visit) -> Response:
    chosen = next((each for each in _WINDOWS if each.window == visit.query.one("window")), _WINDOWS[0])
    by = "topic" if visit.query.one("by") == "topic" else "workflow"
    name = visit.query.one("name")
    is_name = bool(_NAME.fullmatch(name))
    found = await visit.api.ask(
        "admission_stats",
        AdmissionStats,
        query={
            "window": chosen.window,
            "step": chosen.step,
            "by": by,
            "name": name if is_name else None,
            **visit.paging,
        },
    )
    points = found.series
    return await visit.page(
        "traffic.html",
        stats=found,
        by=by,
        name=name if is_name else "",
        complaint="" if is_name or not name else f"{name} is not the name of a {by}; all are shown.",
        points=points,
        # The newest first, and only steps in which something happened: a table is for reading.
        busy=[point for point in reversed(points) if _total(point)],
        rows=[_row(each) for each in (found.topics if by == "topic" else found.workflows)],
        windows=_WINDOWS,
        chosen=chosen,
        full_share=_share(found.full_429, found.admitted, found.unavailable_503),
        unavailable_share=_share(found.unavailable_503, found.admitted, found.full_429),
    )


def _row(each: StartsOfWorkflow | ThrottlesOfTopic) -> Row:
    if isinstance(each, ThrottlesOfTopic):
        return Row(
            name=each.topic, admitted=0, full_429=0, unavailable_503=0, throttled=each.policy_throttled_429
        )
    return Row(
        name=each.workflow,
        admitted=each.admitted,
        full_429=each.full_429,
        unavailable_503=each.unavailable_503,
        throttled=0,
    )


def _total(point: TrafficPoint) -> int:
    return sum(count for count in msgspec.structs.asdict(point).values() if isinstance(count, int))


def _share(part: int, *others: int) -> float:
    """Per cent of all, 0 if there is nothing."""
    whole = part + sum(others)
    return 100 * part / whole if whole else 0.0


PAGES = (PageRoute(path="/console/traffic", answer=show, operation="admission_stats"),)
