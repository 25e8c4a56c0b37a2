"""A real `interlock serve` with short deadlines, reached directly, through nginx and through haproxy."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from tests.harness.load import fire, get
from tests.harness.raw_http import RawClient, connected
from tests.harness.reverse_proxies import Kind, ReverseProxy
from tests.harness.server import InterlockServer

ALLOW = "version: v1\ndefault: allow\n"
BODY_BYTES_MAX = 1024 * 1024
SHORT = {
    "INTERLOCK_IDLE_SECONDS": "3",
    "INTERLOCK_BODY_SECONDS": "3",
    "INTERLOCK_STALLED_SECONDS": "1",
    "INTERLOCK_TRUSTED_PROXIES": "127.0.0.1/32",
}

_numbers = itertools.count()


class Edge(NamedTuple):
    """Where clients connect: the server itself, or a proxy before it."""

    kind: str
    port: int
    server: InterlockServer
    key: str

    @contextlib.asynccontextmanager
    async def connected(
        self, *, key: str | None = None, buffer_bytes: int | None = None
    ) -> AsyncIterator[RawClient]:
        async with connected(
            self.port, self.key if key is None else key, buffer_bytes=buffer_bytes
        ) as client:
            yield client

    async def measured(self, name: str) -> float:
        """One figure of the server's own `/metrics`."""
        (metrics,) = await fire(self.server.url, [get("/metrics")])
        found = re.search(rf"^{re.escape(name)} (\S+)", metrics.body.decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    async def jobs(self, topic: str) -> list[Any]:
        """The jobs of a topic, as the server has them."""
        headers = {"Authorization": f"Bearer {self.key}"}
        (answer,) = await fire(self.server.url, [get(f"/api/v1/jobs?topic={topic}", headers=headers)])
        return answer.json()["items"]


@pytest.fixture
def topic() -> str:
    """A topic that only this test uses."""
    return f"t{next(_numbers)}.work"


@pytest.fixture(scope="session")
def short_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InterlockServer, str]]:
    """The server, and a key with every role that these tests need."""
    folder = tmp_path_factory.mktemp("http")
    with opened(folder, SHORT) as (server, key):
        yield server, key


@contextlib.contextmanager
def opened(folder: Path, env: dict[str, str], *arguments: str) -> Iterator[tuple[InterlockServer, str]]:
    """A server of one's own on a new SQLite file."""
    policy = folder / "policy.yaml"
    policy.write_text(ALLOW)
    store = f"sqlite:///{folder / 'interlock.db'}"
    server = InterlockServer(store, policy=policy, env=env, arguments=arguments)
    try:
        server.start()
        made = server.create_key("everybody", kind="person", roles="submit,work,review,operate,audit,admin")
        yield server, made.key
    finally:
        server.close()


@pytest.fixture(scope="session", params=["direct", "nginx", "haproxy"])
def edge(request: pytest.FixtureRequest, short_server: tuple[InterlockServer, str]) -> Iterator[Edge]:
    """Each way to reach the server."""
    server, key = short_server
    if request.param == "direct":
        yield Edge("direct", server.port, server, key)
        return
    proxy = ReverseProxy(cast("Kind", request.param), server.port).start()
    try:
        yield Edge(request.param, proxy.port, server, key)
    finally:
        proxy.close()


@pytest.fixture
def direct(short_server: tuple[InterlockServer, str]) -> Edge:
    """The server itself."""
    server, key = short_server
    return Edge("direct", server.port, server, key)


@pytest.fixture
async def client(edge: Edge) -> AsyncIterator[RawClient]:
    """One connection."""
    async with edge.connected() as one:
        yield one
