"""Between the socket and the core: limits, headers, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from interlock.api.asgi import read_headers
from interlock.api.problem import ProblemError
from tests.api.core.asgi_client import PATIENCE, Client
from tests.api.core.shelf import Service


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


async def test_an_answer_to_a_client_that_left_is_dropped_quietly(
    client: Callable[..., Client], service: Service
) -> None:
    asked = client("POST", "/api/v1/things", b'{"name":"x"}')
    asked.deaf_after = 0
    await asked.run()
    assert len(service.shelf.placed) == 1


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
