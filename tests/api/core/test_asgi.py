"""Between the socket and the core: limits, streams, departures, and the life of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from interlock.api.app import App
from interlock.api.asgi import AsgiApp, read_headers
from interlock.api.problem import ProblemError

if TYPE_CHECKING:
    from .conftest import Service

Message = MutableMapping[str, Any]
PATIENCE = 20  # a hang guard


class Client:
    """One request at the ASGI interface: what it sends, what it got, and whether it is still there."""

    def __init__(self, asgi: AsgiApp, method: str, path: str, chunks: list[bytes], **headers: str) -> None:
        self.sent: list[Message] = []
        self.received = 0
        self.leaves_after: int | None = None
        self.deaf_after: int | None = None
        self.gone = asyncio.Event()
        self._chunks = chunks or [b""]
        self._asgi = asgi
        self._scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }

    async def receive(self) -> Message:
        if self.received == self.leaves_after:
            return {"type": "http.disconnect"}
        if self.received < len(self._chunks):
            self.received += 1
            chunk = self._chunks[self.received - 1]
            return {"type": "http.request", "body": chunk, "more_body": self.received < len(self._chunks)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if len(self.sent) == self.deaf_after:
            raise ConnectionResetError
        self.sent.append(message)

    async def run(self) -> Client:
        async with asyncio.timeout(PATIENCE):
            await self._asgi(self._scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}


@asynccontextmanager
async def alive(asgi: AsgiApp) -> AsyncIterator[list[Message]]:
    """Run the application's lifespan around the block; yield what it told the server."""
    told: list[Message] = []
    events: asyncio.Queue[Message] = asyncio.Queue()
    started = asyncio.Event()

    async def send(message: Message) -> None:
        told.append(message)
        started.set()

    life = asyncio.create_task(asgi({"type": "lifespan"}, events.get, send))
    events.put_nowait({"type": "lifespan.startup"})
    async with asyncio.timeout(PATIENCE):
        await started.wait()
        try:
            yield told
        finally:
            events.put_nowait({"type": "lifespan.shutdown"})
            with suppress(RuntimeError):
                await life


@asynccontextmanager
async def opened(app: App[Any, Any]) -> AsyncIterator[App[Any, Any]]:
    yield app


@pytest.fixture
async def client(service: Service, key: str) -> AsyncIterator[Callable[..., Client]]:
    asgi = AsgiApp(lambda: opened(service.app), body_bytes_max=1000, header_bytes_max=2000)

    def make(method: str, path: str, *chunks: bytes, **headers: str) -> Client:
        known = {"authorization": f"Bearer {key}", "content_type": "application/json"}
        return Client(asgi, method, path, list(chunks), **(known | headers))

    make.asgi = asgi  # pyright: ignore[reportFunctionMemberAccess]
    async with alive(asgi):
        yield make


async def test_a_request_in_pieces_is_answered_whole(client: Callable[..., Client]) -> None:
    answered = await client("POST", "/api/v1/things", b'{"na', b'me":', b'"vase"}').run()
    assert (answered.status, json.loads(answered.body)["name"]) == (201, "vase")
    assert answered.headers["content-length"] == str(len(answered.body))


async def test_path_and_query_arrive_as_they_were_on_the_wire(client: Callable[..., Client]) -> None:
    answered = await client("GET", "/api/v1/things/repo%3Abilling%2Finvoice.py").run()
    assert json.loads(answered.body)["id"] == "repo:billing/invoice.py"
    listed = await client("GET", "/api/v1/things?state=a%26b").run()
    assert json.loads(listed.body)["items"][0]["id"] == "a&b"


async def test_a_body_announced_as_too_large_is_refused_before_a_byte_is_read(
    client: Callable[..., Client],
) -> None:
    asked = client("POST", "/api/v1/things", b"x" * 5000, content_length="52428800")
    answered = await asked.run()
    assert (answered.status, json.loads(answered.body)["code"]) == (413, "too_large")
    assert json.loads(answered.body)["limit_bytes"] == 1000
    assert asked.received == 0


async def test_a_body_that_grows_too_large_is_refused_without_reading_on(
    client: Callable[..., Client],
) -> None:
    asked = client("POST", "/api/v1/things", *[b"x" * 400] * 1000)
    answered = await asked.run()
    assert (answered.status, asked.received) == (413, 3)


async def test_a_body_at_the_limit_is_read(client: Callable[..., Client]) -> None:
    body = json.dumps({"name": "x", "payload": ""}).encode()
    body = body.replace(b'""', b'"' + b"y" * (1000 - len(body)) + b'"')
    assert (await client("POST", "/api/v1/things", body, content_length="1000").run()).status == 201


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "", "1 000", "\u0661".encode().decode("latin-1")])
async def test_a_length_that_is_no_number_is_an_invalid_request(
    client: Callable[..., Client], length: str
) -> None:
    assert (await client("POST", "/api/v1/things", b"{}", content_length=length).run()).status == 400


async def test_headers_beyond_the_limit_are_refused(client: Callable[..., Client]) -> None:
    answered = await client("GET", "/healthz", x_long="y" * 3000).run()
    assert (answered.status, json.loads(answered.body)["code"]) == (431, "headers_too_large")


async def test_a_path_beyond_ascii_is_an_invalid_request(client: Callable[..., Client]) -> None:
    assert (await client("GET", "/api/v1/things/café").run()).status == 400


@pytest.mark.parametrize("name", [b"authorization", b"X-Api-Key", b"Idempotency-Key", b"content-type"])
def test_a_header_that_decides_something_may_not_be_sent_twice(name: bytes) -> None:
    with pytest.raises(ProblemError, match="appears twice"):
        read_headers([(name, b"a"), (name.lower(), b"a")])


def test_other_headers_sent_twice_are_joined() -> None:
    assert read_headers([(b"Accept", b"a"), (b"accept", b"b")]) == {"accept": "a, b"}


async def test_a_client_that_leaves_while_sending_changes_nothing(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("POST", "/api/v1/things", b'{"name":"x"}', b"")
    asked.leaves_after = 1
    await asked.run()
    assert asked.sent == []
    assert service.shelf.placed == []


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


async def test_an_answer_to_a_client_that_left_is_dropped_quietly(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("POST", "/api/v1/things", b'{"name":"x"}')
    asked.deaf_after = 0
    await asked.run()
    assert len(service.shelf.placed) == 1


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


async def test_a_long_poll_can_learn_that_its_client_left(
    client: Callable[..., Client], service: Service
) -> None:
    seen: list[Any] = []
    respond = service.app.respond

    async def remember(request: Any) -> Any:
        seen.append(request)
        return await respond(request)

    service.app.respond = remember  # pyright: ignore[reportAttributeAccessIssue]
    asked = client("POST", "/api/v1/things", b'{"name":"x"}')
    await asked.run()
    asked.gone.set()
    await asyncio.wait_for(seen[0].gone(), PATIENCE)


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
