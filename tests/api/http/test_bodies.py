"""A body is read only for a known key; it has a deadline, and all that are unfinished have one bound."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from tests.api.http.conftest import Edge, opened
from tests.harness.flood import resident_mb
from tests.harness.raw_http import PATIENCE

MEGABYTE = 1024 * 1024
STRANGERS = 200
CROWD = 1000
GROWTH_MB_MAX = STRANGERS / 2  # each sends a megabyte, of which the server may hold what it reads ahead


async def test_an_unknown_key_is_refused_when_its_head_is_in(edge: Edge) -> None:
    async with edge.connected(key="il_0123456789abcdef_unknown") as client:
        client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {MEGABYTE}"))
        assert (await client.answer()).problem == (401, "unauthenticated")
        await client.rest()


async def test_a_missing_role_is_told_when_the_head_is_in(direct: Edge) -> None:
    key = (await asyncio.to_thread(direct.server.create_key, "only-audit", roles="audit")).key
    async with direct.connected(key=key) as client:
        client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {MEGABYTE}"))
        assert (await client.answer()).problem == (403, "forbidden")


async def test_whoever_is_not_known_is_not_asked_for_a_body(direct: Edge) -> None:
    async with direct.connected(key="il_0123456789abcdef_unknown") as client:
        client.say(client.head("POST", "/api/v1/jobs", "Content-Length: 100", "Expect: 100-continue"))
        assert (await client.answer()).status == 401  # and no 100 before it


async def test_the_bodies_of_strangers_take_no_room(direct: Edge) -> None:
    before = resident_mb(direct.server)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(STRANGERS):
            client = await stack.enter_async_context(direct.connected(key="il_0123456789abcdef_unknown"))
            client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {MEGABYTE}"))
            client.say(b" " * (MEGABYTE - 1))
        await asyncio.sleep(1)
        assert await direct.measured("interlock_unfinished_body_bytes") == 0
        assert resident_mb(direct.server) - before < GROWTH_MB_MAX


async def test_no_more_strangers_are_heard_out_at_once_than_there_is_room_for(direct: Edge) -> None:
    key = "il_0123456789abcdef_unknown"
    before = resident_mb(direct.server)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(CROWD):
            client = await stack.enter_async_context(direct.connected(key=key))
            client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {MEGABYTE}"))
            with contextlib.suppress(ConnectionError):  # told and closed already
                client.say(b" " * (MEGABYTE // 2))
        await asyncio.sleep(1)
        assert resident_mb(direct.server) - before < GROWTH_MB_MAX


async def test_a_body_that_trickles_is_not_waited_for_without_end(direct: Edge, topic: str) -> None:
    body = json.dumps({"topic": topic, "payload": {"text": "y" * 10_000}}).encode()
    async with direct.connected() as client:
        client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {len(body)}"))
        answering = asyncio.create_task(client.answer())
        for byte in body:
            client.say(bytes((byte,)))
            await asyncio.wait({answering}, timeout=0.05)
            if answering.done():
                break
        answered = await answering
        assert (answered.problem, answered.headers["connection"]) == ((408, "body_timeout"), "close")
        assert answered.json()["limit_seconds"] == 3
    assert await direct.jobs(topic) == []


async def test_a_body_that_breaks_off_changes_nothing(edge: Edge, topic: str) -> None:
    whole = json.dumps({"topic": topic, "payload": {}}).encode()
    async with edge.connected() as client:
        client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {len(whole)}") + whole[:-1])
        await client.writer.drain()
        await asyncio.sleep(0.2)
    async with edge.connected() as client:
        client.say(client.head("POST", "/api/v1/jobs", "Transfer-Encoding: chunked") + b"no chunk\r\n")
        assert not (said := await client.rest()) or said.split()[1] in (b"400", b"502")
    assert await edge.jobs(topic) == []


async def test_all_unfinished_bodies_together_have_one_bound(tmp_path: Path) -> None:
    bound = 4 * MEGABYTE
    env = {"INTERLOCK_BODIES_BYTES_MAX": str(bound), "INTERLOCK_BODY_SECONDS": "3600"}
    with opened(tmp_path, env) as (server, key):
        edge = Edge("direct", server.port, server, key)
        body = json.dumps({"topic": "one", "payload": {"text": "y" * 900_000}}).encode()
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(edge.connected()) for _ in range(8)]
            for client in clients:
                client.say(client.head("POST", "/api/v1/jobs", f"Content-Length: {len(body)}") + body[:-1])
            answers = [asyncio.create_task(client.answer()) for client in clients]
            async with asyncio.timeout(PATIENCE):
                while sum(each.done() for each in answers) < 4:
                    await asyncio.sleep(0.01)
            for each, client in zip(answers, clients, strict=True):
                if each.done():
                    assert each.result().problem == (503, "overloaded")
                    assert int(each.result().headers["retry-after"]) >= 1
                else:
                    client.say(body[-1:])
                    assert (await each).status == 201
            assert 0 < sum(each.result().status == 201 for each in answers) <= 4
        assert await edge.measured("interlock_unfinished_body_bytes") == 0
        async with edge.connected() as after:
            assert (await after.ask("POST", "/api/v1/jobs", body)).status == 201
