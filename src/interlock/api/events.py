"""Events over HTTP: a stream that can be resumed, and the same events in pages for simpler clients."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated, Any

import msgspec

from interlock.api.calls import Asked
from interlock.api.jobs import READERS
from interlock.api.operations import Media, Operation, Query, Reply
from interlock.api.problem import invalid
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.refusal import Overloaded
from interlock.kernel.storage import StoreDown
from interlock.rooms.events import queries
from interlock.rooms.events.cloud_events import (
    PREFIX,
    BadTypes,
    cloud_event,
    cloud_json,
    read_types,
    wants,
)
from interlock.rooms.events.model import PlacedEvent
from interlock.rooms.identity.model import API_KEYS, PRINCIPALS
from interlock.rooms.identity.queries import find_session
from interlock.rooms.identity.rules import why_over
from interlock.service.event_feed import Reader
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import events as wire
from interlock.wire.http import Request, Response

EVENT_STREAM = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
WAIT_SECONDS_MAX = 60.0

_PAGE = 200
_SCANNED_MAX = 2000
_RETRY_MS = 1000

Position = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1, description="Only events after this position.")]
Types = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=2000,
        description="Types, such as `approval.*,job.denied`. A type that no event has is refused.",
    ),
]


class StreamQuery(Query, frozen=True, kw_only=True):
    after: Position | None = None
    types: Types | None = None


class EventsQuery(StreamQuery, frozen=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=_PAGE)] = 50
    wait_seconds: Annotated[
        float, msgspec.Meta(ge=0, le=WAIT_SECONDS_MAX, description="How long to wait for the first event.")
    ] = 0


async def stream(call: Asked[StreamQuery, None]) -> Response:
    """Open the stream at the position that the client names, or at the newest."""
    service = call.services
    types = _types(call.query.types)
    await service.feed.start()
    await service.feed.catch_up()
    head = await queries.head(service.store)
    after = _resumed(call.request, call.query.after)
    if after is not None:
        _check_known(after, head)
    watched = _Watched(service, call.caller, types, after, head)
    headers = (("content-type", EVENT_STREAM), ("x-accel-buffering", "no"))
    return Response(status=200, headers=headers, stream=watched.lines())


async def page(call: Asked[EventsQuery, None]) -> Reply:
    """Events after a position, or the newest ones; waits for the first if asked to."""
    service, query = call.services, call.query
    types = _types(query.types)
    if not query.wait_seconds:
        return Reply(200, await _page(call, types))
    await service.feed.start()
    reader = service.feed.join(call.caller.tenant, types, after=query.after or 0)
    try:
        found = await _page(call, types)
        if not found.items and await reader.take(query.wait_seconds):
            found = await _page(call, types)
    finally:
        service.feed.leave(reader)
    return Reply(200, found)


async def _page(call: Asked[EventsQuery, None], types: tuple[str, ...]) -> wire.EventPage:
    store, tenant, query = call.services.store, call.caller.tenant, call.query
    await call.services.feed.catch_up()
    if query.after is None:
        newest = await queries.newest_events(store, tenant, limit=_SCANNED_MAX if types else query.limit)
        wanted = [each for each in newest if wants(types, each.event.type)][-query.limit :]
        head = await queries.head(store)
        return _rendered(wanted, newest[-1].position if newest else head)
    scanned = await queries.events_after(
        store, tenant, query.after, limit=_SCANNED_MAX if types else query.limit
    )
    wanted = [each for each in scanned if wants(types, each.event.type)][: query.limit]
    if not scanned:
        _check_known(query.after, await queries.head(store))
    is_cut = len(wanted) == query.limit
    last = wanted[-1] if is_cut else scanned[-1] if scanned else None
    return _rendered(wanted, last.position if last else query.after)


def _rendered(found: list[PlacedEvent], next_after: int) -> wire.EventPage:
    items = tuple(cloud_event(each.event, each.position) for each in found)
    return wire.EventPage(items=items, next_after=next_after)


class _Watched:
    """One client's stream: first what it missed, from the store; then what comes, from the feed."""

    def __init__(
        self, service: Service, caller: Known, types: tuple[str, ...], after: int | None, head: int
    ) -> None:
        self._service = service
        self._caller = caller
        self._types = types
        self._begins_now = after is None
        self._after = head if after is None else after
        self._head = head

    async def lines(self) -> AsyncIterator[bytes]:
        """Blocks of the stream, until the client is let go. If the store is away, it comes back in place."""
        yield self._greeting()
        with contextlib.suppress(StoreDown, Overloaded):
            gap = await self._gap()
            if gap:
                yield gap
            while True:
                reader = self._service.feed.join(self._caller.tenant, self._types, after=self._after)
                try:
                    async for block in self._missed(reader):
                        yield block
                    if reader.is_overrun:
                        continue  # it fell behind while reading old events: more old events, no fault of its own
                    async for block in self._coming(reader):
                        yield block
                    break
                finally:
                    self._service.feed.leave(reader)

    def _greeting(self) -> bytes:
        """An id before the first event, for a client that has none: cut off, it can still come back in place.

        A client that came with a position sees each id once, also if its reader takes every block for an event.
        """
        retry = f"retry: {_RETRY_MS}\n"
        return f"{retry}id: {self._after}\n\n".encode() if self._begins_now else retry.encode()

    async def _gap(self) -> bytes | None:
        """Tell the client that the events between its position and the oldest kept one are gone."""
        # If none is kept, the next one will be the oldest.
        oldest = await queries.oldest(self._service.store) or self._head + 1
        if not self._after or oldest <= self._after + 1:
            return None
        data = msgspec.json.encode({"forgotten_after": self._after, "oldest_kept": oldest})
        return b"event: interlock.gap\ndata: " + data + b"\n\n"

    async def _missed(self, reader: Reader) -> AsyncIterator[bytes]:
        while self._after < reader.start:
            found = await queries.events_after(
                self._service.store, self._caller.tenant, self._after, limit=_PAGE
            )
            for placed in found:
                if placed.position <= reader.start:
                    self._after = placed.position
                    if wants(self._types, placed.event.type):
                        yield _block(placed)
            if len(found) < _PAGE or found[-1].position > reader.start:
                self._after = max(self._after, reader.start)

    async def _coming(self, reader: Reader) -> AsyncIterator[bytes]:
        checked_at = monotonic()
        while not reader.is_over:
            taken = await reader.take(HEARTBEAT_SECONDS)
            # A session ends at once: its browser gets none of the events after that.
            if taken and self._caller.caller.session_id and not await self._is_known():
                return
            for placed in taken:
                yield _block(placed)
                self._after = placed.position
            if reader.is_overrun:
                self._service.feed.dropped.add()
                yield _farewell(self._after)
                return
            if not taken:
                yield b": beat\n\n"
            if monotonic() - checked_at >= HEARTBEAT_SECONDS:
                checked_at = monotonic()
                if not await self._is_known():
                    return

    async def _is_known(self) -> bool:
        """Whether key and roles still stand: a caller that loses either loses the stream, too, by the next beat.

        A session is also checked before each delivery.
        """
        caller, store = self._caller.caller, self._service.store
        # If nobody can tell, the next beat asks again; nothing new comes meanwhile.
        with contextlib.suppress(StoreDown, Overloaded):
            if caller.session_id is not None:
                return await self._is_signed_in(caller.session_id)
            if caller.key_id is None:
                return True
            key = await store.get(API_KEYS, caller.tenant, caller.key_id)
            principal = await store.get(PRINCIPALS, caller.tenant, caller.principal)
            may_read = principal is not None and any(role in READERS for role in principal.roles)
            return may_read and key is not None and key.revoked_at is None
        return True

    async def _is_signed_in(self, session_id: str) -> bool:
        found = await find_session(self._service.store, session_id)
        if found is None or found.principal is None or why_over(*found, self._service.now()):
            return False
        return any(role in READERS for role in found.principal.roles)


