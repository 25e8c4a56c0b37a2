"""The shelf service, ready to be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.api.core.shelf import KEY, Service
from tests.api.core.wire import Served, Wire, served

BODY_BYTES_MAX = 1000
HEADER_BYTES_MAX = 2000


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
async def server(service: Service, key: str) -> AsyncIterator[Served]:
    """The shelf on a socket, with small limits."""
    async with served(
        service.app, key, body_bytes_max=BODY_BYTES_MAX, header_bytes_max=HEADER_BYTES_MAX
    ) as one:
        yield one
        service.shelf.go_on.set()


@pytest.fixture
async def wire(server: Served) -> AsyncIterator[Wire]:
    """One connection to it."""
    async with server.connected() as one:
        yield one
