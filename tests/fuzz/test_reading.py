"""Bytes that may be HTTP: however they are cut into pieces, the same requests are read, and nothing breaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.runtime.reading import Asked, RequestReader
from tests.harness.soak import dose

FRAGMENTS = [
    *(
        b"GET / HTTP/1.1\r\n",
        b"POST /a?b=c HTTP/1.1\r\n",
        b"HEAD /%2f HTTP/1.0\r\n",
        b"PUT http://x/y HTTP/1.1\r\n",
    ),
    *(
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n",
    ),
    *(
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999\r\n",
        b"Content-Length: -1\r\n",
        b"content-length: 3\r\n",
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"transfer-encoding: gzip, chunked\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
    ),
    *(b"Connection: close\r\n", b"Connection: Upgrade\r\n", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n"),
    *(
        b"Authorization: a\r\n",
        b"X-Long: " + b"y" * 300 + b"\r\n",
        b": empty\r\n",
        b"No colon\r\n",
        b" folded\r\n",
    ),
    *(b"\r\n", b"\n", b"\r", b"abc", b"\0", b"{}", b"\xff\xfe"),
]


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
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14), st.lists(st.integers(1, 12), min_size=1))
def test_what_is_read_does_not_depend_on_how_it_arrives(fragments: list[bytes], sizes: list[int]) -> None:
    data = b"".join(fragments)
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
