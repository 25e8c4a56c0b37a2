"""Clients that mean harm, or know HTTP badly: what they send takes little room, little time, and one answer each."""

from __future__ import annotations

import asyncio
import json
import tracemalloc

import pytest

from interlock.api.wire import HEADERS_MAX
from interlock.runtime.connection import Connection
from interlock.runtime.reading import HEAD_BYTES_MAX
from tests.api.core.shelf import KEY, Service
from tests.api.core.wire import PATIENCE, Answered, Served, Wire, served

VASE = b'{"name":"vase"}'
MEGABYTE = 1024 * 1024


def code(answered: Answered) -> tuple[int, str]:
    return answered.status, json.loads(answered.body)["code"]


def vase(wire: Wire, *headers: str) -> bytes:
    return wire.head("POST", "/api/v1/things", f"Content-Length: {len(VASE)}", *headers) + VASE


@pytest.mark.parametrize(
    "framing",
    [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
    ],
)
async def test_only_plain_chunks_are_read(wire: Wire, service: Service, framing: str) -> None:
    wire.say(wire.head("POST", "/api/v1/things", framing) + b"f\r\n" + VASE + b"\r\n0\r\n\r\n")
    answered = await wire.answer()
    assert (code(answered), answered.headers["connection"]) == ((400, "invalid_request"), "close")
    assert service.shelf.placed == []


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9"])
async def test_chunks_are_a_matter_of_http_1_1(wire: Wire, service: Service, version: bytes) -> None:
    head = wire.head("POST", "/api/v1/things", "Transfer-Encoding: chunked").replace(b"HTTP/1.1", version)
    wire.say(head + b"f\r\n" + VASE + b"\r\n0\r\n\r\n")
    assert code(await wire.answer()) == (400, "invalid_request")
    assert service.shelf.placed == []


