"""What happens, as it happens, for pages that are open: one stream a browser, which its tabs share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from interlock.console.client import Refused, read_refusal
from interlock.console.route import PageRoute
from interlock.console.visit import Visit
from interlock.wire.http import Response


async def events(visit: Visit) -> Response:
    """The stream of events. Browsers hear unnamed events without a list of names; the type is in the data."""
    last = visit.request.headers.get("last-event-id", "")
    headers = {"last-event-id": last} if last else {}
    response = await visit.api.respond(
        "stream_events", query={"after": visit.query.one("after") or None}, headers=headers
    )
    if response.status >= 400 or response.stream is None:
        raise Refused(read_refusal(response))
    return msgspec.structs.replace(response, stream=_unnamed(response.stream))


async def _unnamed(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for block in stream:
        yield b"\n".join(line for line in block.split(b"\n") if not line.startswith(b"event:"))


PAGES = (PageRoute(path="/console/events", operation="stream_events", answer=events),)
