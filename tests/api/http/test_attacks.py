"""Clients that mean harm, or know HTTP badly: what they send takes little room, little time, and one answer each."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import time

import pytest

from interlock.api.asgi import Torn, encoded_headers
from tests.api.http.conftest import Edge
from tests.harness.flood import resident_mb
from tests.harness.raw_http import PATIENCE, RawClient

MEGABYTE = 1024 * 1024
GROWTH_MB_MAX = 40
WAIT_SECONDS = 2


def job(topic: str) -> dict[str, object]:
    return {"topic": topic, "payload": {}}


def claim(client: RawClient, topic: str) -> bytes:
    """A request whose answer takes a while."""
    return client.request("POST", "/api/v1/jobs/claim", {"topics": [topic], "wait_seconds": WAIT_SECONDS})


async def test_a_refusal_waits_for_the_answers_before_it(direct: Edge, topic: str) -> None:
    async with direct.connected() as client:
        client.say(claim(client, topic) + b"what is this\r\n\r\n")
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 400
        assert await client.rest() == b""


async def test_thousands_of_refusals_at_once_come_back_one_by_one(direct: Edge) -> None:
    many = 3000
    async with direct.connected() as client:
        client.say(client.head("GET", "/healthz", "X-Request-Id: a", "X-Request-Id: b") * many)
        assert {(await client.answer()).status for _ in range(many)} == {400}


async def test_thousands_of_wishes_for_another_protocol_at_once_are_answered_in_http(direct: Edge) -> None:
    many = 2000
    async with direct.connected() as client:
        client.say(client.head("GET", "/healthz", "Connection: Upgrade", "Upgrade: h2c") * many)
        assert {(await client.answer()).status for _ in range(many)} == {200}


async def test_a_tunnel_is_not_opened(edge: Edge, topic: str) -> None:
    async with edge.connected() as client:
        client.say(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
        assert (await client.answer()).status in (400, 404, 405)
        client.say(client.request("POST", "/api/v1/jobs", job(topic)))
        said = await asyncio.wait_for(client.reader.read(MEGABYTE), PATIENCE)
        assert said.count(b"HTTP/1.1 201 ") == len(await edge.jobs(topic))


@pytest.mark.parametrize("head", ["Connection: keep-alive", "X-Request-Id: a\r\nX-Request-Id: b"])
async def test_nothing_is_done_that_nobody_would_hear_the_answer_to(
    edge: Edge, topic: str, head: str
) -> None:
    async with edge.connected() as client:
        once = client.request("POST", "/api/v1/jobs", job(topic), head)
        more = client.request("POST", "/api/v1/jobs", job(topic), "Connection: close")
        client.say((once + more * 2).replace(b"HTTP/1.1", b"HTTP/1.0"))
        said = await client.rest()
    assert said.count(b" 201 Created") == len(await edge.jobs(topic))


async def test_chunks_are_a_matter_of_http_1_1(direct: Edge, topic: str) -> None:
    async with direct.connected() as client:
        body = json.dumps(job(topic)).encode()
        head = client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked")
        chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        client.say(head.replace(b"HTTP/1.1", b"HTTP/1.0") + chunk)
        assert b" 400 " in (await client.rest()).partition(b"\r\n")[0]
    assert await direct.jobs(topic) == []


async def test_space_behind_a_value_is_no_part_of_it(edge: Edge, topic: str) -> None:
    answers = []
    for space in ("", " \t "):
        async with edge.connected() as client:
            key = f"Idempotency-Key: {topic}-{edge.kind}{space}"
            answers.append(await client.ask("POST", "/api/v1/jobs", job(topic), key))
    assert [answer.status for answer in answers] == [201, 201]
    assert len(await edge.jobs(topic)) == 1


@pytest.mark.parametrize("size", [9_000, 70_000])
async def test_a_path_far_too_long_is_told_so(edge: Edge, size: int) -> None:
    async with edge.connected() as client:
        client.say(client.head("GET", "/" + "a" * size, "Connection: close"))
        assert (await client.rest()).split()[1] in (b"400", b"414", b"431")


async def test_a_request_refused_by_its_head_gets_no_second_answer(direct: Edge) -> None:
    async with direct.connected() as client:
        twice = ("X-Request-Id: a", "X-Request-Id: b", "Transfer-Encoding: chunked")
        client.say(client.head("POST", "/api/v1/jobs", *twice) + b"no chunk\r\n")
        assert (await client.answer()).status == 400
        assert await client.rest() == b""


async def test_whoever_asks_out_of_turn_before_sending_a_body_is_told_in_turn(
    direct: Edge, topic: str
) -> None:
    async with direct.connected() as client:
        body = json.dumps(job(topic)).encode()
        asking = client.head("POST", "/api/v1/jobs", f"Content-Length: {len(body)}", "Expect: 100-continue")
        client.say(claim(client, f"{topic}.none") + asking)
        assert [(await client.answer()).status for _ in range(2)] == [200, 100]
        client.say(body)
        assert (await client.answer()).status == 201


async def test_an_older_client_is_not_told_to_go_ahead(direct: Edge, topic: str) -> None:
    async with direct.connected() as client:
        whole = client.request("POST", "/api/v1/jobs", job(topic), "Expect: 100-continue")
        client.say(whole.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert b" 201 " in (await client.rest()).partition(b"\r\n")[0]


@pytest.mark.parametrize("line", [b"X-T: a\r\n", b"X-T: " + b"a" * 16_000, b"0;" + b"a" * 16_000])
async def test_what_comes_behind_the_last_chunk_is_bounded(edge: Edge, topic: str, line: bytes) -> None:
    before = resident_mb(edge.server)
    async with edge.connected() as client:
        client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked"))
        client.say(line if line.startswith(b"0") else b"0\r\n" + line)
        rest = (line * 2000)[:16_000] if line.endswith(b"\n") else b"a" * 16_000
        ending = asyncio.create_task(client.rest())
        for _ in range(64 * MEGABYTE // len(rest)):
            client.say(rest)
            await asyncio.wait({ending}, timeout=0.0001)
            if ending.done():
                break
        assert b" 201 " not in await ending
    assert resident_mb(edge.server) - before < GROWTH_MB_MAX
    assert await edge.jobs(topic) == []


async def test_a_body_of_tiny_chunks_takes_no_more_room_than_its_bytes(direct: Edge) -> None:
    before = resident_mb(direct.server)
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(direct.connected()) for _ in range(4)]
        for client in clients:
            client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked", "Connection: close"))
            client.say(b"2\r\nab\r\n" * 100_000)
        await asyncio.sleep(1)
        assert resident_mb(direct.server) - before < GROWTH_MB_MAX
        for client in clients:
            client.say(b"0\r\n\r\n")
        for client in clients:
            said = await client.rest()  # no JSON, or on a busy machine not there in time
            assert not said or said.split()[1] in (b"400", b"408")


async def test_requests_sent_ahead_are_kept_as_bytes(direct: Edge, topic: str) -> None:
    many = 7_000
    before = resident_mb(direct.server)
    async with direct.connected() as client:
        client.say(claim(client, topic))
        client.say(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * many)
        await asyncio.sleep(WAIT_SECONDS / 2)
        assert resident_mb(direct.server) - before < GROWTH_MB_MAX
        assert {(await client.answer()).status for _ in range(many + 1)} == {200}


@pytest.mark.parametrize("key", ["", "il_0123456789abcdef_unknown"])
@pytest.mark.parametrize("size", [MEGABYTE // 2, 4 * MEGABYTE])
def test_whoever_reads_only_after_sending_gets_its_answer(direct: Edge, key: str, size: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", direct.port, timeout=PATIENCE)
    headers = {"X-Api-Key": key or direct.key, "Content-Type": "application/json"}
    with contextlib.closing(connection):
        connection.request("POST", "/api/v1/jobs", b" " * size, headers)
        expected = 413 if size > MEGABYTE else 401 if key else 400
        answered = connection.getresponse()
        assert (answered.status, json.loads(answered.read())["status"]) == (expected, expected)


async def test_whoever_never_stops_sending_is_left_after_a_while(direct: Edge) -> None:
    async with direct.connected(key="il_0123456789abcdef_unknown") as client:
        client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked"))
        assert (await client.answer()).status == 401
        ending = asyncio.create_task(client.rest())
        until = time.monotonic() + PATIENCE
        while not ending.done() and time.monotonic() < until:
            client.say(b"1\r\na\r\n")
            await asyncio.wait({ending}, timeout=0.01)
        assert ending.done()


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\0b"])
def test_no_header_of_an_answer_can_begin_another(value: str) -> None:
    with pytest.raises(Torn, match="end its line"):
        encoded_headers((("location", value),))


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/v1/keys"])
async def test_the_body_of_a_stranger_is_not_read_on_a_public_path(direct: Edge, path: str) -> None:
    async with direct.connected(key="") as client:
        client.say(client.head("GET", path, f"Content-Length: {MEGABYTE}") + b"y" * 1000)
        assert (await client.answer()).problem == (400, "invalid_request")
        assert await direct.measured("interlock_unfinished_body_bytes") == 0
