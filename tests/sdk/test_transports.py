"""What the remote transports say happened, checked against real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable

import pytest

from interlock.sdk.flow import Request, Response, TransportFailed
from interlock.sdk.outcomes import InvalidRequest
from interlock.sdk.transports import AsyncHttpTransport, HttpTransport, checked_url
from tests.sdk.scripted_server import Cut, Hang, Trickle, in_turn, serving
from tests.sdk.virtual_time import success

Send = Callable[[str, Request], Response]
POST = Request(method="POST", path="/api/v1/jobs", query="a=1", headers={"x-test": "v"}, body=b'{"a":1}')


def send_blocking(url: str, request: Request) -> Response:
    transport = HttpTransport(url)
    try:
        return transport.send(request)
    finally:
        transport.close()


def send_async(url: str, request: Request) -> Response:
    async def send() -> Response:
        transport = AsyncHttpTransport(url)
        try:
            return await transport.send(request)
        finally:
            await transport.close()

    return asyncio.run(send())


@pytest.fixture(params=[send_blocking, send_async], ids=["blocking", "async"])
def send(request: pytest.FixtureRequest) -> Send:
    return request.param


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_request_arrives_as_it_was_made(send: Send) -> None:
    with serving(in_turn(success(201, ok=True))) as server:
        answer = send(server.url + "/", POST)
    (received,) = server.received
    assert (received.method, received.path, received.query) == ("POST", "/api/v1/jobs", "a=1")
    assert (received.headers["x-test"], received.body) == ("v", b'{"a":1}')
    assert (answer.status, answer.body) == (201, b'{"ok":true}')


def test_header_names_come_back_in_lower_case(send: Send) -> None:
    with serving(in_turn(Response(status=429, headers={"Retry-After": "7"}))) as server:
        assert send(server.url, POST).headers["retry-after"] == "7"


def test_a_refused_connection_surely_carried_nothing(send: Send) -> None:
    with pytest.raises(TransportFailed) as caught:
        send(f"http://127.0.0.1:{unused_port()}", POST)
    assert not caught.value.may_have_been_received


def test_a_connection_cut_before_the_answer_may_have_carried_the_request(send: Send) -> None:
    with serving(in_turn(Cut())) as server, pytest.raises(TransportFailed) as caught:
        send(server.url, POST)
    assert caught.value.may_have_been_received
    assert len(server.received) == 1


def test_a_silent_server_is_given_up_and_may_have_received_it(send: Send) -> None:
    hasty = Request(method="POST", path="/x", timeout_seconds=0.1)
    with serving(in_turn(Hang())) as server, pytest.raises(TransportFailed) as caught:
        send(server.url, hasty)
    assert caught.value.may_have_been_received


def test_an_answer_that_never_ends_is_given_up(send: Send) -> None:
    hasty = Request(method="GET", path="/x", timeout_seconds=0.2)
    with serving(in_turn(Trickle())) as server, pytest.raises(TransportFailed) as caught:
        send(server.url, hasty)
    assert "did not end in time" in caught.value.reason


def test_a_redirect_is_an_answer_and_is_not_followed(send: Send) -> None:
    with serving(in_turn(success())) as elsewhere:
        moved = Response(status=307, headers={"location": elsewhere.url + "/stolen"})
        with serving(in_turn(moved)) as server:
            assert send(server.url, POST).status == 307
    assert elsewhere.received == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8700",
        "ftp://x",
        "http://",
        "https://x/?q=1",
        "http://x/#f",
        "http://[::1",
        "http://x:99999",
        "http://x/api/v1",
        "http://x/behind/a/proxy/api/v1/",
    ],
)
def test_what_is_not_the_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_url(url)


def test_connections_are_kept_and_used_again() -> None:
    with serving(in_turn(success())) as server:
        transport = HttpTransport(server.url)
        for _ in range(5):
            transport.send(POST)
        transport.close()
        transport.send(POST)
        transport.close()
    assert len(set(server.ports[:5])) == 1
    assert server.ports[5] not in server.ports[:5]


def test_an_async_transport_serves_one_loop_after_another() -> None:
    with serving(in_turn(success())) as server:
        transport = AsyncHttpTransport(server.url)

        async def twice() -> None:
            await transport.send(POST)
            await transport.send(POST)
            await transport.close()

        asyncio.run(twice())
        asyncio.run(twice())
    assert len(server.received) == 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_uses_connections_of_its_own() -> None:
    with serving(in_turn(success())) as server:
        transport = HttpTransport(server.url)
        transport.send(POST)
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that waits for the parent's thread would wait for ever
            os._exit(0 if transport.send(POST).status == 200 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert transport.send(POST).status == 200
        transport.close()
    before, in_child, after = server.ports
    assert before == after != in_child


async def test_calls_that_are_held_do_not_keep_another_waiting() -> None:
    held = Request(method="GET", path="/held", timeout_seconds=60)
    with serving(lambda asked: Hang() if asked.path == "/held" else success()) as server:
        transport = AsyncHttpTransport(server.url)
        waiting: list[asyncio.Task[Response]] = []
        async with asyncio.timeout(50):
            for _ in range(110):
                waiting.append(asyncio.create_task(transport.send(held)))
                while len(server.received) < len(waiting):  # one by one: the server's queue is short
                    await asyncio.sleep(0.001)
            assert (await transport.send(POST)).status == 200
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        await transport.close()
