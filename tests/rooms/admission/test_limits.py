"""Who may have how many."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.admission.admission_client import AdmissionClient


async def test_ten_starts_at_a_limit_of_two_are_two_runs(client: AdmissionClient) -> None:
    await client.limit(2)
    seen = await asyncio.gather(*(client.ask() for _ in range(10)))
    assert sorted(each.status for each in seen) == [201] * 2 + [429] * 8
    assert await client.counts() == (2, 2)


async def test_a_tenant_without_a_limit_of_its_own_has_ten(client: AdmissionClient) -> None:
    seen = await asyncio.gather(*(client.ask() for _ in range(12)))
    assert sum(each.status == 201 for each in seen) == 10


async def test_tenant_and_workflow_must_both_have_room(client: AdmissionClient) -> None:
    await client.limit(3)
    await client.limit(1, "a")
    await client.start("a")
    full = await client.ask("a")
    assert (full.status, full.document["scope"], full.document["limit"]) == (429, "a", 1)
    await client.start("b")
    await client.start("b")
    full = await client.ask("b")
    assert (full.document["scope"], full.document["active"], full.document["limit"]) == ("tenant", 3, 3)


async def test_a_workflow_called_tenant_cannot_pose_as_the_tenant(client: AdmissionClient) -> None:
    await client.limit(2)
    await client.start("tenant")
    await client.start("w")
    assert (await client.gate()).active == 2
    assert (await client.gate("tenant")).active == 1


async def test_lowering_a_limit_ends_no_run_and_stops_new_ones(client: AdmissionClient) -> None:
    await client.limit(3)
    runs = [await client.start() for _ in range(3)]
    await client.limit(1)
    assert (await client.end(runs[0], "renew")).status == 200
    for run in runs[:2]:
        assert (await client.ask()).status == 429
        assert (await client.end(run)).status == 200
    assert (await client.ask()).status == 429
    await client.end(runs[2])
    await client.start()


async def test_a_limit_of_zero_admits_nobody_and_does_not_call_them_back_soon(
    client: AdmissionClient,
) -> None:
    await client.limit(0)
    full = await client.ask()
    assert (full.status, full.document["limit"], full.document["active"]) == (429, 0, 0)
    assert full.document["retry_after_ms"] >= 60_000
    entry = (await client.api.get("audit?subject=tenant"))["items"][0]
    assert entry["details"] == {"max_concurrent_runs": 0}


async def test_raising_a_limit_lets_as_many_more_in(client: AdmissionClient) -> None:
    await client.limit(0)
    waiting = [asyncio.create_task(client.ask(wait_seconds=60)) for _ in range(5)]
    while len(await client.line()) < 5:
        await asyncio.sleep(0.01)
    await client.limit(3)
    done, still = await asyncio.wait(waiting, timeout=1.0)
    assert [task.result().status for task in done] == [201] * 3
    for task in still:
        task.cancel()
    await asyncio.gather(*still, return_exceptions=True)


async def test_limits_show_what_they_count(client: AdmissionClient) -> None:
    await client.limit(4, "a")
    await client.start("a")
    await client.start("b")
    shown = await client.api.get("limits")
    assert [(each["scope"], each["max_concurrent_runs"], each["active"]) for each in shown["items"]] == [
        ("tenant", 10, 2),
        ("a", 4, 1),
    ]
    assert (shown["active"], shown["running"], shown["waiting"]) == (2, 2, 0)


async def test_only_an_operator_sets_limits(client: AdmissionClient) -> None:
    seen = await client.api.call("PUT", "limits/tenant", client.bot, {"max_concurrent_runs": 9})
    assert (seen.status, seen.word) == (403, "forbidden")


@pytest.mark.parametrize("scope", ["a%20b", "x" * 201, "%C3%A9"])
async def test_a_scope_or_workflow_is_a_plain_name(client: AdmissionClient, scope: str) -> None:
    limited = await client.api.call("PUT", f"limits/{scope}", client.api.admin, {"max_concurrent_runs": 1})
    assert (limited.status, limited.word) == (400, "invalid_request")
    assert (await client.ask(scope)).status == 400


async def test_another_tenants_runs_take_no_room(client: AdmissionClient) -> None:
    await client.limit(1)
    other = await client.api.agent("bot", tenant="other")
    seen = await client.api.call("POST", "workflows/w/runs", other, {})
    assert seen.status == 201
    run = await client.start()
    hidden = await client.api.call(
        "POST", f"workflow-runs/{run['run_id']}/complete", other, {"fence": run["fence"]}
    )
    assert (hidden.status, hidden.word) == (404, "not_found")


async def test_a_limit_that_is_cleared_leaves_the_tenants_own(client: AdmissionClient) -> None:
    await client.limit(0, "a")
    await client.limit(1)
    for scope, left in (("a", 201), ("tenant", 201)):
        cleared = await client.api.call("DELETE", f"limits/{scope}", client.api.admin)
        assert (cleared.status, cleared.document) == (200, {"scope": scope, "cleared": True})
        assert (await client.ask("a")).status == left
    again = await client.api.call("DELETE", "limits/a", client.api.admin)
    assert again.document == {"scope": "a", "cleared": False}
    assert [each["scope"] for each in (await client.api.get("limits"))["items"]] == ["tenant"]
