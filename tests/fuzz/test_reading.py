"""Bytes that may be HTTP: however they are cut into pieces, the same requests are read, and nothing breaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.runtime.reading import Asked, RequestReader
from tests.harness.soak import dose

LINES = [
    *(
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST /a?b=c HTTP/1.1\r\nHost: x\r\n",
        b"HEAD /%2f HTTP/1.0\r\n",
        b"PUT http://x/y HTTP/1.1\r\nHost: x\r\n",
    ),
    *(
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n",
    ),
]
HEADERS = [
    *(b"Connection: close\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n"),
    *(
        b"Authorization: a\r\n",
        b"X-Long: " + b"y" * 300 + b"\r\n",
        b": empty\r\n",
        b"No colon\r\n",
        b" folded\r\n",
    ),
    *(
        b"Content-Length: 99999\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Upgrade: h2c\r\n",
    ),
]
BODIES = [
    *(b"\r\n", b"Content-Length: 5\r\n\r\nabcde", b"Content-Length: 5\r\n\r\nab", b"\r\nleft over"),
    *(
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\nvwxyz\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"ff\r\n" + b"z" * 255 + b"\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nUpgrade: h2c\r\nX: y\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
]
# Mostly whole requests, so that one is often followed by another; now and then something else.
REQUESTS = st.builds(
    lambda line, headers, body: line + b"".join(headers) + body,
    st.sampled_from(LINES),
    st.lists(st.sampled_from(HEADERS), max_size=2),
    st.sampled_from(BODIES),
)
SAID = st.lists(st.one_of(REQUESTS, REQUESTS, REQUESTS, st.binary(max_size=4)), max_size=5)


async def _for_ever() -> None:
    raise AssertionError("nobody left")


def read(pieces: Iterable[bytes]) -> tuple[list[Any], bool]:
    """What is read of them: each request or refusal, and whether that was the end."""
    found: list[Any] = []

    def ask(asked: Asked) -> None:
        request = asked.request
        refused = asked.refused.code if asked.refused else None
        told = (request.method, request.path, request.query, dict(request.headers), request.body)
        found.append((told, refused, asked.keep_alive, asked.can_chunk))

    reader = RequestReader(
        ask=ask,
        go_ahead=lambda: found.append("go ahead"),
        gone=_for_ever,
        body_bytes_max=1000,
        header_bytes_max=200,
    )
    for piece in pieces:
        reader.feed(piece)
    return found, reader.is_over


@settings(max_examples=dose(400), deadline=None)
@given(SAID, st.lists(st.integers(1, 12), min_size=1))
def test_what_is_read_does_not_depend_on_how_it_arrives(said: list[bytes], sizes: list[int]) -> None:
    data = b"".join(said)
    pieces: list[bytes] = []
    start = 0
    while start < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[start : start + size])
        start += size
    assert read(pieces) == read([data])


@settings(max_examples=dose(200), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_a_fault_of_ours(data: bytes) -> None:
    found, _ = read([data])
    assert len(found) <= len(data)


def test_nothing_of_a_request_stays_with_its_connection() -> None:
    reader = RequestReader(ask=lambda _: None, go_ahead=lambda: None, gone=_for_ever, body_bytes_max=1000)
    reader.feed(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + b"y" * 900)
    assert (reader.is_between, reader._body, reader._head) == (True, b"", None)
