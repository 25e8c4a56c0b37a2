"""The end of a connection, from either side: what was answered arrives, and nobody is waited for without end."""

from __future__ import annotations

import asyncio

import pytest

from interlock.runtime.connection import Connection
from tests.api.core.shelf import KEY, Service
from tests.api.core.wire import PATIENCE, Served, Wire, served

VASE = b'{"name":"vase"}'
MANY_BYTES = 4 * 1024 * 1024  # more than any buffers on the way hold


def vase(wire: Wire) -> bytes:
    return wire.head("POST", "/api/v1/things", f"Content-Length: {len(VASE)}") + VASE


async def began(service: Service) -> None:
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    service.shelf.started.clear()


async def met(server: Served) -> Connection:
    async with asyncio.timeout(PATIENCE):
        while not server.listening.connections:
            await asyncio.sleep(0.001)
    (connection,) = server.listening.connections
    return connection


async def nobody(server: Served) -> None:
    async with asyncio.timeout(PATIENCE):
        while server.listening.connections:
            await asyncio.sleep(0.001)


async def test_whoever_has_said_all_still_gets_its_answers(wire: Wire, service: Service) -> None:
    wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0") + vase(wire) + vase(wire))
    wire.writer.write_eof()
    await began(service)
    service.shelf.go_on.set()
    answers = [await wire.answer() for _ in range(3)]
    assert [(each.status, each.headers.get("connection")) for each in answers] == [
        (200, None),
        (201, None),
        (201, "close"),
    ]
    assert await wire.rest() == b""


async def test_half_a_request_of_whoever_has_said_all_is_nothing(server: Served, service: Service) -> None:
    async with server.connected() as wire:
        wire.say(vase(wire)[:-1])
        wire.writer.write_eof()
        assert await wire.rest() == b""
    await nobody(server)
    assert service.shelf.placed == []


async def test_a_stream_ends_properly_when_its_client_has_said_all(wire: Wire, service: Service) -> None:
    wire.say(wire.head("GET", "/api/v1/stream"))
    await wire.until(b"data: 1\n\n\r\n")
    wire.writer.write_eof()
    assert await wire.rest() == b"0\r\n\r\n"
    assert service.shelf.closed.is_set()


@pytest.mark.parametrize(
    "head",
    [
        ("Connection: close", f"Content-Length: {MANY_BYTES}"),
        ("Expect: 100-continue", f"Content-Length: {MANY_BYTES}"),
        ("Content-Length: 1", "Content-Length: 2"),
        ("Transfer-Encoding: chunked\r\n\r\nno chunk",),
    ],
)
async def test_whoever_reads_only_after_sending_gets_its_last_answer(
    wire: Wire, head: tuple[str, ...]
) -> None:
    wire.say(wire.head("POST", "/api/v1/things", *head) + b" " * MANY_BYTES)
    await asyncio.wait_for(wire.writer.drain(), PATIENCE)
    answered = await wire.answer()
    assert (answered.status // 100, answered.headers["connection"]) == (4, "close")
    assert await wire.rest() == b""


async def test_whoever_never_stops_sending_is_left_after_a_while(server: Served) -> None:
    server.listening.linger_seconds = 0.05
    async with server.connected() as wire:
        wire.say(b"no request\r\n\r\n")
        assert (await wire.answer()).status == 400
        async with asyncio.timeout(PATIENCE):
            while server.listening.connections:
                wire.say(b"more")
                await asyncio.sleep(0.001)


async def test_a_server_that_stops_does_not_hear_anybody_out_for_long(server: Served) -> None:
    server.listening.linger_seconds = 3600
    async with server.connected() as wire:
        wire.say(b"no request\r\n\r\n")
        assert (await wire.answer()).status == 400
        await asyncio.wait_for(server.listening.drain(3600), PATIENCE)
        assert not server.listening.connections


async def test_a_connection_is_not_silent_because_its_answer_took_long(
    wire: Wire, server: Served, service: Service
) -> None:
    wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0"))
    await began(service)
    connection = await met(server)
    connection.end_if_silent(0)
    await asyncio.sleep(0.01)
    asked_long_ago = server.listening.loop.time()
    service.shelf.go_on.set()
    assert (await wire.answer()).status == 200
    connection.end_if_silent(asked_long_ago)
    assert (await wire.ask("GET", "/healthz")).status == 200


async def test_a_request_that_comes_byte_by_byte_is_not_waited_for_without_end(
    wire: Wire, server: Served
) -> None:
    for byte in wire.head("POST", "/api/v1/things", "Content-Length: 900")[:15]:
        wire.say(bytes((byte,)))
        await asyncio.sleep(0.001)
    connection = await met(server)
    connection.end_if_silent(0)
    await asyncio.sleep(0.01)
    begun_at = server.listening.loop.time()
    for _ in range(20):
        wire.say(b"a")
        await asyncio.sleep(0.001)
    connection.end_if_silent(begun_at)
    assert await wire.rest() == b""


async def test_a_large_body_earns_time_as_it_comes(service: Service) -> None:
    async with served(service.app, KEY) as server, server.connected() as wire:
        wire.say(wire.head("POST", "/api/v1/things", "Content-Length: 900000"))
        connection = await met(server)
        await asyncio.sleep(0.01)
        connection.end_if_silent(0)
        begun_at = server.listening.loop.time()
        for _ in range(9):
            wire.say(b" " * 100_000)
            await wire.writer.drain()
            await asyncio.sleep(0.001)
            connection.end_if_silent(begun_at)
        assert (await wire.answer()).status == 400


async def test_whoever_leaves_a_little_of_its_answer_unread_is_cut_off_when_it_is_silent(
    service: Service,
) -> None:
    async with served(service.app, KEY, stalled_seconds=0.05) as server, server.connected() as wire:
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
        connection = await met(server)
        while not connection._transport.get_write_buffer_size():  # pyright: ignore[reportPrivateUsage]
            wire.say(wire.head("GET", "/healthz") * 10)
            await asyncio.sleep(0.001)
        async with asyncio.timeout(PATIENCE):
            while server.listening.connections:
                connection.end_if_silent(server.listening.loop.time() + 1)
                await asyncio.sleep(0.001)


async def test_a_stream_that_is_stopped_before_it_began_ends_properly(
    server: Served, service: Service
) -> None:
    async with server.connected() as wire:
        wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0") + wire.head("GET", "/api/v1/stream"))
        await began(service)
        stopping = asyncio.create_task(server.listening.drain(PATIENCE))
        await asyncio.sleep(0.01)
        service.shelf.go_on.set()
        assert (await wire.answer()).status == 200
        streamed = await wire.rest()
        assert b"connection: close" in streamed
        assert streamed.endswith(b"\r\n\r\n0\r\n\r\n")
        await asyncio.wait_for(stopping, PATIENCE)
