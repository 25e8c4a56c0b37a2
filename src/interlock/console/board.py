"""The board: who holds which resource, why and until when, who waits for it, and how many runs have a slot."""

from __future__ import annotations

import msgspec

from interlock.console.visit import ROWS, PageRoute, Visit
from interlock.wire.admission import Limits, Run
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.leases import Checkpoints, Lease, Waiter, Waiters

_FILTERS = ("resource", "owner")
_PARTS = (
    ("done", "Done"),
    ("partial", "Half done"),
    ("open_questions", "Open questions"),
    ("evidence", "Evidence"),
    ("validation", "Checked"),
)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One resource: the leases on it, and the line of those who wait for it."""

    resource: str
    leases: list[Lease]
    line: list[Waiter]


async def show(visit: Visit) -> Response:
    filters = visit.query.given(*_FILTERS)
    is_past = visit.query.one("show") == "past"
    cursor = visit.query.one("cursor") or None
    leases = await visit.api.ask(
        "list_leases",
        Page[Lease],
        query={**filters, "live": not is_past, **visit.paging},
    )
    waiters = (await visit.api.ask("lease_waiters", Waiters)).items
    runs = await visit.api.ask("list_runs", Page[Run], query={"state": "running", "limit": ROWS})
    return await visit.page(
        "board.html",
        places=places_of(leases.items, waiters, alone=not (is_past or filters or cursor)),
        next_cursor=leases.next_cursor,
        limits=await visit.api.ask("list_limits", Limits),
        runs=runs,
        filters=filters,
        is_past=is_past,
        parts=_PARTS,
    )


async def show_lease(visit: Visit) -> Response:
    lease = await visit.api.ask("get_lease", Lease, path=visit.path)
    kept = await visit.api.ask("lease_checkpoints", Checkpoints, path=visit.path)
    waiters = (await visit.api.ask("lease_waiters", Waiters)).items
    return await visit.page(
        "lease.html",
        lease=lease,
        checkpoints=kept.items,
        line=[waiter for waiter in waiters if waiter.resource == lease.resource],
        parts=_PARTS,
    )


def places_of(leases: tuple[Lease, ...], waiters: tuple[Waiter, ...], *, alone: bool) -> list[Place]:
    """Resources by name, each with its leases and its line; with `alone`, also those that have only a line."""
    held: dict[str, list[Lease]] = {}
    lines: dict[str, list[Waiter]] = {}
    for lease in leases:
        held.setdefault(lease.resource, []).append(lease)
    for waiter in waiters:
        lines.setdefault(waiter.resource, []).append(waiter)
    names = {*held, *(lines if alone else ())}
    return [
        Place(resource=name, leases=held.get(name, []), line=lines.get(name, [])) for name in sorted(names)
    ]


PAGES = (
    PageRoute(path="/console/board", operation="list_leases", answer=show),
    PageRoute(path="/console/board/{lease_id}", operation="get_lease", answer=show_lease),
)
