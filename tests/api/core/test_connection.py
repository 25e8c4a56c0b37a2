"""Requests on a real connection: limits, order, and what is not HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from interlock.api.http import Response
from interlock.api.problem import ProblemError
from interlock.api.wire import encode_head, read_headers
from tests.api.core.conftest import BODY_BYTES_MAX
from tests.api.core.shelf import Service
from tests.api.core.wire import Answered, Served, Wire

VASE = b'{"name":"vase"}'


def code(answered: Answered) -> tuple[int, str]:
    return answered.status, json.loads(answered.body)["code"]


async def test_a_request_is_answered_and_the_connection_kept(wire: Wire) -> None:
    for name in ("vase", "bowl"):
        answered = await wire.ask("POST", "/api/v1/things", json.dumps({"name": name}).encode())
        assert (answered.status, json.loads(answered.body)["name"]) == (201, name)


async def test_a_request_in_pieces_is_answered_whole(wire: Wire) -> None:
    for byte in wire.head("POST", "/api/v1/things", f"Content-Length: {len(VASE)}") + VASE:
        wire.say(bytes((byte,)))
        await asyncio.sleep(0)
    answered = await wire.answer()
    assert (answered.status, json.loads(answered.body)["name"]) == (201, "vase")


async def test_path_and_query_arrive_as_they_were_on_the_wire(wire: Wire) -> None:
    answered = await wire.ask("GET", "/api/v1/things/repo%3Abilling%2Finvoice.py")
    assert json.loads(answered.body)["id"] == "repo:billing/invoice.py"
    listed = await wire.ask("GET", "/api/v1/things?state=a%26b")
    assert json.loads(listed.body)["items"][0]["id"] == "a&b"


async def test_requests_sent_without_waiting_are_answered_in_their_order(wire: Wire) -> None:
    names = [f"thing-{number}" for number in range(200)]
    bodies = [json.dumps({"name": name}).encode() for name in names]
    wire.say(
        b"".join(
            wire.head("POST", "/api/v1/things", f"Content-Length: {len(body)}") + body for body in bodies
        )
    )
    assert [json.loads((await wire.answer()).body)["name"] for _ in names] == names


async def test_a_refusal_waits_for_the_answers_before_it(wire: Wire, service: Service) -> None:
    wire.say(wire.head("POST", "/api/v1/slow", "Content-Length: 0") + b"what is this\r\n\r\n")
    await asyncio.wait_for(service.shelf.started.wait(), 20)
    service.shelf.go_on.set()
    assert (await wire.answer()).status == 200
    assert code(await wire.answer()) == (400, "invalid_request")
    assert await wire.rest() == b""


async def test_five_thousand_refusals_at_once_come_back_one_by_one(wire: Wire) -> None:
    many = 5000
    wire.say(wire.head("GET", "/api/v1/things/a", "X-Request-Id: a", "X-Request-Id: b") * many)
    assert {(await wire.answer()).status for _ in range(many)} == {400}


async def test_a_body_announced_as_too_large_is_refused_before_a_byte_is_read(
    wire: Wire, service: Service
) -> None:
    size = 50 * 1024 * 1024
    wire.say(wire.head("POST", "/api/v1/things", f"Content-Length: {size}"))
    answered = await wire.answer()
    assert code(answered) == (413, "too_large")
    assert json.loads(answered.body)["limit_bytes"] == BODY_BYTES_MAX
    for _ in range(50):
        wire.say(b" " * 1024 * 1024)
        await wire.writer.drain()
    assert (await wire.ask("POST", "/api/v1/things", VASE)).status == 201
    assert len(service.shelf.placed) == 1


async def test_a_body_of_unannounced_length_is_refused_once_it_is_too_large(
    wire: Wire, service: Service
) -> None:
    wire.say(wire.head("POST", "/api/v1/things", "Transfer-Encoding: chunked"))
    for _ in range(20):
        wire.say(b"100\r\n" + b" " * 0x100 + b"\r\n")
        await wire.writer.drain()
    assert (await wire.answer()).status == 413
    wire.say(b"0\r\n\r\n")
    assert (await wire.ask("GET", "/healthz")).status == 200
    assert service.shelf.placed == []


async def test_a_body_at_the_limit_is_read(wire: Wire) -> None:
    body = json.dumps({"name": "x", "payload": ""}).encode()
    body = body.replace(b'""', b'"' + b"y" * (BODY_BYTES_MAX - len(body)) + b'"')
    assert (await wire.ask("POST", "/api/v1/things", body)).status == 201
    assert (await wire.ask("POST", "/api/v1/things", body + b" ")).status == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1 000"])
async def test_a_length_that_is_no_number_ends_the_connection(wire: Wire, length: str) -> None:
    wire.say(wire.head("POST", "/api/v1/things", f"Content-Length: {length}") + b"{}")
    answered = await wire.answer()
    assert code(answered) == (400, "invalid_request")
    assert answered.headers["connection"] == "close"
    assert await wire.rest() == b""


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"X-Folded: a\r\n b\r\n",
        b"No colon\r\n",
    ],
)
async def test_a_request_that_two_readers_could_end_in_two_places_is_refused(
    wire: Wire, service: Service, head: bytes
) -> None:
    smuggled = b"0\r\n\r\nPOST /api/v1/things HTTP/1.1\r\nContent-Length: 15\r\n\r\n" + VASE
    wire.say(wire.head("POST", "/api/v1/things")[:-2] + head + b"\r\n" + smuggled)
    assert (await wire.answer()).status == 400
    await wire.rest()
    assert service.shelf.placed == []


async def test_whoever_asks_before_sending_a_body_is_told(wire: Wire) -> None:
    wire.say(wire.head("POST", "/api/v1/things", f"Content-Length: {len(VASE)}", "Expect: 100-continue"))
    assert (await wire.answer()).status == 100
    wire.say(VASE)
    assert (await wire.answer()).status == 201


async def test_whoever_is_refused_before_sending_a_body_cannot_send_it_as_a_request(wire: Wire) -> None:
    wire.say(wire.head("POST", "/api/v1/things", "Content-Length: 99999999", "Expect: 100-continue"))
    refused = await wire.answer()
    assert (refused.status, refused.headers["connection"]) == (413, "close")
    assert await wire.rest() == b""


async def test_headers_beyond_the_limit_are_refused(wire: Wire) -> None:
    assert code(await wire.ask("GET", "/healthz", b"", f"X-Long: {'y' * 3000}")) == (431, "headers_too_large")
    assert (await wire.ask("GET", "/healthz")).status == 200


@pytest.mark.parametrize(
    ("endless", "expected"),
    [
        (b"GET /" + b"a" * 1024, (414, "uri_too_long")),
        (b"GET / HTTP/1.1\r\nX-Long: ", (431, "headers_too_large")),
        (b"GET / HTTP/1.1\r\n", (431, "headers_too_large")),
    ],
)
async def test_a_head_without_end_is_refused(wire: Wire, endless: bytes, expected: tuple[int, str]) -> None:
    wire.say(endless)
    piece = b"X-More: a\r\n" * 6000 if endless.endswith(b"1.1\r\n") else b"a" * 65536
    answering = asyncio.create_task(wire.answer())
    while not answering.done():
        wire.say(piece)
        await asyncio.wait({answering}, timeout=0.01)
    assert code(await answering) == expected


async def test_a_path_beyond_ascii_is_an_invalid_request(wire: Wire) -> None:
    assert (await wire.ask("GET", "/api/v1/things/café")).status == 400


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\x00", b"HELLO\r\n\r\n", b"GET / HTTP/3.7\r\n\r\n"])
async def test_what_is_not_http_gets_a_problem_and_the_end(wire: Wire, said: bytes) -> None:
    wire.say(said)
    assert code(await wire.answer()) == (400, "invalid_request")
    assert await wire.rest() == b""


async def test_an_older_client_is_answered_and_left(wire: Wire) -> None:
    wire.say(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert (await wire.answer()).headers["connection"] == "close"
    assert await wire.rest() == b""


async def test_nothing_is_done_that_nobody_would_hear_the_answer_to(wire: Wire, service: Service) -> None:
    old = wire.head("POST", "/api/v1/things", "Connection: keep-alive", f"Content-Length: {len(VASE)}") + VASE
    wire.say(old.replace(b"HTTP/1.1", b"HTTP/1.0") * 3)
    assert (await wire.answer()).status == 201
    assert await wire.rest() == b""
    assert len(service.shelf.placed) == 1


async def test_whoever_wants_to_speak_something_else_is_answered_in_http(wire: Wire) -> None:
    for _ in range(2):
        answered = await wire.ask("GET", "/healthz", b"", "Connection: Upgrade", "Upgrade: websocket")
        assert (answered.status, answered.headers.get("connection")) == (200, None)
    answered = await wire.ask("CONNECT", "/healthz", b"", "Connection: Upgrade", "Upgrade: websocket")
    assert (answered.status, answered.headers["connection"]) == (405, "close")
    assert await wire.rest() == b""


async def test_the_body_of_whoever_wants_to_speak_something_else_is_read(wire: Wire) -> None:
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    whole = wire.head("POST", "/api/v1/things", f"Content-Length: {len(VASE)}", *wish) + VASE
    pieces = (whole + whole, whole[:-4], whole[-4:], *(bytes((byte,)) for byte in whole))
    for piece in pieces:
        wire.say(piece)
        await asyncio.sleep(0)
    for _ in range(4):
        answered = await wire.answer()
        assert (answered.status, json.loads(answered.body)["name"]) == (201, "vase")


async def test_thousands_of_wishes_for_another_protocol_at_once_are_answered_in_http(wire: Wire) -> None:
    many = 3000
    wire.say(wire.head("GET", "/healthz", "Connection: Upgrade", "Upgrade: h2c") * many)
    assert {(await wire.answer()).status for _ in range(many)} == {200}


async def test_a_head_request_has_the_length_and_no_body(wire: Wire) -> None:
    wire.say(wire.head("HEAD", "/healthz") + wire.head("GET", "/healthz"))
    first = (await wire.until(b"\r\n\r\n")).decode().lower()
    second = await wire.answer()
    assert f"content-length: {len(second.body)}\r\n" in first
    assert second.status == 200


async def test_a_silent_connection_is_closed_and_a_busy_one_is_not(server: Served, service: Service) -> None:
    async with server.connected() as silent, server.connected() as busy:
        await silent.ask("GET", "/healthz")
        busy.say(busy.head("POST", "/api/v1/slow", "Content-Length: 0"))
        await asyncio.wait_for(service.shelf.started.wait(), 20)
        for connection in tuple(server.listening.connections):
            connection.end_if_silent(server.listening.loop.time() + 1)
        assert await silent.rest() == b""
        service.shelf.go_on.set()
        assert (await busy.answer()).status == 200


@pytest.mark.parametrize("name", [b"authorization", b"X-Api-Key", b"Idempotency-Key", b"content-type"])
def test_a_header_that_decides_something_may_not_be_sent_twice(name: bytes) -> None:
    with pytest.raises(ProblemError, match="appears twice"):
        read_headers([(name, b"a"), (name.lower(), b"a")])


def test_other_headers_sent_twice_are_joined() -> None:
    assert read_headers([(b"Accept", b"a"), (b"accept", b"b")]) == {"accept": "a, b"}


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\0b"])
def test_no_header_of_an_answer_can_begin_another(value: str) -> None:
    with pytest.raises(ValueError, match="end its line"):
        encode_head(Response(status=200, headers=(("location", value),)), keep_alive=True)
