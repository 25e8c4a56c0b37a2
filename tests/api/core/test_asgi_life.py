"""The life of a server and of its streams, and what becomes of requests when either ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.api.app import App
from interlock.api.asgi import AsgiApp
from tests.api.core.asgi_client import PATIENCE, Client, alive, opened
from tests.api.core.shelf import Service


async def test_a_server_that_gives_up_on_a_client_does_not_tear_off_its_decision(
    client: Callable[..., Client], service: Service
) -> None:
    serving = asyncio.create_task(client("POST", "/api/v1/slow").run())
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    service.shelf.go_on.set()
    async with asyncio.timeout(PATIENCE):
        while service.shelf.placed != ["finished"]:
            await asyncio.sleep(0)


async def test_shutdown_finishes_what_was_accepted_before_it_closes_the_app(
    service: Service, key: str
) -> None:
    @asynccontextmanager
    async def closing() -> AsyncIterator[App[Any, Any]]:
        yield service.app
        service.shelf.placed.append("closed")

    asgi = AsgiApp(closing)
    async with alive(asgi) as told:
        asked = Client(asgi, "POST", "/api/v1/slow", [], authorization=f"Bearer {key}")
        serving = asyncio.create_task(asked.run())
        await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
        serving.cancel()
        asyncio.get_running_loop().call_later(0.05, service.shelf.go_on.set)
    assert service.shelf.placed == ["finished", "closed"]
    assert [message["type"] for message in told] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


async def test_shutdown_ends_open_streams_by_itself(service: Service, key: str) -> None:
    asgi = AsgiApp(lambda: opened(service.app))
    async with alive(asgi):
        asked = Client(asgi, "GET", "/api/v1/stream", [], authorization=f"Bearer {key}")
        serving = asyncio.create_task(asked.run())
        await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    await asyncio.wait_for(serving, PATIENCE)
    assert service.shelf.closed.is_set()


async def test_a_stream_is_sent_chunk_by_chunk_to_its_end(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("GET", "/api/v1/stream")
    serving = asyncio.create_task(asked.run())
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    assert asked.body == b"data: 1\n\n"
    service.shelf.go_on.set()
    await serving
    assert asked.body == b"data: 1\n\ndata: 2\n\n"
    assert asked.sent[-1].get("more_body", False) is False
    assert asked.headers["content-type"] == "text/event-stream"
    assert "content-length" not in asked.headers


async def test_a_stream_is_closed_when_its_client_leaves(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("GET", "/api/v1/stream")
    serving = asyncio.create_task(asked.run())
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    asked.gone.set()
    await serving
    assert service.shelf.closed.is_set()


@pytest.mark.parametrize("deaf_after", [0, 1, 2])
async def test_a_stream_is_closed_quietly_when_it_can_no_longer_be_sent(
    client: Callable[..., Client], service: Service, deaf_after: int
) -> None:
    asked = client("GET", "/api/v1/stream")
    asked.deaf_after = deaf_after
    service.shelf.go_on.set()
    await asked.run()
    assert service.shelf.closed.is_set() == (deaf_after > 0)  # a stream that never began has nothing to close
    assert not any('"fault"' in line for line in service.lines)


async def test_open_streams_end_properly_when_the_server_stops(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("GET", "/api/v1/stream")
    serving = asyncio.create_task(asked.run())
    await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
    client.asgi.end_streams()  # pyright: ignore[reportFunctionMemberAccess]
    await serving
    assert service.shelf.closed.is_set()
    assert asked.sent[-1].get("more_body", False) is False


async def test_a_stream_that_breaks_is_cut_off_and_logged(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("GET", "/api/v1/torn")
    with pytest.raises(Exception, match="in the middle"):
        await asked.run()
    assert asked.sent[-1]["more_body"] is True
    assert any('"fault"' in line and "NobodyExpectedThis" in line for line in service.lines)


async def test_a_start_that_fails_is_told_to_the_server() -> None:
    @asynccontextmanager
    async def failing() -> AsyncIterator[App[Any, Any]]:
        raise RuntimeError("the store is newer than this server")
        yield

    async with alive(AsgiApp(failing)) as told:
        assert told[0]["type"] == "lifespan.startup.failed"
        assert "newer" in told[0]["message"]


async def test_web_sockets_are_not_served(service: Service) -> None:
    with pytest.raises(ValueError, match="only HTTP"):
        await AsgiApp(lambda: opened(service.app))({"type": "websocket"}, None, None)  # pyright: ignore[reportArgumentType]
