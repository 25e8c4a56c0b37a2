"""Stores, receivers and brokers for relays."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import pytest

from tests.api.conftest import api, durable, durable_url
from tests.harness.nats import NatsServer
from tests.harness.webhook_receiver import Behave, Receiver

__all__ = ["api", "durable", "durable_url", "nats", "receive", "store_url"]

Receive = Callable[..., Awaitable[Receiver]]


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each store that outlives a process."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def receive() -> AsyncGenerator[Receive]:
    """Starts webhook receivers, `receive(behave)`, and stops them after the test."""
    started: list[Receiver] = []

    async def start(behave: Behave | None = None) -> Receiver:
        started.append(await Receiver(behave).start())
        return started[-1]

    yield start
    for receiver in started:
        await receiver.stop()


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    """A NATS server of the test's own."""
    server = NatsServer().start()
    yield server
    server.close()
