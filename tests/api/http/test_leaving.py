"""Clients that leave, say nothing or do not read: nothing is handed to nobody, and nobody is waited for for ever."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.http.conftest import Edge, opened
from tests.harness.flood import resident_mb
from tests.harness.raw_http import PATIENCE, RawClient
from tests.harness.reverse_proxies import ReverseProxy

GROWTH_MB_MAX = 60
_ANSWERED = 'interlock_http_requests_total{operation="openapi",status="200"}'


async def submitted(edge: Edge, topic: str, **fields: object) -> str:
    async with edge.connected() as client:
        return (await client.ask("POST", "/api/v1/jobs", {"topic": topic, "payload": {}, **fields})).json()[
            "id"
        ]


async def until(edge: Edge, name: str, value: float) -> None:
    """Return once the server's own figure is this."""
    async with asyncio.timeout(PATIENCE):
        while await edge.measured(name) != value:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", ["close", "half-close", "abort"])
async def test_a_worker_that_left_while_it_waited_is_given_no_job(edge: Edge, topic: str, how: str) -> None:
    # The request that asks for the figure is in flight, too.
    async with edge.connected() as client:
        client.say(client.request("POST", "/api/v1/jobs/claim", {"topics": [topic], "wait_seconds": 60}))
        await until(edge, "interlock_requests_in_flight", 2)
        if how == "half-close":
            client.writer.write_eof()
        elif how == "close":
            client.writer.close()
        else:
            client.writer.transport.abort()
        await until(edge, "interlock_requests_in_flight", 1)
    job = await submitted(edge, topic)
    await asyncio.sleep(0.2)
    (found,) = await edge.jobs(topic)
    assert (found["id"], found["state"], found["attempt"]) == (job, "PENDING", 0)


async def test_a_decision_stands_whose_client_left_and_its_repeat_is_answered(edge: Edge, topic: str) -> None:
    key = f"Idempotency-Key: {topic}-{edge.kind}"
    async with edge.connected() as client:
        client.say(client.request("POST", "/api/v1/jobs", {"topic": topic, "payload": {}}, key))
        client.writer.write_eof()
        await client.rest()
    async with edge.connected() as client:
        again = await client.ask("POST", "/api/v1/jobs", {"topic": topic, "payload": {}}, key)
    assert [each["id"] for each in await edge.jobs(topic)] == [again.json()["id"]]


async def test_a_silent_connection_is_closed(edge: Edge) -> None:
    async with edge.connected() as client:
        assert (await client.rest()).partition(b"\r\n")[0] in (b"", b"HTTP/1.1 408 Request Time-out")


async def test_a_head_that_comes_byte_by_byte_is_not_waited_for_without_end(edge: Edge) -> None:
    async with edge.connected() as client:
        ending = asyncio.create_task(client.rest())
        for byte in client.head("GET", "/healthz", f"X-Long: {'y' * 2000}"):
            client.say(bytes((byte,)))
            await asyncio.wait({ending}, timeout=0.05)
            if ending.done():
                break
        assert b" 200 " not in await ending


async def test_a_connection_is_not_silent_because_its_answer_took_long(direct: Edge, topic: str) -> None:
    async with direct.connected() as client:
        wait = {"topics": [topic], "wait_seconds": 5}  # longer than a connection may be silent
        assert (await client.ask("POST", "/api/v1/jobs/claim", wait)).json() == {"jobs": []}
        assert (await client.ask("GET", "/healthz")).status == 200


@contextlib.asynccontextmanager
async def streaming(
    edge: Edge, after: int | None, *, buffer_bytes: int | None = None
) -> AsyncIterator[RawClient]:
    async with edge.connected(buffer_bytes=buffer_bytes) as client:
        last = () if after is None else (f"Last-Event-ID: {after}",)
        client.say(client.head("GET", "/api/v1/events", *last))
        yield client


def positions(said: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"^id: (\d+)\nevent:", said, re.MULTILINE)]


