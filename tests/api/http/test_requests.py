"""Requests on a real connection: their limits, their order, and what is not HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest

from interlock.api.heads import HEADER_BYTES_MAX, read_headers
from interlock.api.problem import ProblemError
from tests.api.http.conftest import BODY_BYTES_MAX, Edge
from tests.harness.flood import resident_mb
from tests.harness.raw_http import PATIENCE, RawClient

MEGABYTE = 1024 * 1024
GROWTH_MB_MAX = 40


def job(topic: str, **payload: object) -> dict[str, object]:
    return {"topic": topic, "payload": payload}


async def test_a_request_is_answered_and_the_connection_kept(client: RawClient, topic: str) -> None:
    for number in range(2):
        answered = await client.ask("POST", "/api/v1/jobs", job(topic, n=number))
        assert (answered.status, answered.json()["payload"]) == (201, {"n": number})


async def test_a_request_in_pieces_is_answered_whole(client: RawClient, topic: str) -> None:
    for byte in client.request("POST", "/api/v1/jobs", job(topic)):
        client.say(bytes((byte,)))
        await asyncio.sleep(0)
    assert (await client.answer()).status == 201


async def test_path_and_query_arrive_as_they_were_on_the_wire(client: RawClient, topic: str) -> None:
    key = f"repo%3A{topic}%2Finvoice.py"
    assert (await client.ask("POST", f"/api/v1/targets/{key}/touch", {"version": "1"})).status in (200, 201)
    assert (await client.ask("GET", f"/api/v1/targets/{key}")).json()["key"] == f"repo:{topic}/invoice.py"
    assert (await client.ask("GET", f"/api/v1/jobs?topic={topic}%26b&limit=1")).status == 200
    refused = await client.ask("GET", "/api/v1/jobs/%zz")
    assert refused.status == 400  # by us, or by a proxy that looks at paths


async def test_requests_sent_without_waiting_are_answered_in_their_order(
    client: RawClient, topic: str
) -> None:
    client.say(b"".join(client.request("POST", "/api/v1/jobs", job(topic, n=n)) for n in range(200)))
    assert [(await client.answer()).json()["payload"]["n"] for _ in range(200)] == list(range(200))


async def test_a_body_announced_as_too_large_is_refused_before_a_byte_of_it_is_sent(
    client: RawClient, edge: Edge, topic: str
) -> None:
    client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {50 * MEGABYTE}"))
    answered = await client.answer()
    assert answered.status == 413
    if edge.kind == "direct":  # proxies have limits of their own
        assert answered.problem == (413, "too_large")
        assert answered.json()["limit_bytes"] == BODY_BYTES_MAX
    assert await edge.jobs(topic) == []


def test_whoever_sends_a_body_that_is_too_large_all_the_same_costs_nothing(direct: Edge) -> None:
    before = resident_mb(direct.server)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", direct.port), PATIENCE) as raw:
            head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nX-Api-Key: {direct.key}\r\n"
            raw.sendall(f"{head}Content-Length: {50 * MEGABYTE}\r\n\r\n".encode())
            with contextlib.suppress(ConnectionError):
                for _ in range(50):
                    raw.sendall(b" " * MEGABYTE)
            assert raw.recv(100).startswith(b"HTTP/1.1 413 ")
    assert resident_mb(direct.server) - before < GROWTH_MB_MAX


async def test_a_body_of_unannounced_length_is_refused_once_it_is_too_large(
    client: RawClient, edge: Edge, topic: str
) -> None:
    client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked"))
    for _ in range(2 * MEGABYTE // 0x8000):
        client.say(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
    assert (await client.answer()).status == 413
    assert await edge.jobs(topic) == []


async def test_a_body_in_chunks_is_read(client: RawClient, topic: str) -> None:
    body = json.dumps(job(topic)).encode()
    client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked"))
    for byte in body:
        client.say(b"1\r\n" + bytes((byte,)) + b"\r\n")
    client.say(b"0\r\n\r\n")
    assert (await client.answer()).status == 201


async def test_a_body_at_the_limit_is_read(client: RawClient, edge: Edge, topic: str) -> None:
    body = json.dumps(job(topic, text="")).encode()
    body = body.replace(b'""', b'"' + b"y" * (BODY_BYTES_MAX - len(body)) + b'"')
    assert (await client.ask("POST", "/api/v1/jobs", body)).status == 201
    async with edge.connected() as another:
        another.say(another.head("POST", "/api/v1/jobs", f"Content-Length: {len(body) + 1}"))
        assert (await another.answer()).status == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1 000"])
async def test_a_length_that_is_no_number_ends_the_connection(client: RawClient, length: str) -> None:
    client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {length}") + b"{}")
    assert (await client.answer()).status == 400
    await client.rest()


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"X-Folded: a\r\n b\r\nTransfer-Encoding: chunked\r\n",
        b"No colon\r\n",
    ],
)
async def test_a_request_that_two_readers_could_end_in_two_places_smuggles_none(
    client: RawClient, edge: Edge, topic: str, head: bytes
) -> None:
    smuggled = b"0\r\n\r\n" + client.request("POST", "/api/v1/jobs", job(topic))
    client.say(client.head("GET", "/healthz")[:-2] + head + b"\r\n" + smuggled)
    said = await client.rest()
    # A proxy may make one meaning of it, and pass two requests on; then its client gets two answers.
    assert said.count(b"HTTP/1.1 201 ") == len(await edge.jobs(topic))
    if edge.kind == "direct":
        assert said.count(b"HTTP/1.1 ") == 1


async def test_only_plain_chunks_are_read(direct: Edge, topic: str) -> None:
    async with direct.connected() as client:
        body = json.dumps(job(topic)).encode()
        chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: gzip, chunked") + chunk)
        assert (await client.answer()).problem == (400, "invalid_request")
    assert await direct.jobs(topic) == []


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"])
async def test_a_request_names_one_host(edge: Edge, hosts: bytes) -> None:
    async with edge.connected() as client:
        client.say(b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n")
        answered = await client.answer()
        if edge.kind == "haproxy" and not hosts:
            assert answered.status in (200, 400)  # it names the server itself
        else:
            assert answered.status == 400


async def test_whoever_asks_before_sending_a_body_is_told(client: RawClient, topic: str) -> None:
    body = json.dumps(job(topic)).encode()
    client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {len(body)}", "Expect: 100-continue"))
    assert (await client.answer()).status == 100
    client.say(body)
    assert (await client.answer()).status == 201


async def test_whoever_is_refused_before_sending_a_body_cannot_send_it_as_a_request(
    direct: Edge, topic: str
) -> None:
    async with direct.connected() as client:
        head = client.head("POST", "/api/v1/jobs", "Content-Length: 99999999", "Expect: 100-continue")
        client.say(head)
        refused = await client.answer()
        assert (refused.status, refused.headers["connection"]) == (413, "close")
        client.say(client.request("POST", "/api/v1/jobs", job(topic)))
        assert await client.rest() == b""
    assert await direct.jobs(topic) == []


async def test_headers_beyond_the_limit_are_refused(direct: Edge) -> None:
    async with direct.connected() as client:
        long = f"X-Long: {'y' * HEADER_BYTES_MAX}"
        assert (await client.ask("GET", "/healthz", None, long)).problem == (431, "headers_too_large")
    async with direct.connected() as client:
        assert (await client.ask("GET", "/" + "a" * 9000)).problem == (414, "uri_too_long")
    async with direct.connected() as client:
        assert (await client.ask("GET", "/healthz", None, *["a: b"] * 150)).status == 431


@pytest.mark.parametrize("endless", [b"GET /", b"GET / HTTP/1.1\r\nX-Long: ", b"GET / HTTP/1.1\r\n"])
async def test_a_head_without_end_is_refused_and_costs_nothing(edge: Edge, endless: bytes) -> None:
    before = resident_mb(edge.server)
    piece = b"X-More: a\r\n" * 6000 if endless.endswith(b"1.1\r\n") else b"a" * 65536
    async with edge.connected() as client:
        client.say(endless)
        ending = asyncio.create_task(client.rest())
        while not ending.done():
            client.say(piece)
            await asyncio.wait({ending}, timeout=0.01)
        said = await ending
    assert not said or said.split()[1] in (b"400", b"408", b"414", b"431")
    assert resident_mb(edge.server) - before < GROWTH_MB_MAX


async def test_a_path_beyond_ascii_is_an_invalid_request(direct: Edge) -> None:
    async with direct.connected() as client:
        assert (await client.ask("GET", "/api/v1/jobs/café")).problem == (400, "invalid_request")


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    ],
)
async def test_what_is_not_http_1_gets_no_answer_but_the_end(edge: Edge, said: bytes) -> None:
    async with edge.connected() as client:
        client.say(said)
        answer = await client.rest()
    assert not answer or answer.split()[1] in (b"400", b"505")


@pytest.mark.parametrize("version", [b"HTTP/3.7", b"HTTP/2.0", b"HTTP/0.9"])
async def test_other_versions_are_not_answered_as_if_they_were_known(direct: Edge, version: bytes) -> None:
    async with direct.connected() as client:
        client.say(b"GET /healthz " + version + b"\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")


async def test_an_older_client_is_answered(edge: Edge) -> None:
    async with edge.connected() as client:
        client.say(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in (await client.rest()).partition(b"\r\n")[0]


async def test_whoever_wants_to_speak_something_else_is_answered_in_http(
    client: RawClient, topic: str
) -> None:
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    assert (await client.ask("POST", "/api/v1/jobs", job(topic), *wish)).status == 201
    wish = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    assert (await client.ask("GET", "/healthz", None, *wish, key)).status == 200


async def test_a_head_request_has_the_length_and_no_body(client: RawClient) -> None:
    client.say(client.request("HEAD", "/healthz") + client.request("GET", "/healthz"))
    first = await client.answer(has_body=False)
    second = await client.answer()
    assert int(first.headers["content-length"]) == len(second.body) > 0


@pytest.mark.parametrize(
    ("method", "path", "problem"),
    [
        ("GET", "/nowhere", (404, "not_found")),
        ("PUT", "/api/v1/jobs", (405, "method_not_allowed")),
        ("POST", "/api/v1/jobs", (400, "invalid_request")),
        ("GET", "/api/v1/jobs/job_nothing", (404, "not_found")),
    ],
)
async def test_what_is_refused_at_the_edge_is_a_problem_with_a_date(
    client: RawClient, method: str, path: str, problem: tuple[int, str]
) -> None:
    answered = await client.ask(method, path, b"{" if method != "GET" else None)
    assert answered.problem == problem
    assert abs(datetime.now(UTC) - parsedate_to_datetime(answered.headers["date"])) < timedelta(minutes=10)


async def test_a_repeat_under_a_key_is_the_first_answer_byte_for_byte(edge: Edge, topic: str) -> None:
    answers = []
    for _ in range(2):
        async with edge.connected() as client:
            answers.append(
                await client.ask("POST", "/api/v1/jobs", job(topic), f"Idempotency-Key: {topic}-{edge.kind}")
            )
    first, again = answers
    assert (first.status, first.body) == (again.status, again.body)
    assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize("name", [b"authorization", b"X-Api-Key", b"Idempotency-Key", b"content-type"])
def test_a_header_that_decides_something_may_not_be_sent_twice(name: bytes) -> None:
    with pytest.raises(ProblemError, match="appears twice"):
        read_headers([(name, b"a"), (name.lower(), b"a")])


def test_other_headers_sent_twice_are_joined() -> None:
    assert read_headers([(b"Accept", b"a"), (b"accept", b"b ")]) == {"accept": "a, b"}