@pytest.mark.parametrize("line", [b"GET /healthz HTTP/2.0\r\n\r\n", b"GET /healthz\r\n\r\n"])
async def test_other_versions_are_not_answered_as_if_they_were_known(wire: Wire, line: bytes) -> None:
    wire.say(line)
    assert code(await wire.answer()) == (400, "invalid_request")


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"])
async def test_a_request_names_one_host(wire: Wire, hosts: bytes) -> None:
    wire.say(b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n")
    assert code(await wire.answer()) == (400, "invalid_request")
    wire.say(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (await wire.answer()).status == 200


async def test_space_behind_a_value_is_no_part_of_it(wire: Wire) -> None:
    wire.say(vase(wire, "Idempotency-Key: a \t ").replace(b"Length: 15", b"Length: 15  "))
    assert (await wire.answer()).status == 201


async def test_a_path_far_too_long_is_told_so(wire: Wire) -> None:
    for size in (9_000, 70_000):
        assert code(await wire.ask("GET", "/" + "a" * size)) == (414, "uri_too_long")


async def test_a_request_refused_by_its_head_gets_no_second_answer(wire: Wire) -> None:
    head = wire.head(
        "POST", "/api/v1/things", "X-Request-Id: a", "X-Request-Id: b", "Transfer-Encoding: chunked"
    )
    wire.say(head + b"no chunk\r\n")
    assert (await wire.answer()).status == 400
    assert await wire.rest() == b""


async def test_a_tunnel_that_is_refused_by_its_head_is_told_that_this_was_all(wire: Wire) -> None:
    answered = await wire.ask("CONNECT", "/healthz", b"", f"X-Long: {'y' * 3000}")
    assert (code(answered), answered.headers["connection"]) == ((431, "headers_too_large"), "close")


async def test_nothing_is_done_behind_a_refusal_that_was_the_last_answer(
    wire: Wire, service: Service
) -> None:
    refused = wire.head("GET", "/healthz", "X-Request-Id: a", "X-Request-Id: b", "Connection: keep-alive")
    wire.say((refused + vase(wire)).replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (await wire.answer()).headers["connection"] == "close"
    assert await wire.rest() == b""
    assert service.shelf.placed == []


async def test_whoever_asks_out_of_turn_before_sending_a_body_is_told_in_turn(
    wire: Wire, service: Service
) -> None:
    asking = wire.head("POST", "/api/v1/things", f"Content-Length: {len(VASE)}", "Expect: 100-continue")
    wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0") + asking)
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    service.shelf.go_on.set()
    assert [(await wire.answer()).status for _ in range(2)] == [200, 100]
    wire.say(VASE)
    assert (await wire.answer()).status == 201


async def test_an_older_client_is_not_told_to_go_ahead(wire: Wire) -> None:
    wire.say(vase(wire, "Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (await wire.answer()).status == 201


async def test_headers_are_limited_in_number(wire: Wire) -> None:
    answered = await wire.ask("GET", "/healthz", b"", *["a:"] * HEADERS_MAX)
    assert code(answered) == (431, "headers_too_large")
    assert json.loads(answered.body)["limit_headers"] == HEADERS_MAX
    assert (await wire.ask("GET", "/healthz", b"", *["a:"] * (HEADERS_MAX - 10))).status == 200


@pytest.mark.parametrize("line", [b"X-T: a\r\n" * 2000, b"X-T: " + b"a" * 16_000, b"0;" + b"a" * 16_000])
async def test_what_comes_behind_the_last_chunk_is_bounded(wire: Wire, line: bytes) -> None:
    wire.say(wire.head("POST", "/api/v1/things", "Transfer-Encoding: chunked"))
    wire.say(line if line.startswith(b"0") else b"0\r\n" + line)
    rest = line if line.endswith(b"\n") else b"a" * 16_000
    for _ in range(2 + HEAD_BYTES_MAX // len(rest)):
        wire.say(rest)
    assert code(await wire.answer()) == (431, "headers_too_large")
    assert await wire.rest() == b""


async def test_a_body_of_tiny_chunks_takes_no_more_room_than_its_bytes(service: Service) -> None:
    async with served(service.app, KEY) as server, server.connected() as wire:
        wire.say(wire.head("POST", "/api/v1/things", "Transfer-Encoding: chunked"))
        await wire.writer.drain()
        tracemalloc.start()
        try:
            for _ in range(16):
                wire.say(b"2\r\nab\r\n" * 8192)
                await wire.writer.drain()
            await _silence(server)
            assert tracemalloc.get_traced_memory()[0] < 3 * MEGABYTE
        finally:
            tracemalloc.stop()
        wire.say(b"0\r\n\r\n")
        assert (await wire.answer()).status == 400


async def test_requests_sent_ahead_are_kept_as_bytes(wire: Wire, service: Service, server: Served) -> None:
    wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0"))
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    (connection,) = server.listening.connections
    many = 7_000
    tracemalloc.start()
    try:
        # As large a piece as the event loop reads at once.
        connection.data_received(b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n" * many)
        assert tracemalloc.get_traced_memory()[0] < 2 * MEGABYTE
    finally:
        tracemalloc.stop()
    service.shelf.go_on.set()
    assert {(await wire.answer()).status for _ in range(many + 1)} == {200}


async def _silence(server: Served) -> None:
    """Until the server has taken what it takes."""
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert server.listening.connections


async def test_one_connection_too_many_is_refused_and_the_others_are_served(service: Service) -> None:
    async with (
        served(service.app, KEY, connections_max=2) as server,
        server.connected() as first,
        server.connected() as second,
    ):
        assert (await first.ask("GET", "/healthz")).status == 200
        assert (await second.ask("GET", "/healthz")).status == 200
        async with server.connected() as third:
            refused = await third.answer()
            assert (code(refused), refused.headers["retry-after"]) == ((503, "overloaded"), "1")
            assert await third.rest() == b""
        assert (await first.ask("GET", "/healthz")).status == 200


async def test_a_refusal_in_the_middle_of_a_large_piece_does_not_stop_the_reading(
    wire: Wire, server: Served
) -> None:
    wire.say(wire.head("POST", "/api/v1/things", f"Content-Length: {MEGABYTE}"))
    (connection,) = await _connections(server)
    refused = wire.head("POST", "/api/v1/things", "Content-Length: 100000") + b" " * 100_000
    connection.data_received(b" " * MEGABYTE + refused)
    assert [(await wire.answer()).status for _ in range(2)] == [413, 413]
    assert (await wire.ask("GET", "/healthz")).status == 200


async def _connections(server: Served) -> tuple[Connection, ...]:
    async with asyncio.timeout(PATIENCE):
        while not server.listening.connections:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    return tuple(server.listening.connections)
