"""Every page of the console, and the stream that keeps open ones current: one a browser, which its tabs share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from interlock.console import (
    approval,
    audit,
    board,
    conflicts,
    deliveries,
    effects,
    grants,
    inbox,
    jobs,
    people,
    policy,
    provider_sign_in,
    runs,
    settings,
    sign_in,
    traffic,
    workflows,
)
from interlock.console.client import Refused, read_refusal
from interlock.console.visit import PageRoute, Visit
from interlock.service.event_feed import EventFeed
from interlock.wire.http import Response

# Pages that hear it fetch themselves again: while the store is away that fails, and they say so.
_LOOK_AGAIN = b"data: {}\n\n"


async def _events(visit: Visit) -> Response:
    """The stream of events. Browsers hear unnamed events without a list of names; the type is in the data."""
    last = visit.request.headers.get("last-event-id", "")
    headers = {"last-event-id": last} if last else {}
    response = await visit.api.respond(
        "stream_events", query={"after": visit.query.one("after") or None}, headers=headers
    )
    if response.status >= 400 or response.stream is None:
        raise Refused(read_refusal(response))
    return msgspec.structs.replace(response, stream=_unnamed(response.stream, visit.service.feed))


async def _unnamed(stream: AsyncIterator[bytes], feed: EventFeed) -> AsyncIterator[bytes]:
    """The blocks without their names, and a block without a type when the store goes away or comes back."""
    was_cut_off = feed.is_cut_off
    async for block in stream:
        yield b"\n".join(line for line in block.split(b"\n") if not line.startswith(b"event:"))
        if feed.is_cut_off != was_cut_off:
            was_cut_off = feed.is_cut_off
            yield _LOOK_AGAIN


PAGES: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *provider_sign_in.PAGES,
    *inbox.PAGES,
    *approval.PAGES,
    *jobs.PAGES,
    *board.PAGES,
    *conflicts.PAGES,
    *effects.PAGES,
    *grants.PAGES,
    *runs.PAGES,
    *workflows.PAGES,
    *policy.PAGES,
    *audit.PAGES,
    *traffic.PAGES,
    *deliveries.PAGES,
    *people.PAGES,
    *settings.PAGES,
    PageRoute(path="/console/events", operation="stream_events", answer=_events),
)
