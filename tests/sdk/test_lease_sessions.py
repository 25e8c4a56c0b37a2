"""Several workers of one principal, told apart by their session: embedded and served, on either store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from interlock import AsyncInterlock, Busy, Conflict, Interlock, NotDone
from interlock.sdk.retry import NO_RETRIES
from interlock.wire.leases import Lease
from tests.sdk.gate_place import Place

RESOURCE = "repo:billing/src/invoice.py"
VERBS: dict[str, Callable[[Interlock, Lease], object]] = {
    "renew": lambda il, lease: il.renew_lease(lease.lease_id, lease.fence),
    "checkpoint": lambda il, lease: il.checkpoint_lease(lease.lease_id, lease.fence, done=1),
    "suspend": lambda il, lease: il.suspend_lease(lease.lease_id, lease.fence),
    "resume": lambda il, lease: il.resume_lease(lease.lease_id, lease.fence),
    "hand off": lambda il, lease: il.hand_off_lease(lease.lease_id, lease.fence),
    "effect": lambda il, lease: il.once("refund:1", nothing, lease=Named(lease)),
    "release": lambda il, lease: il.release_lease(lease.lease_id, lease.fence),
}


class Named:
    """A lease by its id and fence alone, as a program keeps it that knows of no session."""

    def __init__(self, lease: Lease) -> None:
        self.lease_id, self.fence = lease.lease_id, lease.fence


def nothing() -> None:
    raise NotDone("nothing to do")


def receipt() -> str:
    return "receipt"


def like(il: Interlock, session: str | None) -> Interlock:
    """Another client of the same principal."""
    return Interlock(
        il.url, il.session.key, store=None if il.url else il.store, session=session, retry=NO_RETRIES
    )


@pytest.fixture
def left(place: Place) -> Iterator[Interlock]:
    with like(place.il, "left") as il:
        yield il


@pytest.fixture
def right(place: Place) -> Iterator[Interlock]:
    with like(place.il, "right") as il:
        yield il


def test_a_session_alone_uses_its_lease_and_only_another_one_collides(
    place: Place, left: Interlock, right: Interlock
) -> None:
    lease = left.acquire_lease(RESOURCE)
    with pytest.raises(Busy, match="session left"):
        right.acquire_lease(RESOURCE)
    for verb, call in VERBS.items():
        with pytest.raises(
            Conflict, match="was acquired in session left, and this call names no session"
        ) as why:
            call(place.il, lease)
        assert (why.value.code, why.value.problem.fields["session"]) == ("fence_stale", "left"), verb
    assert place.person.conflicts().items == ()
    for verb, call in VERBS.items():
        with pytest.raises(Conflict, match="the call of another session does not hold it"):
            call(right, lease)
        assert len(place.person.conflicts().items) == 1, verb
    assert place.il.check_lease(lease.lease_id, lease.fence).current
    for verb in ("renew", "checkpoint", "suspend", "resume", "release"):
        VERBS[verb](left, lease)
    assert len(place.person.conflicts().items) == 1


def test_a_touch_collides_with_another_session_alone_and_a_missing_one_is_told(
    place: Place, left: Interlock, right: Interlock, caplog: pytest.LogCaptureFixture
) -> None:
    with left.lease(RESOURCE) as held:
        assert left.touch(RESOURCE, "1").conflict_id is None
        with caplog.at_level(logging.WARNING, "interlock"):
            (unnamed,) = place.il.touch_targets([{"key": RESOURCE, "version": "2"}])
        assert (unnamed.conflict_id, unnamed.held_in_session) == (None, "left")
        assert "pass session='left'" in caplog.text
        assert place.person.conflicts().items == ()
        touched = right.touch(RESOURCE, "3")
        assert touched.conflict_id
        held.renew()
        assert (held.state, held.conflict_id) == ("conflict_detected", touched.conflict_id)


def test_an_effect_under_a_held_lease_names_its_session(left: Interlock) -> None:
    with left.lease(RESOURCE) as held:
        assert left.once("refund:2", receipt, lease=held) == "receipt"
    assert left.get_effect("refund:2").state == "COMMITTED"


def test_the_environment_names_the_session(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_SESSION", "left")
    with like(place.il, None) as il, il.lease(RESOURCE) as held:
        assert held.session == "left"
        with il.lease("repo:other", session="right") as other:
            assert (other.session, other.now.session) == ("right", "right")
            other.renew()
    with like(place.il, "") as il, il.lease(RESOURCE) as held:
        assert held.session == ""


def test_what_a_holder_does_in_its_block_is_seen_by_the_next(left: Interlock, right: Interlock) -> None:
    with left.lease(RESOURCE, purpose="rename a field") as held:
        held.checkpoint(done=["renamed"], open_questions=["and the tests?"])
        held.suspend()
        held.resume()
        assert held.renew(progress=1).progress == 1
        held.hand_off(checkpoint={"done": ["renamed", "tests"]})
        assert held.lost
    with right.lease(RESOURCE) as held:
        held.renew()  # whose answer does not tell of the predecessor
        assert held.predecessor is not None
        assert held.predecessor.checkpoint is not None
        assert held.predecessor.checkpoint.done == ["renamed", "tests"]
        held.release()
        assert held.lost
        with left.lease(RESOURCE):
            pass
    assert left.conflicts().items == ()


def test_a_run_is_completed_with_its_result_inside_its_block(place: Place) -> None:
    with place.il.admit("nightly") as run:
        run.renew()
        run.complete({"rows": 3})
        assert run.lost
    ended = place.il.get_run(run.run_id)
    assert (ended.state, ended.result) == ("succeeded", {"rows": 3})
    with place.il.admit("nightly") as run:
        run.fail("no rows")
    assert place.il.get_run(run.run_id).error == "no rows"


def test_an_async_holder_does_the_same(place: Place) -> None:
    async def work() -> tuple[str, str]:
        where = place.il
        async with AsyncInterlock(
            where.url, where.session.key, store=None if where.url else where.store, session="left"
        ) as il:
            async with il.lease(RESOURCE) as held:
                await held.checkpoint(done=1)
                await held.renew(progress=2)
                await held.hand_off()
                assert held.lost
            async with il.lease(RESOURCE) as again:
                await again.release()
            async with il.admit("nightly") as run:
                await run.complete({"rows": 1})
            assert again.predecessor is not None
            return again.predecessor.ended, run.run_id

    ended, run_id = asyncio.run(work())
    assert ended == "handed_off"
    assert place.il.get_run(run_id).result == {"rows": 1}


def test_a_hand_off_that_is_refused_leaves_the_lease_held(left: Interlock, right: Interlock) -> None:
    with left.lease(RESOURCE, ttl=2) as held:
        with pytest.raises(Exception, match="nobody-of-this-name"):
            held.hand_off(to="nobody-of-this-name")
        assert not held.lost
        held.renew()
        with pytest.raises(Busy):
            right.acquire_lease(RESOURCE)
