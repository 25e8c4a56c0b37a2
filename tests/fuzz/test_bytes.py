"""Bytes that may be HTTP: however they are cut into pieces, the same is answered, and nothing breaks."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterable, Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.conftest import Victim
from tests.harness.soak import dose

HANG_SECONDS = 40
HEADERS = [
    b"X-Api-Key: a\r\n",
    b"X-Long: " + b"y" * 300 + b"\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    b"X-Request-Id: a\r\nX-Request-Id: b\r\n",
]
BODIES = [
    b"\r\n",
    b"Content-Length: 5\r\n\r\nabcde",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\nvwxyz\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nX: y\r\n\r\n",
]
LINES = [
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    b"POST /api/v1/jobs?b=c HTTP/1.1\r\nHost: x\r\n",
    b"HEAD /%2f HTTP/1.1\r\nHost: x\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n",
    b"PUT http://x/y HTTP/1.1\r\nHost: x\r\n",
]
ODD = [
    b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nhalf",
]
LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
REQUESTS = st.builds(
    lambda line, headers, body: line + b"".join(headers) + body,
    st.sampled_from(LINES),
    st.lists(st.sampled_from(HEADERS), max_size=2, unique=True),
    st.sampled_from(BODIES),
)
QUIETLY = settings(
    max_examples=dose(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def statuses(victim: Victim, pieces: Iterable[bytes], *, is_all: bool = False) -> list[bytes]:
    """What is answered to them, up to the end of the connection."""
    said = b""
    with (
        _until_reset(),
        socket.create_connection(("127.0.0.1", victim.server.port), HANG_SECONDS) as raw,
    ):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            raw.sendall(piece)
        if is_all:
            raw.shutdown(socket.SHUT_WR)
        while piece := raw.recv(65536):
            said += piece
    return re.findall(rb"^HTTP/1.[01] (\d+) ", said, re.MULTILINE)


@contextlib.contextmanager
def _until_reset() -> Iterator[None]:
    """Nothing more is said on a connection that was reset, perhaps before everything was sent."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError:
        pass


@QUIETLY
@given(said=st.lists(REQUESTS, max_size=4), sizes=st.lists(st.integers(1, 12), min_size=1))
def test_what_is_answered_does_not_depend_on_how_it_arrives(
    victim: Victim, said: list[bytes], sizes: list[int]
) -> None:
    data = b"".join(said) + LAST
    pieces: list[bytes] = []
    start = 0
    while start < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[start : start + size])
        start += size
    assert statuses(victim, pieces) == statuses(victim, [data])


@QUIETLY
@given(said=st.lists(st.one_of(REQUESTS, st.sampled_from(ODD), st.binary(max_size=40)), max_size=4))
def test_any_bytes_are_read_without_a_fault_of_ours(victim: Victim, said: list[bytes]) -> None:
    found = statuses(victim, said, is_all=True)
    assert len(found) <= len(said) + 1
    assert not any(status.startswith(b"5") for status in found)
    assert statuses(victim, [LAST]) == [b"200"]
    assert "Traceback" not in victim.server.log()
