"""Whole servers: killed in the middle of a delivery, taking over from each other, streaming across restarts."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from tests.api.events.event_stream import Stream
from tests.harness.server import InterlockServer, Key
from tests.harness.webhook_receiver import Received, Reply
from tests.service.conftest import Receive
from tests.service.relay_service import LOOPBACK

Serve = Callable[..., InterlockServer]

POLICY = "version: v1\ndefault: allow\n"
RELAYING = {
    "INTERLOCK_WEBHOOK_ALLOW_PRIVATE": LOOPBACK,
    "INTERLOCK_RELAY_LEASE_SECONDS": "2",
    "INTERLOCK_WEBHOOK_RETRY_BASE_SECONDS": "0.05",
}


def call(server: InterlockServer, key: Key, method: str, path: str, body: Any = None) -> Any:
    """One request to a server; its answer as JSON."""
    request = urllib.request.Request(
        server.url + path,
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={**key.headers, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def submit(server: InterlockServer, key: Key, count: int) -> list[str]:
    """Submit jobs; each is one event about its own subject."""
    return [
        call(server, key, "POST", "/api/v1/jobs", {"topic": "a.b", "payload": {"n": n}})["id"]
        for n in range(count)
    ]


def policy_file(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text(POLICY)
    return path


def admin(server: InterlockServer) -> Key:
    return server.create_key("ada", kind="person", roles="admin,submit,review,audit,operate,work")


async def test_what_a_killed_server_was_delivering_another_one_delivers(
    serve: Serve, postgres_url: str, tmp_path: Path, receive: Receive
) -> None:
    receiver = await receive()
    one = serve(postgres_url, policy=policy_file(tmp_path), env=RELAYING)
    key = admin(one)
    call(one, key, "POST", "/api/v1/webhooks", {"url": receiver.url, "types": ["job.*"]})
    settled = await asyncio.to_thread(submit, one, key, 3)
    await receiver.until_taken(3)
    two = serve(postgres_url, env=RELAYING)
    receiver.behave = lambda _: Reply(delay_seconds=60)
    jobs = await asyncio.to_thread(submit, one, key, 3)
    await receiver.until(lambda: len(receiver.received) > 3)
    one.kill()
    receiver.behave = lambda _: Reply()
    jobs += await asyncio.to_thread(submit, two, key, 3)
    await receiver.until_taken(9)
    assert {event["subject"] for event in receiver.events()} == {*settled, *jobs}
    assert [event["subject"] for event in receiver.events()].count(settled[0]) == 1, (
        "what was settled came again"
    )


async def test_a_server_paused_past_its_lease_changes_nothing_when_it_comes_back(
    serve: Serve, postgres_url: str, tmp_path: Path, receive: Receive
) -> None:
    gate = {"slow": True}

    def behave(_: Received) -> Reply:
        return Reply(delay_seconds=6) if gate["slow"] else Reply()

    receiver = await receive(behave)
    one = serve(postgres_url, policy=policy_file(tmp_path), env=RELAYING)
    key = admin(one)
    made = call(one, key, "POST", "/api/v1/webhooks", {"url": receiver.url, "types": ["job.*"]})
    await asyncio.to_thread(submit, one, key, 5)
    await receiver.until(lambda: bool(receiver.received))
    one.pause()
    gate["slow"] = False
    two = serve(postgres_url, env=RELAYING)
    await receiver.until_taken(5)
    one.resume()
    await asyncio.to_thread(submit, two, key, 5)
    await receiver.until_taken(10)
    await asyncio.sleep(1.0)
    view = await asyncio.to_thread(call, two, key, "GET", f"/api/v1/webhooks/{made['id']}")
    assert (view["waiting"], view["dead"]) == (0, 0)
    assert view["progress"]["behind"] == 0


async def test_a_stream_goes_on_across_a_restart_that_a_silent_reader_does_not_delay(
    serve: Serve, sqlite_url: str, tmp_path: Path
) -> None:
    server = serve(sqlite_url, policy=policy_file(tmp_path), env={"INTERLOCK_DRAIN_SECONDS": "600"})
    key = admin(server)
    first = Stream(server, key, query="?after=0&types=job.*")
    silent = Stream(server, key)
    jobs = submit(server, key, 5)
    seen = list(islice(first.events(), 3))
    server.restart()
    jobs += submit(server, key, 2)
    second = Stream(server, key, query="?types=job.*", last=seen[-1].id)
    seen += list(islice(second.events(), 4))
    for stream in (first, silent, second):
        stream.close()
    assert [block.data["subject"] for block in seen if block.data] == jobs
