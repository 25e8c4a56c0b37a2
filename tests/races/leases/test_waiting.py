"""Waiting in line over two servers: in order, and never for the dead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.load import Answer, Connection, get, post
from tests.races.deployment import Deployment

WAITERS = 6
_tests: list[str] = []


async def test_waiters_on_two_servers_are_served_in_the_order_they_came(deployment: Deployment) -> None:
    held = await _take(deployment)
    waiters = [await _wait(deployment, turn) for turn in range(WAITERS)]
    await _release(deployment, held)
    order: list[str] = []
    for turn, waiter in enumerate(waiters):
        got = await asyncio.wait_for(waiter, 60)
        assert got.status == 201, got.body
        order.append(got.json()["purpose"])
        assert sum(other.done() for other in waiters) == turn + 1
        await _release(deployment, got.json())
    assert order == [str(turn) for turn in range(WAITERS)]


async def test_a_waiter_whose_client_is_gone_holds_nobody_up(deployment: Deployment) -> None:
    held = await _take(deployment)
    dead = Connection(deployment.urls[0])
    sending = asyncio.create_task(dead.send(_request(deployment, "dead", 300).encode()))
    await _until_waiting(deployment, 1)
    alive = await _wait(deployment, 1)
    await _until_waiting(deployment, 2)
    dead.close()
    sending.cancel()
    await _until_waiting(deployment, 1)
    await _release(deployment, held)
    got = await asyncio.wait_for(alive, 60)
    assert got.json()["purpose"] == "1"
    assert got.json()["predecessor"]["owner"] == "bot"


async def test_a_waiter_whose_server_is_gone_holds_nobody_up(pair: Deployment) -> None:
    held = await _take(pair)
    lost = await _wait(pair, 0)
    alive = await _wait(pair, 1)
    pair.servers[0].kill()
    assert (await lost).status == 0
    await _release(pair, held, url=pair.urls[1])
    got = await asyncio.wait_for(alive, 60)
    assert got.json()["purpose"] == "1"


async def test_whoever_waits_gets_what_a_dead_owner_left(deployment: Deployment) -> None:
    held = await _take(deployment, ttl_seconds=1)
    path = f"/api/v1/leases/{held['lease_id']}/checkpoint"
    await deployment.ask(post(path, {"fence": held["fence"], "done": [1, 2]}, headers=_headers(deployment)))
    got = await asyncio.wait_for(await _wait(deployment, 0), 60)
    before = got.json()["predecessor"]
    assert (before["ended"], before["checkpoint"]["done"]) == ("stale", [1, 2])


@pytest.fixture(autouse=True)
def fresh_resource() -> None:
    """A resource of each test's own: the servers are shared."""
    _tests.append(f"line{len(_tests)}/a")


def _resource() -> str:
    return _tests[-1]


def _headers(place: Deployment) -> dict[str, str]:
    return place.keys["bot"].headers


def _request(place: Deployment, purpose: str, wait: float, ttl_seconds: int = 600) -> Any:
    body = {"resource": _resource(), "purpose": purpose, "wait_seconds": wait, "ttl_seconds": ttl_seconds}
    return post("/api/v1/leases", body, headers=_headers(place))


async def _take(place: Deployment, **fields: Any) -> dict[str, Any]:
    (got,) = await place.ask(_request(place, "first", 0, **fields))
    assert got.status == 201, got.body
    return got.json()


async def _wait(place: Deployment, turn: int) -> asyncio.Task[Answer]:
    """Stand in line on one of the servers; returns once the place is taken."""
    url = place.urls[turn % len(place.urls)]

    async def ask() -> Answer:
        (answer,) = await place.ask(_request(place, str(turn), 300), url=url)
        return answer

    task = asyncio.create_task(ask())
    for _ in range(600):
        if task.done() or any(each["purpose"] == str(turn) for each in await _line(place)):
            break
        await asyncio.sleep(0.05)
    return task


async def _line(place: Deployment) -> list[dict[str, Any]]:
    url = place.urls[-1]
    (answer,) = await place.ask(get("/api/v1/leases/waiting", headers=_headers(place)), url=url)
    return [each for each in answer.json()["items"] if each["resource"] == _resource()]


async def _until_waiting(place: Deployment, count: int) -> None:
    for _ in range(1200):
        if len(await _line(place)) == count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not {count} waiters: {await _line(place)}")


async def _release(place: Deployment, lease: dict[str, Any], url: str | None = None) -> None:
    path = f"/api/v1/leases/{lease['lease_id']}/release"
    (answer,) = await place.ask(post(path, {"fence": lease["fence"]}, headers=_headers(place)), url=url)
    assert answer.status == 200, answer.body
