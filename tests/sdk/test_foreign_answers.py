"""What a proxy says of its own accord ends neither a worker, nor its job, nor a lease: it is not the service's no."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Work, Worker
from interlock.sdk.flow import Request, Response
from interlock.sdk.worker_jobs import Settled

HANG_SECONDS = 60
PAGE = b"<html>default backend</html>"


class Proxy:
    """Between a client and its service: answers the first request to an operation itself."""

    def __init__(self, client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statuses: dict[str, int] = {}
        self._send = client.transport.send
        monkeypatch.setattr(client.transport, "send", self.send)

    async def send(self, request: Request) -> Response:
        operation = request.path.rpartition("/")[2]
        if operation in self.statuses:
            return Response(status=self.statuses.pop(operation), body=PAGE)
        return await self._send(request)


@pytest.fixture
async def il(tmp_path: Path) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(store=f"sqlite:///{tmp_path}/interlock.db") as client:
        await client.apply_policy("version: v1\ndefault: allow\n")
        yield client


@pytest.fixture
def proxy(il: AsyncInterlock, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    return Proxy(il, monkeypatch)


@pytest.mark.parametrize(
    ("operation", "status"),
    [("claim", 403), ("claim", 400), ("complete", 404), ("complete", 409), ("complete", 403)],
)
async def test_a_worker_asks_again(il: AsyncInterlock, proxy: Proxy, operation: str, status: int) -> None:
    ends: list[Settled] = []
    worker = Worker(il, jobs_max=1, on_settled=lambda _, end: ends.append(end))

    @worker.handler("a")
    def work(_: Work) -> None:
        pass

    await il.submit("a", {})
    proxy.statuses[operation] = status
    async with asyncio.timeout(HANG_SECONDS):
        await worker.serve()
    assert (ends, proxy.statuses) == ([Settled.SUCCEEDED], {})


@pytest.mark.parametrize("status", [404, 500])
async def test_a_lease_is_renewed_again(il: AsyncInterlock, proxy: Proxy, status: int) -> None:
    async with il.lease("file", ttl=3) as held, asyncio.timeout(HANG_SECONDS):
        proxy.statuses["renew"] = status
        while not held.now.renewals and not held.lost:
            await asyncio.sleep(0.05)
        assert not held.lost
    assert proxy.statuses == {}
