"""Servers whose clocks are wrong share one PostgreSQL: its clock alone says who holds what, and until when."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.harness.load import Answer, post
from tests.harness.server import InterlockServer
from tests.races.conftest import PATIENT
from tests.races.deployment import Deployment

# A server process that reads another time than the machine has, wherever it asks for it.
_SHIFTED = """
import sys, time
from datetime import timedelta
from interlock.kernel import clock
ahead, right, now = {seconds}, time.time, clock.utc_now
time.time = lambda: right() + ahead
clock.utc_now = lambda: now() + timedelta(seconds=ahead)
from interlock.cli.main import main
sys.exit(main())
"""
HOUR = 3600


@pytest.fixture
def clocks(postgres_url: str, serve: Callable[..., InterlockServer]) -> Deployment:
    """Three servers on one database: one with the right time, one an hour ahead, one an hour behind."""
    servers = [serve(postgres_url, env=PATIENT)]
    for seconds in (HOUR, -HOUR):
        command = [sys.executable, "-c", _SHIFTED.format(seconds=seconds)]
        servers.append(serve(postgres_url, command=command, env=PATIENT))
    return Deployment(postgres_url, servers)


async def test_a_server_with_a_wrong_clock_takes_nothing_early_and_holds_nothing_longer(
    clocks: Deployment,
) -> None:
    right, ahead, behind = clocks.urls
    held = (await _ask(clocks, right, "leases", resource="c/a", ttl_seconds=600)).json()
    for url in (ahead, behind):
        early = await _ask(clocks, url, "leases", resource="c/a")
        assert (early.status, early.word) == (409, "lock_busy")
        renewed = await _ask(clocks, url, f"leases/{held['lease_id']}/renew", fence=held["fence"])
        longer = _moment(renewed.json()["expires_at"]) - _moment(held["expires_at"])
        assert 0 <= longer.total_seconds() < HOUR / 2
    # One that was taken where the clock is behind runs out all the same, and one taken ahead is not over at once.
    await _ask(clocks, behind, "leases", resource="c/b", ttl_seconds=1)
    next_one = await _ask(clocks, ahead, "leases", resource="c/b", ttl_seconds=600, wait_seconds=60)
    assert next_one.status == 201
    assert (await _ask(clocks, behind, "leases", resource="c/b")).word == "lock_busy"


async def test_fences_grow_whichever_servers_clock_is_wrong(clocks: Deployment) -> None:
    fences: list[int] = []
    for turn in range(12):
        url = clocks.urls[turn % len(clocks.urls)]
        lease = (await _ask(clocks, url, "leases", resource="c/a")).json()
        fences.append(lease["fence"])
        await _ask(clocks, url, f"leases/{lease['lease_id']}/release", fence=lease["fence"])
    assert fences == sorted(set(fences))
    (spread,) = {abs(fence // 1_000_000 - fences[0] // 1_000_000) < HOUR / 2 for fence in fences}
    assert spread, "a fence came from a server's clock"


async def _ask(place: Deployment, url: str, path: str, **body: Any) -> Answer:
    (answer,) = await place.ask(post(f"/api/v1/{path}", body, headers=place.keys["bot"].headers), url=url)
    return answer


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
