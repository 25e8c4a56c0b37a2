"""What a server counted while the store could not be asked is stored once it can be."""

from __future__ import annotations

import time
from collections.abc import Callable

import apsw
import httpx2

from interlock import Interlock
from tests.harness.server import InterlockServer


def test_starts_refused_with_503_are_in_the_stored_counts_though_the_server_is_killed_later(
    serve: Callable[..., InterlockServer], sqlite_url: str
) -> None:
    server = serve(sqlite_url)
    bot = server.create_key("bot", kind="agent", roles="submit")
    with httpx2.Client(base_url=f"{server.url}/api/v1", headers=bot.headers, timeout=60) as client:
        assert client.post("/workflows/nightly/runs", json={}).status_code == 201
        holder = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
        holder.execute("BEGIN IMMEDIATE")
        refused = [client.post("/workflows/nightly/runs", json={}).status_code for _ in range(2)]
        holder.execute("ROLLBACK")
        holder.close()
    assert refused == [503, 503]

    with Interlock(store=sqlite_url) as il:
        deadline = time.monotonic() + 60
        while il.get_admission_stats().unavailable_503 < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        server.kill()
        told = il.get_admission_stats(step="1m")

    assert (told.admitted, told.full_429, told.unavailable_503) == (1, 0, 2)
    assert sum(point.unavailable_503 for point in told.workflows[0].series) == 2
