"""Bytes that are not requests, or are far too many: refused early, as problems, at no cost to others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fuzz.conftest import Victim
from tests.fuzz.raw_exchange import exchange
from tests.harness.load import Answer, Connection, fire, get, post

MEGABYTE = 1024 * 1024
GROWTH_BYTES_MAX = 60 * MEGABYTE
PIECE = b"a" * 65_536

GARBAGE = {
    "words": b"what is this\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    "another version": b"GET / HTTP/9.9\r\n\r\n",
    "bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "half an address": b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a negative length": b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    "a space before the colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "a chunk that is no number": b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


def resident_bytes(victim: Victim) -> int:
    return int(Path(f"/proc/{victim.server.pid}/statm").read_text().split()[1]) * 4096


def check_problem(answer: Answer | None, status: int, code: str) -> None:
    assert answer is not None
    assert (answer.status, answer.word) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE.keys())
def test_what_is_not_http_is_refused(victim: Victim, raw: bytes) -> None:
    """By the server, whose refusals have no body, or by us, as a problem; who asks is looked at before a body is."""
    answer = exchange(victim.url, [raw])
    assert answer is not None
    if b"chunked" in raw:
        assert answer.status in (400, 401)
    else:
        assert answer.status == 400


def endless_headers() -> Iterator[bytes]:
    yield b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    for n in range(800):
        yield b"X-%d: %s\r\n" % (n, PIECE)


def one_endless_header() -> Iterator[bytes]:
    yield b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "
    for _ in range(800):
        yield PIECE


def endless_path() -> Iterator[bytes]:
    yield b"GET /"
    for _ in range(800):
        yield PIECE


@pytest.mark.parametrize(
    ("head", "statuses"),
    [(endless_headers, (431,)), (one_endless_header, (431,)), (endless_path, (414, 431))],
    ids=["headers", "header", "path"],
)
def test_a_request_without_end_is_refused_before_it_fills_the_memory(
    victim: Victim, head: Callable[[], Iterator[bytes]], statuses: tuple[int, ...]
) -> None:
    before = resident_bytes(victim)

    answer = exchange(victim.url, head())

    assert answer is not None
    assert answer.status in statuses
    assert resident_bytes(victim) - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize(("size", "status"), [(20_000, 431), (8_000, 200)])
def test_headers_have_a_limit_that_is_told(victim: Victim, size: int, status: int) -> None:
    raw = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\nY: %s\r\n\r\n" % (b"a" * size, b"b" * size)

    answer = exchange(victim.url, [raw])

    assert answer is not None
    assert answer.status == status


def announced_body(victim: Victim) -> Iterator[bytes]:
    yield head(victim, b"Content-Length: %d" % (50 * MEGABYTE))
    for _ in range(800):
        yield PIECE


def chunked_body(victim: Victim) -> Iterator[bytes]:
    yield head(victim, b"Transfer-Encoding: chunked")
    for _ in range(800):
        yield b"%x\r\n%s\r\n" % (len(PIECE), PIECE)
    yield b"0\r\n\r\n"


def head(victim: Victim, framing: bytes) -> bytes:
    key = victim.headers["Authorization"].encode()
    lines = [
        b"POST /api/v1/jobs HTTP/1.1",
        b"Host: x",
        b"Content-Type: application/json",
        b"Authorization: " + key,
    ]
    return b"\r\n".join([*lines, framing, b"", b""])


@pytest.mark.parametrize("body", [announced_body, chunked_body], ids=["announced", "chunked"])
async def test_fifty_megabytes_are_refused_and_nothing_is_stored(
    victim: Victim, body: Callable[[Victim], Iterator[bytes]]
) -> None:
    newest = await newest_job(victim)
    before = resident_bytes(victim)

    answer = exchange(victim.url, body(victim))

    check_problem(answer, 413, "too_large")
    assert resident_bytes(victim) - before < GROWTH_BYTES_MAX
    assert await newest_job(victim) == newest


async def test_a_body_of_just_over_a_megabyte_is_too_large_and_one_of_just_under_is_not(
    victim: Victim,
) -> None:
    def job(size: int) -> bytes:
        empty = len(json.dumps({"topic": "read", "payload": ""}))
        return json.dumps({"topic": "read", "payload": "x" * (size - empty)}).encode()

    requests = [
        post("/api/v1/jobs", json.loads(job(MEGABYTE)), headers=victim.headers),
        post("/api/v1/jobs", json.loads(job(MEGABYTE + 1)), headers=victim.headers),
    ]

    fits, does_not = await fire(victim.url, requests)

    assert fits.status == 201
    check_problem(does_not, 413, "too_large")
    assert does_not.json()["limit_bytes"] == MEGABYTE


async def test_a_connection_serves_any_number_of_requests(victim: Victim) -> None:
    """What is counted of one request's head is not held against the next."""
    line = Connection(victim.url)
    request = get("/healthz", headers={"X-Weight": "a" * 4000}).encode()
    try:
        answers = {(await line.send(request)).status for _ in range(300)}
    finally:
        line.close()

    assert answers == {200}


async def newest_job(victim: Victim) -> str | None:
    (answer,) = await fire(victim.url, [get("/api/v1/jobs?limit=1", headers=victim.headers)])
    items = answer.json()["items"]
    return items[0]["id"] if items else None
