"""The shelf service, ready to be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from interlock.api.asgi import AsgiApp
from tests.api.core.asgi_client import Client, alive, opened
from tests.api.core.shelf import KEY, Service


@pytest.fixture
def service() -> Service:
    """Serve with a JSON log."""
    return Service()


@pytest.fixture
def serving() -> Callable[..., Service]:
    """Serve with a log of one's choice."""
    return Service


@pytest.fixture
def key() -> str:
    """The one key that is known."""
    return KEY


@pytest.fixture
async def client(service: Service, key: str) -> AsyncIterator[Callable[..., Client]]:
    asgi = AsgiApp(lambda: opened(service.app), body_bytes_max=1000, header_bytes_max=2000)

    def make(method: str, path: str, *chunks: bytes, **headers: str) -> Client:
        known = {"authorization": f"Bearer {key}", "content_type": "application/json"}
        return Client(asgi, method, path, list(chunks), **(known | headers))

    make.asgi = asgi  # pyright: ignore[reportFunctionMemberAccess]
    async with alive(asgi):
        yield make