def _block(placed: PlacedEvent) -> bytes:
    data = cloud_json(placed.event, placed.position)
    return f"id: {placed.position}\nevent: {PREFIX}{placed.event.type}\ndata: ".encode() + data + b"\n\n"


def _farewell(after: int) -> bytes:
    reason = "more events came than you took; connect again with this Last-Event-ID"
    data = msgspec.json.encode({"resume_after": after, "reason": reason})
    return f"id: {after}\nevent: interlock.dropped\ndata: ".encode() + data + b"\n\n"


def _resumed(request: Request, after: int | None) -> int | None:
    """Where to go on: the header wins, as a browser that reconnects repeats the first URL."""
    last = request.headers.get("last-event-id", "")
    if not last:
        return after
    if not (last.isascii() and last.isdigit() and len(last) < 17):
        raise invalid(JsonFault("header/last-event-id", "is not an id of this stream; leave it out"))
    return int(last)


def _check_known(after: int, head: int) -> None:
    """Refuse a position that was not given here: a client that waits behind it would miss earlier events."""
    if after > head:
        reason = f"is past {head}, the newest position here; it comes from another store"
        raise invalid(JsonFault("query/after", reason))


def _types(text: str | None) -> tuple[str, ...]:
    try:
        return read_types(text.split(",")) if text else ()
    except BadTypes as error:
        raise invalid(JsonFault("query/types", str(error))) from None


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="stream_events", method="GET", path="/api/v1/events", tag="Events", roles=READERS,
        summary="Everything that happens, as server-sent events",
        description="Each block's `id` is a position; send the last one back as `Last-Event-ID` (or `after`) "
        "to go on without a gap. Without either, the stream begins now; `after=0` begins with the oldest "
        "event kept. A reader that does not keep up gets `interlock.dropped` and is let go.",
        query=StreamQuery, answers={200: Media(EVENT_STREAM)}, answer=stream,
    ),
    Operation(
        id="read_events", method="GET", path="/api/v1/events/page", tag="Events", roles=READERS,
        summary="Events after a position, oldest first, or the newest ones",
        query=EventsQuery, answers={200: wire.EventPage}, answer=page,
    ),
)  # fmt: skip
