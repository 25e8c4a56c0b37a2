"""Who may have how many."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.admission.admission_client import Hall


async def test_ten_starts_at_a_limit_of_two_are_two_runs(hall: Hall) -> None:
    await hall.limit(2)
    seen = await asyncio.gather(*(hall.ask() for _ in range(10)))
    assert sorted(each.status for each in seen) == [201] * 2 + [429] * 8
    assert await hall.counts() == (2, 2)


async def test_a_tenant_without_a_limit_of_its_own_has_ten(hall: Hall) -> None:
    seen = await asyncio.gather(*(hall.ask() for _ in range(12)))
    assert sum(each.status == 201 for each in seen) == 10


async def test_tenant_and_workflow_must_both_have_room(hall: Hall) -> None:
    await hall.limit(3)
    await hall.limit(1, "a")
    await hall.start("a")
    full = await hall.ask("a")
    assert (full.status, full.document["scope"], full.document["limit"]) == (429, "a", 1)
    await hall.start("b")
    await hall.start("b")
    full = await hall.ask("b")
    assert (full.document["scope"], full.document["active"], full.document["limit"]) == ("tenant", 3, 3)


async def test_a_workflow_called_tenant_cannot_pose_as_the_tenant(hall: Hall) -> None:
    await hall.limit(2)
    await hall.start("tenant")
    await hall.start("w")
    assert (await hall.gate()).active == 2
    assert (await hall.gate("tenant")).active == 1


async def test_lowering_a_limit_ends_no_run_and_stops_new_ones(hall: Hall) -> None:
    await hall.limit(3)
    runs = [await hall.start() for _ in range(3)]
    await hall.limit(1)
    assert (await hall.end(runs[0], "renew")).status == 200
    for run in runs[:2]:
        assert (await hall.ask()).status == 429
        assert (await hall.end(run)).status == 200
    assert (await hall.ask()).status == 429
    await hall.end(runs[2])
    await hall.start()


async def test_a_limit_of_zero_admits_nobody_and_does_not_call_them_back_soon(hall: Hall) -> None:
    await hall.limit(0)
    full = await hall.ask()
    assert (full.status, full.document["limit"], full.document["active"]) == (429, 0, 0)
    assert full.document["retry_after_ms"] >= 60_000
    entry = (await hall.stage.get("audit?subject=tenant"))["items"][0]
    assert entry["details"] == {"max_concurrent_runs": 0}


async def test_raising_a_limit_lets_as_many_more_in(hall: Hall) -> None:
    await hall.limit(0)
    waiting = [asyncio.create_task(hall.ask(wait_seconds=60)) for _ in range(5)]
    while len(await hall.line()) < 5:
        await asyncio.sleep(0.01)
    await hall.limit(3)
    done, still = await asyncio.wait(waiting, timeout=1.0)
    assert [task.result().status for task in done] == [201] * 3
    for task in still:
        task.cancel()
    await asyncio.gather(*still, return_exceptions=True)


async def test_limits_show_what_they_count(hall: Hall) -> None:
    await hall.limit(4, "a")
    await hall.start("a")
    await hall.start("b")
    shown = await hall.stage.get("limits")
    assert [(each["scope"], each["max_concurrent_runs"], each["active"]) for each in shown["items"]] == [
        ("tenant", 10, 2),
        ("a", 4, 1),
    ]
    assert (shown["active"], shown["running"], shown["waiting"]) == (2, 2, 0)


async def test_only_an_operator_sets_limits(hall: Hall) -> None:
    seen = await hall.stage.call("PUT", "limits/tenant", hall.bot, {"max_concurrent_runs": 9})
    assert (seen.status, seen.word) == (403, "forbidden")


@pytest.mark.parametrize("scope", ["a%20b", "x" * 201, "%C3%A9"])
async def test_a_scope_or_workflow_is_a_plain_name(hall: Hall, scope: str) -> None:
    limited = await hall.stage.call("PUT", f"limits/{scope}", hall.stage.admin, {"max_concurrent_runs": 1})
    assert (limited.status, limited.word) == (400, "invalid_request")
    assert (await hall.ask(scope)).status == 400


async def test_another_tenants_runs_take_no_room(hall: Hall) -> None:
    await hall.limit(1)
    other = await hall.stage.agent("bot", tenant="other")
    seen = await hall.stage.call("POST", "workflows/w/runs", other, {})
    assert seen.status == 201
    run = await hall.start()
    hidden = await hall.stage.call(
        "POST", f"workflow-runs/{run['run_id']}/complete", other, {"fence": run["fence"]}
    )
    assert (hidden.status, hidden.word) == (404, "not_found")


async def test_a_limit_that_is_cleared_leaves_the_tenants_own(hall: Hall) -> None:
    await hall.limit(0, "a")
    await hall.limit(1)
    for scope, left in (("a", 201), ("tenant", 201)):
        cleared = await hall.stage.call("DELETE", f"limits/{scope}", hall.stage.admin)
        assert (cleared.status, cleared.document) == (200, {"scope": scope, "cleared": True})
        assert (await hall.ask("a")).status == left
    again = await hall.stage.call("DELETE", "limits/a", hall.stage.admin)
    assert again.document == {"scope": "a", "cleared": False}
    assert [each["scope"] for each in (await hall.stage.get("limits"))["items"]] == ["tenant"]