async def test_a_stream_brings_each_event_as_it_comes_and_goes_on_where_it_was_left(
    edge: Edge, topic: str
) -> None:
    async with streaming(edge, None) as client:
        began = int(re.findall(rb"id: (\d+)", await client.until(b"\n\n"))[-1])
        job = await submitted(edge, topic)
        first = await client.until(f'"{job}"'.encode()) + await client.until(b"\n\n")
    seen = positions(first)
    assert seen
    assert seen[0] > began
    another = await submitted(edge, topic)
    async with streaming(edge, seen[-1]) as client:
        rest = await client.until(f'"{another}"'.encode())
    assert positions(rest)[0] == seen[-1] + 1


async def test_a_stream_ends_when_its_reader_leaves(edge: Edge) -> None:
    await until(edge, "interlock_event_readers", 0)  # those of other tests
    async with streaming(edge, None) as client:
        await client.until(b"\n\n")
        await until(edge, "interlock_event_readers", 1)
    await until(edge, "interlock_event_readers", 0)


async def test_a_stream_to_an_older_client_has_no_chunks(direct: Edge) -> None:
    async with direct.connected() as client:
        client.say(client.head("GET", "/api/v1/events").replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert b"chunked" not in await client.until(b"\r\n\r\n")
        assert (await client.until(b"\n\n")).startswith(b"retry: ")


async def test_whoever_asks_and_never_reads_is_not_answered_without_end(edge: Edge) -> None:
    many = 200  # more than any buffers on the way hold
    before = resident_mb(edge.server)
    async with edge.connected(buffer_bytes=4096) as deaf:
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
        deaf.say(deaf.request("GET", "/openapi.json") * many)
        counts = [-1.0]
        while (count := await edge.measured(_ANSWERED)) != counts[-1]:
            counts.append(count)
            await asyncio.sleep(0.3)
        assert resident_mb(edge.server) - before < GROWTH_MB_MAX
        if (
            edge.kind != "direct"
        ):  # a proxy has a deadline for it; a server that nothing stands before keeps its buffers
            await asyncio.sleep(6)
            deaf.reader._transport.resume_reading()  # type: ignore[attr-defined]
            assert (await deaf.rest()).count(b"HTTP/1.1 200 ") < many


@pytest.mark.parametrize("kind", ["direct", "nginx", "haproxy"])
async def test_a_server_that_stops_answers_what_it_took_ends_streams_and_closes_the_rest(
    tmp_path: Path, kind: str
) -> None:
    with opened(tmp_path, {"INTERLOCK_TRUSTED_PROXIES": "127.0.0.1"}) as (server, key):
        proxy = None if kind == "direct" else ReverseProxy(kind, server.port).start()  # type: ignore[arg-type]
        edge = Edge(kind, proxy.port if proxy else server.port, server, key)
        try:
            async with streaming(edge, None) as stream, edge.connected() as waiting, edge.connected() as half:
                await stream.until(b"\n\n")
                claim = {"topics": ["t"], "wait_seconds": 60}
                waiting.say(waiting.request("POST", "/api/v1/jobs/claim", claim))
                begun = half.request("POST", "/api/v1/jobs", {"topic": "half", "payload": {}})
                half.say(begun[:-1])
                await until(edge, "interlock_requests_in_flight", 4)
                stopping = asyncio.create_task(asyncio.to_thread(server.terminate))
                assert (await waiting.answer()).json() == {"jobs": []}
                assert (await stream.until(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
                half.say(begun[-1:])
                assert (await half.answer()).status == 201
                assert await stopping == 0
        finally:
            if proxy:
                proxy.close()


async def test_a_server_that_can_wait_no_longer_ends_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, {"INTERLOCK_DRAIN_SECONDS": "1"}) as (server, key):
        edge = Edge("direct", server.port, server, key)
        async with edge.connected() as half:
            half.say(half.request("POST", "/api/v1/jobs", {"topic": "half", "payload": {}})[:-1])
            await until(edge, "interlock_requests_in_flight", 2)
            assert await asyncio.to_thread(server.terminate) == 0
