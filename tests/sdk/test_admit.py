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
from tests.sdk.approval_team import ApprovalTeam

HANG_SECONDS = 30


def block(team: ApprovalTeam, kind: str, inside: Callable[[Any], None], **options: Any) -> Any:
    """Run `inside` in a block of either kind; returns what was held."""
    if kind == "blocking":
        with team.il.admit("w", **options) as held:
            inside(held)
        return held

    async def run() -> Any:
        async with team.ail.admit("w", **options) as held:
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
def test_the_block_holds_a_running_run_and_completes_it(team: ApprovalTeam, kind: str) -> None:
    seen: list[str] = []
    held = block(team, kind, lambda held: seen.append(team.il.get_run(held.now.run_id).state))
    assert seen == ["running"]
    assert team.il.get_run(held.now.run_id).state == "succeeded"
    assert held.fence == held.now.fence
    assert not held.lost
    assert team.il.limits().active == 0


@both
def test_what_is_held_can_be_asked_for_its_fields(team: ApprovalTeam, kind: str) -> None:
    held = block(team, kind, lambda held: None)
    assert held.run_id == held.now.run_id
    assert held.slot_expires_at == held.now.slot_expires_at
    with pytest.raises(AttributeError, match="no_such_field"):
        held.no_such_field  # noqa: B018 - the asking is what is tested


def test_stats_tell_full_from_admitted(team: ApprovalTeam) -> None:
    team.il.set_limit("nightly", 1)
    team.il.start_run("nightly")
    with pytest.raises(Full):
        team.il.start_run("nightly")
    stats = team.il.get_admission_stats(window="10m")
    assert (stats.admitted, stats.unavailable_503) == (1, 0)
    assert stats.full_429 >= 1
    assert [row.workflow for row in stats.workflows] == ["nightly"]


@both
def test_a_block_that_raises_fails_its_run_and_raises_on(team: ApprovalTeam, kind: str) -> None:
    def burn(held: Any) -> None:
        raise ZeroDivisionError("secret detail")

    with pytest.raises(ZeroDivisionError):
        block(team, kind, burn)
    (run,) = team.il.runs().items
    assert (run.state, run.error) == ("failed", "ZeroDivisionError")


@both
def test_the_slot_is_renewed_for_as_long_as_the_block_takes(team: ApprovalTeam, kind: str) -> None:
    def work(held: Any) -> None:
        first = held.now.slot_expires_at
        until(lambda: held.now.slot_expires_at > first)
        until(lambda: (team.il.get_run(held.now.run_id).ended_at or 0) == 0 and not held.lost)

    held = block(team, kind, work, ttl=3)
    assert team.il.get_run(held.now.run_id).state == "succeeded"


@both
def test_no_room_raises_full_and_runs_nothing(team: ApprovalTeam, kind: str) -> None:
    team.il.set_limit("tenant", 0)
    client = team.il if kind == "blocking" else team.ail
    client.session.retry = NO_RETRIES
    with pytest.raises(Full) as full:
        block(team, kind, lambda held: pytest.fail("it ran"))
    assert (full.value.problem.fields["limit"], full.value.problem.fields["scope"]) == (0, "tenant")
    assert team.il.runs().items == ()


@both
def test_a_run_that_was_cancelled_is_noticed_inside_the_block(team: ApprovalTeam, kind: str) -> None:
    def work(held: Any) -> None:
        team.il.cancel_run(held.now.run_id, reason="stop")
        until(lambda: held.lost)

    held = block(team, kind, work, ttl=1)
    assert held.lost
    assert team.il.get_run(held.now.run_id).state == "cancelled"


@both
def test_a_loss_between_the_last_renewal_and_the_end_is_noticed_at_the_end(
    team: ApprovalTeam, kind: str
) -> None:
    held = block(team, kind, lambda held: team.il.cancel_run(held.now.run_id) and None, ttl=600)
    assert held.lost


@both
def test_whoever_waited_in_line_for_longer_than_the_ttl_still_holds_the_slot(
    team: ApprovalTeam, kind: str
) -> None:
    team.il.set_limit("tenant", 1)
    first = team.il.start_run("w")

    def free() -> None:
        until(lambda: team.il.limits().waiting == 1)
        time.sleep(1.2)
        team.il.complete_run(first.run_id, first.fence)

    freeing = threading.Thread(target=free)
    freeing.start()
    lost: list[bool] = []
    held = block(team, kind, lambda held: lost.append(held.lost), ttl=1, wait=30)
    freeing.join()
    assert lost == [False]
    assert team.il.get_run(held.now.run_id).state == "succeeded"


def test_a_server_that_is_gone_means_lost_once_the_time_is_over(team: ApprovalTeam, serve: Any) -> None:
    server = serve(team.il.store)
    body = {"kind": "agent", "roles": ["submit"]}
    key = team.il.call("POST", "principals", "bot", "keys", body=body)["key"]
    with Interlock(server.url, key=key, retry=NO_RETRIES) as remote, remote.admit("w", ttl=2) as held:
        assert not held.lost
        server.kill()
        until(lambda: held.lost)
    until(lambda: team.il.limits().running == 0)
    assert team.il.get_run(held.now.run_id).state == "lost"


def test_one_hold_can_be_entered_again(team: ApprovalTeam) -> None:
    hold = team.il.admit("w", ttl=3)
    runs: list[str] = []
    for _ in range(2):
        with hold as held:
            first = held.now.slot_expires_at
            until(lambda: held.now.slot_expires_at != first)  # noqa: B023 - used within the turn
            runs.append(held.now.run_id)
    assert len(set(runs)) == 2


def test_a_named_start_is_one_run_however_often_it_is_asked_for(team: ApprovalTeam) -> None:
    runs = [team.il.start_run("w", key="nightly-2030-01-01") for _ in range(3)]
    assert len({run.run_id for run in runs}) == 1
    assert team.il.limits().active == 1


@both
def test_a_named_block_is_not_entered_again_once_its_run_is_over(team: ApprovalTeam, kind: str) -> None:
    block(team, kind, lambda held: None, key="nightly-2030-01-01")
    with pytest.raises(Conflict):
        block(team, kind, lambda held: pytest.fail("it was entered"), key="nightly-2030-01-01")


@both
def test_a_named_block_is_entered_again_while_its_run_goes_on(team: ApprovalTeam, kind: str) -> None:
    left = team.il.start_run("w", key="nightly-2030-01-01")  # by a process that died since
    held = block(team, kind, lambda held: None, key="nightly-2030-01-01")
    assert held.run_id == left.run_id
    assert team.il.get_run(left.run_id).state == "succeeded"


def test_the_operations_speak_of_runs_and_limits(team: ApprovalTeam) -> None:
    assert team.il.set_limit("w", 3).max_concurrent_runs == 3
    run = team.il.start_run("w", input={"n": 1}, ttl_seconds=30)
    assert team.il.renew_run(run.run_id, run.fence).state == "running"
    assert [each.run_id for each in team.il.runs(state="running", workflow="w").items] == [run.run_id]
    assert team.il.complete_run(run.run_id, run.fence, result={"ok": True}).result == {"ok": True}
    with pytest.raises(Conflict) as over:
        team.il.fail_run(run.run_id, run.fence)
    assert over.value.code == "not_actionable"
    assert [(each.scope, each.active) for each in team.il.limits().items] == [("tenant", 0), ("w", 0)]
