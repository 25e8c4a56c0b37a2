"""`il.admit(...)`: a slot for the length of a block, renewed, given back, and honest about its loss."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from interlock import Conflict, Full, Interlock
from interlock.sdk.retry import NO_RETRIES
from tests.sdk.approval_team import House

HANG_SECONDS = 30


def block(house: House, kind: str, inside: Callable[[Any], None], **options: Any) -> Any:
    """Run `inside` in a block of either kind; returns what was held."""
    if kind == "blocking":
        with house.il.admit("w", **options) as held:
            inside(held)
        return held

    async def run() -> Any:
        async with house.ail.admit("w", **options) as held:
            await asyncio.to_thread(inside, held)
        return held

    return asyncio.run(run())


both = pytest.mark.parametrize("kind", ["blocking", "async"])


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


@both
def test_the_block_holds_a_running_run_and_completes_it(house: House, kind: str) -> None:
    seen: list[str] = []
    held = block(house, kind, lambda held: seen.append(house.il.workflow_run(held.now.run_id).state))
    assert seen == ["running"]
    assert house.il.workflow_run(held.now.run_id).state == "succeeded"
    assert held.fence == held.now.fence
    assert not held.lost
    assert house.il.limits().active == 0


@both
def test_what_is_held_can_be_asked_for_its_fields(house: House, kind: str) -> None:
    held = block(house, kind, lambda held: None)
    assert held.run_id == held.now.run_id
    assert held.slot_expires_at == held.now.slot_expires_at
    with pytest.raises(AttributeError, match="no_such_field"):
        held.no_such_field  # noqa: B018 - the asking is what is tested


def test_stats_tell_full_from_admitted(house: House) -> None:
    house.il.set_limit("nightly", 1)
    house.il.start_run("nightly")
    with pytest.raises(Full):
        house.il.start_run("nightly")
    stats = house.il.admission_stats(window="10m")
    assert (stats.admitted, stats.unavailable_503) == (1, 0)
    assert stats.full_429 >= 1
    assert [row.workflow for row in stats.workflows] == ["nightly"]


@both
def test_a_block_that_raises_fails_its_run_and_raises_on(house: House, kind: str) -> None:
    def burn(held: Any) -> None:
        raise ZeroDivisionError("secret detail")

    with pytest.raises(ZeroDivisionError):
        block(house, kind, burn)
    (run,) = house.il.runs().items
    assert (run.state, run.error) == ("failed", "ZeroDivisionError")


@both
def test_the_slot_is_renewed_for_as_long_as_the_block_takes(house: House, kind: str) -> None:
    def work(held: Any) -> None:
        first = held.now.slot_expires_at
        until(lambda: held.now.slot_expires_at > first)
        until(lambda: (house.il.workflow_run(held.now.run_id).ended_at or 0) == 0 and not held.lost)

    held = block(house, kind, work, ttl=3)
    assert house.il.workflow_run(held.now.run_id).state == "succeeded"


@both
def test_no_room_raises_full_and_runs_nothing(house: House, kind: str) -> None:
    house.il.set_limit("tenant", 0)
    client = house.il if kind == "blocking" else house.ail
    client.session.retry = NO_RETRIES
    with pytest.raises(Full) as full:
        block(house, kind, lambda held: pytest.fail("it ran"))
    assert (full.value.problem.fields["limit"], full.value.problem.fields["scope"]) == (0, "tenant")
    assert house.il.runs().items == ()


@both
def test_a_run_that_was_cancelled_is_noticed_inside_the_block(house: House, kind: str) -> None:
    def work(held: Any) -> None:
        house.il.cancel_run(held.now.run_id, reason="stop")
        until(lambda: held.lost)

    held = block(house, kind, work, ttl=1)
    assert held.lost
    assert house.il.workflow_run(held.now.run_id).state == "cancelled"


@both
def test_a_loss_between_the_last_renewal_and_the_end_is_noticed_at_the_end(house: House, kind: str) -> None:
    held = block(house, kind, lambda held: house.il.cancel_run(held.now.run_id) and None, ttl=600)
    assert held.lost


@both
def test_whoever_waited_in_line_for_longer_than_the_ttl_still_holds_the_slot(house: House, kind: str) -> None:
    house.il.set_limit("tenant", 1)
    first = house.il.start_run("w")

    def free() -> None:
        until(lambda: house.il.limits().waiting == 1)
        time.sleep(1.2)
        house.il.complete_run(first.run_id, first.fence)

    freeing = threading.Thread(target=free)
    freeing.start()
    lost: list[bool] = []
    held = block(house, kind, lambda held: lost.append(held.lost), ttl=1, wait=30)
    freeing.join()
    assert lost == [False]
    assert house.il.workflow_run(held.now.run_id).state == "succeeded"


def test_a_server_that_is_gone_means_lost_once_the_time_is_over(house: House, serve: Any) -> None:
    server = serve(house.il.store)
    body = {"kind": "agent", "roles": ["submit"]}
    key = house.il.call("POST", "principals", "bot", "keys", body=body)["key"]
    with Interlock(server.url, key=key, retry=NO_RETRIES) as remote, remote.admit("w", ttl=2) as held:
        assert not held.lost
        server.kill()
        until(lambda: held.lost)
    until(lambda: house.il.limits().running == 0)
    assert house.il.workflow_run(held.now.run_id).state == "lost"


def test_one_hold_can_be_entered_again(house: House) -> None:
    hold = house.il.admit("w", ttl=3)
    runs: list[str] = []
    for _ in range(2):
        with hold as held:
            first = held.now.slot_expires_at
            until(lambda: held.now.slot_expires_at != first)  # noqa: B023 - used within the turn
            runs.append(held.now.run_id)
    assert len(set(runs)) == 2


def test_a_named_start_is_one_run_however_often_it_is_asked_for(house: House) -> None:
    runs = [house.il.start_run("w", key="nightly-2030-01-01") for _ in range(3)]
    assert len({run.run_id for run in runs}) == 1
    assert house.il.limits().active == 1


@both
def test_a_named_block_is_not_entered_again_once_its_run_is_over(house: House, kind: str) -> None:
    block(house, kind, lambda held: None, key="nightly-2030-01-01")
    with pytest.raises(Conflict):
        block(house, kind, lambda held: pytest.fail("it was entered"), key="nightly-2030-01-01")


@both
def test_a_named_block_is_entered_again_while_its_run_goes_on(house: House, kind: str) -> None:
    left = house.il.start_run("w", key="nightly-2030-01-01")  # by a process that died since
    held = block(house, kind, lambda held: None, key="nightly-2030-01-01")
    assert held.run_id == left.run_id
    assert house.il.workflow_run(left.run_id).state == "succeeded"


def test_the_operations_speak_of_runs_and_limits(house: House) -> None:
    assert house.il.set_limit("w", 3).max_concurrent_runs == 3
    run = house.il.start_run("w", input={"n": 1}, ttl_seconds=30)
    assert house.il.renew_run(run.run_id, run.fence).state == "running"
    assert [each.run_id for each in house.il.runs(state="running", workflow="w").items] == [run.run_id]
    assert house.il.complete_run(run.run_id, run.fence, result={"ok": True}).result == {"ok": True}
    with pytest.raises(Conflict) as over:
        house.il.fail_run(run.run_id, run.fence)
    assert over.value.code == "not_actionable"
    assert [(each.scope, each.active) for each in house.il.limits().items] == [("tenant", 0), ("w", 0)]
