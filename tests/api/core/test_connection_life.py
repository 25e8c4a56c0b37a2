"""Streams, clients that leave, and servers that stop: what becomes of the requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.api.core.shelf import Service
from tests.api.core.wire import PATIENCE, Served, Wire

MANY = 5_000  # more answers than any buffers on the way hold


async def placed(service: Service, expected: list[object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while service.shelf.placed != expected:
            await asyncio.sleep(0.001)


async def began(service: Service) -> None:
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    service.shelf.started.clear()


async def test_a_client_that_leaves_while_sending_changes_nothing(server: Served, service: Service) -> None:
    async with server.connected() as wire:
        wire.say(wire.head("POST", "/api/v1/things", "Content-Length: 15") + b'{"name":')
        await wire.writer.drain()
    async with asyncio.timeout(PATIENCE):
        while server.listening.connections:
            await asyncio.sleep(0.001)
    assert service.shelf.placed == []


async def test_a_client_that_hangs_up_does_not_tear_off_its_decision(
    server: Served, service: Service
) -> None:
    async with server.connected() as wire:
        wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0"))
        await began(service)
        wire.writer.transport.abort()
    service.shelf.go_on.set()
    await placed(service, ["finished"])
    assert not any('"fault"' in line for line in service.lines)


async def test_a_long_poll_can_learn_that_its_client_left(server: Served, service: Service) -> None:
    seen: list[Any] = []
    respond = service.app.respond

    async def remember(request: Any) -> Any:
        seen.append(request)
        return await respond(request)

    service.app.respond = remember  # pyright: ignore[reportAttributeAccessIssue]
    async with server.connected() as wire:
        await wire.ask("POST", "/api/v1/things", b'{"name":"x"}')
        waiting = asyncio.create_task(seen[0].gone())
        await asyncio.sleep(0.01)
        assert not waiting.done()
    await asyncio.wait_for(waiting, PATIENCE)


async def test_a_stream_is_sent_chunk_by_chunk_to_its_end_and_the_connection_kept(
    wire: Wire, service: Service
) -> None:
    wire.say(wire.head("GET", "/api/v1/stream"))
    head = (await wire.until(b"\r\n\r\n")).decode()
    assert "content-type: text/event-stream" in head
    assert "content-length" not in head
    assert await wire.until(b"data: 1\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"
    service.shelf.go_on.set()
    assert await wire.until(b"0\r\n\r\n") == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    assert (await wire.ask("GET", "/healthz")).status == 200


async def test_a_stream_to_an_older_client_ends_with_its_connection(wire: Wire, service: Service) -> None:
    service.shelf.go_on.set()
    wire.say(wire.head("GET", "/api/v1/stream").replace(b"HTTP/1.1", b"HTTP/1.0"))
    head, _, body = (await wire.rest()).partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"chunked" not in head
    assert body == b"data: 1\n\ndata: 2\n\n"


async def test_a_stream_ends_when_its_reader_hangs_up(server: Served, service: Service) -> None:
    async with server.connected() as wire:
        wire.say(wire.head("GET", "/api/v1/stream"))
        await wire.until(b"data: 1\n\n")
    await asyncio.wait_for(service.shelf.closed.wait(), PATIENCE)
    assert not any('"fault"' in line for line in service.lines)


async def test_a_stream_that_breaks_is_cut_off_and_logged(wire: Wire, service: Service) -> None:
    wire.say(wire.head("GET", "/api/v1/torn"))
    assert not (await wire.rest()).endswith(b"0\r\n\r\n")
    assert any('"fault"' in line and "NobodyExpectedThis" in line for line in service.lines)


async def test_a_server_that_stops_ends_its_streams_and_finishes_what_it_read(
    server: Served, service: Service
) -> None:
    async with server.connected() as streaming, server.connected() as asking, server.connected() as idle:
        await idle.ask("GET", "/healthz")
        streaming.say(streaming.head("GET", "/api/v1/stream"))
        await began(service)
        slow = asking.head("POST", "/api/v1/slow", "Content-Length: 0")
        asking.say(slow + asking.head("GET", "/healthz"))
        await began(service)
        stopping = asyncio.create_task(server.listening.drain(PATIENCE))
        assert b"data: 1" in await streaming.until(b"0\r\n\r\n")
        assert service.shelf.closed.is_set()
        assert await idle.rest() == b""
        assert not stopping.done()
        service.shelf.go_on.set()
        first, last = await asking.answer(), await asking.answer()
        assert (first.status, last.status, last.headers["connection"]) == (200, 200, "close")
        assert "connection" not in first.headers
        await asyncio.wait_for(stopping, PATIENCE)
        assert await asking.rest() == b""


async def test_a_server_that_can_wait_no_longer_cuts_connections_and_not_decisions(
    server: Served, service: Service
) -> None:
    async with server.connected() as wire:
        wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0"))
        await began(service)
        await server.listening.drain(0.01)
        assert await wire.rest() == b""
    service.shelf.go_on.set()
    await placed(service, ["finished"])


async def test_an_answer_that_cannot_be_sent_ends_the_connection_and_is_logged(
    wire: Wire, service: Service
) -> None:
    respond = service.app.respond

    async def spoil(request: Any) -> Any:
        response = await respond(request)
        return type(response)(status=200, headers=(("location", "a\r\nb"),), body=response.body)

    service.app.respond = spoil  # pyright: ignore[reportAttributeAccessIssue]
    wire.say(wire.head("GET", "/healthz"))
    assert await wire.rest() == b""
    assert any('"fault"' in line for line in service.lines)


async def test_an_app_that_breaks_ends_the_connection_and_is_logged(wire: Wire, service: Service) -> None:
    async def broken(_: Any) -> Any:
        raise LookupError("no answer")

    service.app.respond = broken  # pyright: ignore[reportAttributeAccessIssue]
    wire.say(wire.head("GET", "/healthz"))
    assert await wire.rest() == b""
    assert any('"fault"' in line and "LookupError" in line for line in service.lines)


async def test_a_fault_of_ours_in_reading_is_not_told_as_the_clients(
    wire: Wire, server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise LookupError("nobody expected this")

    monkeypatch.setattr("interlock.runtime.reading.check_length", broken)
    wire.say(wire.head("GET", "/healthz"))
    assert await wire.rest() == b""
    assert any(
        "LookupError" in str(record.exc_info) or "LookupError" in caplog.text for record in caplog.records
    )
    assert not server.listening.connections


async def test_a_client_that_asks_and_never_reads_is_not_answered_without_end(
    server: Served, service: Service
) -> None:
    async with server.connected() as wire:
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
        body = json.dumps({"name": "x" * 40, "payload": "y" * 800}).encode()
        one = wire.head("POST", "/api/v1/things", f"Content-Length: {len(body)}") + body
        asking = asyncio.create_task(_say_for_ever(wire, one * 100))
        counts = [-1]
        while len(service.shelf.placed) != counts[-1]:
            counts.append(len(service.shelf.placed))
            assert counts[-1] < MANY, "it is answered and answered"
            await asyncio.sleep(0.3)
        assert not asking.done()
        asking.cancel()
        wire.writer.transport.abort()


async def _say_for_ever(wire: Wire, words: bytes) -> None:
    while True:
        wire.say(words)
        await wire.writer.drain()
