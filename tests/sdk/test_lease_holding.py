"""`il.lease(…)`: held for a block, whatever the client's clock says."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator

import pytest

from interlock import AsyncInterlock, Busy, Interlock
from interlock.kernel import hold as kernel_hold
from interlock.sdk import hold
from interlock.sdk.flow import Request, Response
from interlock.sdk.held import LeaseInHand
from interlock.sdk.retry import NO_RETRIES
from tests.harness.server import InterlockServer

TTL = 2
RESOURCE = "repo:billing/invoice.py"

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterlockServer]:
    started = InterlockServer(f"sqlite:///{tmp_path_factory.mktemp('leases')}/interlock.db")
    started.start()
    yield started
    started.close()


@pytest.fixture
def clients(server: InterlockServer) -> Iterator[tuple[Interlock, Interlock]]:
    """Two agents of a tenant of the test's own."""
    tenant = f"tenant-{next(_numbers)}"
    keys = [
        server.create_key(name, kind="agent", roles="submit", tenant=tenant).key for name in ("ann", "bob")
    ]
    ann, bob = (Interlock(server.url, key, retry=NO_RETRIES) for key in keys)
    with ann, bob:
        yield ann, bob


class FakedTime:
    """What the SDK's holders take for the time: the real one, moved or stopped."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.frozen_at: float | None = None

    def monotonic(self) -> float:
        return self.frozen_at if self.frozen_at is not None else time.monotonic() + self.ahead


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> FakedTime:
    clock = FakedTime()
    for place in (hold, kernel_hold):
        monkeypatch.setattr(place, "time", clock)
    return clock


def test_a_resource_is_held_for_the_block_and_free_after_it(clients: tuple[Interlock, Interlock]) -> None:
    ann, bob = clients
    with ann.lease(RESOURCE, ttl=TTL, purpose="rename") as held:
        assert ann.check_lease(held.now.lease_id, held.fence).current
        with pytest.raises(Busy, match=r"is held by ann \(rename\) until .* unless renewed; wait"):
            bob.acquire_lease(RESOURCE)
    with bob.lease(RESOURCE, ttl=TTL) as taken:
        assert taken.fence > held.fence
        assert taken.now.predecessor is not None
        assert taken.now.predecessor.owner == "ann"
        assert taken.predecessor == taken.now.predecessor
        assert taken.lease_id != held.lease_id


def test_a_block_longer_than_the_lifetime_keeps_the_resource(clients: tuple[Interlock, Interlock]) -> None:
    ann, bob = clients
    with ann.lease(RESOURCE, ttl=TTL) as held:
        time.sleep(TTL * 1.5)
        assert not held.lost
        with pytest.raises(Busy):
            bob.acquire_lease(RESOURCE)


def test_a_session_renews_and_gives_back_what_is_its_own(clients: tuple[Interlock, Interlock]) -> None:
    ann, _ = clients
    with ann.lease(RESOURCE, ttl=TTL, session="left") as held:
        time.sleep(TTL)
        assert not held.lost
    assert ann.get_lease(held.now.lease_id).state == "released"


def test_after_a_long_wait_in_line_the_block_begins_with_a_whole_lifetime(
    clients: tuple[Interlock, Interlock],
) -> None:
    ann, bob = clients
    ann.acquire_lease(RESOURCE, ttl_seconds=TTL)
    with bob.lease(RESOURCE, ttl=1, wait=30) as held:
        assert not held.lost


def test_a_holder_counts_with_the_lifetime_that_was_granted(clients: tuple[Interlock, Interlock]) -> None:
    granted = clients[0].acquire_lease(RESOURCE, ttl_seconds=TTL)
    held = LeaseInHand(clients[0].session, granted, ttl_seconds=600, sent_at=time.monotonic() - TTL)
    assert held.lost


@pytest.mark.parametrize("clock", ["frozen", "an hour behind", "jumping back"])
def test_a_clock_that_is_slow_lets_nobody_hold_it_twice(
    clients: tuple[Interlock, Interlock], faked: FakedTime, clock: str
) -> None:
    ann, bob = clients
    faked.ahead = -3600.0 if clock == "an hour behind" else 0.0
    faked.frozen_at = time.monotonic() if clock == "frozen" else None
    with ann.lease(RESOURCE, ttl=TTL) as held:
        faked.ahead -= 3600.0 if clock == "jumping back" else 0.0
        time.sleep(TTL * 1.5)
        assert ann.check_lease(held.now.lease_id, held.fence).current
        with pytest.raises(Busy):
            bob.acquire_lease(RESOURCE)


def test_a_clock_that_jumps_ahead_gives_up_early_and_nobody_takes_over_early(
    clients: tuple[Interlock, Interlock], faked: FakedTime
) -> None:
    ann, bob = clients
    with ann.lease(RESOURCE, ttl=TTL) as held:
        faked.ahead = 3600.0
        assert held.lost
        with pytest.raises(Busy):
            bob.acquire_lease(RESOURCE)
        assert ann.check_lease(held.now.lease_id, held.fence).current
        taken = bob.acquire_lease(RESOURCE, wait_seconds=30)
        assert taken.since is not None
        before = ann.get_lease(held.now.lease_id)
        assert before.expires_at is not None
        assert before.expires_at <= taken.since


def test_a_holder_that_was_refused_knows_that_it_is_lost(clients: tuple[Interlock, Interlock]) -> None:
    ann, _ = clients
    with ann.lease(RESOURCE, ttl=TTL) as held:
        ann.release_lease(held.now.lease_id, held.fence)
        deadline = time.monotonic() + 60
        while not held.lost and time.monotonic() < deadline:
            time.sleep(0.05)
        assert held.lost


class Outage:
    """Between a client and its service: the first renewals get no answer from it."""

    def __init__(self, renewals: int) -> None:
        self._left = renewals

    def hits(self, request: Request) -> bool:
        """Whether this request is one of those."""
        hit = request.path.endswith("/renew") and self._left > 0
        self._left -= hit
        return hit


NOBODY = Response(status=503, body=b"<html>nobody is there</html>")


def test_a_lease_outlasts_renewals_that_found_nobody(
    clients: tuple[Interlock, Interlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, _ = clients
    send, outage = ann.transport.send, Outage(renewals=2)
    monkeypatch.setattr(
        ann.transport, "send", lambda request: NOBODY if outage.hits(request) else send(request)
    )
    with ann.lease(RESOURCE, ttl=3 * TTL) as held:
        first = held.expires_at
        while held.expires_at == first and not held.lost:
            time.sleep(0.05)
        assert not held.lost


async def test_so_does_one_in_a_loop(
    clients: tuple[Interlock, Interlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, _ = clients
    async with AsyncInterlock(ann.url, ann.session.key, retry=NO_RETRIES) as il:
        send, outage = il.transport.send, Outage(renewals=2)

        async def sent(request: Request) -> Response:
            return NOBODY if outage.hits(request) else await send(request)

        monkeypatch.setattr(il.transport, "send", sent)
        async with il.lease(RESOURCE, ttl=3 * TTL) as held:
            first = held.expires_at
            while held.expires_at == first and not held.lost:
                await asyncio.sleep(0.05)
            assert not held.lost
