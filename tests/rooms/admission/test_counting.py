"""Every run counts at its workflow's gate as at the tenant's; who may end runs and set limits, and what is told."""

from __future__ import annotations

import pytest

from interlock.rooms.admission.rules import EndRun
from interlock.rooms.identity.refusals import NotFound
from tests.rooms.admission.admission_client import Hall


async def test_a_workflow_admits_as_many_as_its_limit_says_and_no_more(hall: Hall) -> None:
    await hall.limit(3, "a")
    runs = [await hall.start("a") for _ in range(3)]
    full = await hall.ask("a")
    assert (full.status, full.document["active"], full.document["scope"]) == (429, 3, "a")
    assert (await hall.gate("a")).active == 3

    await hall.end(runs[0])

    await hall.start("a")
    assert (await hall.ask("a")).status == 429


async def test_an_ended_run_is_ended_again_only_by_its_own_fence(hall: Hall) -> None:
    first, second = await hall.start(), await hall.start()
    await hall.end(first)
    assert (await hall.end(first)).status == 200
    late = await hall.end({**first, "fence": second["fence"]})
    assert (late.status, late.word) == (409, "fence_stale")


async def test_a_run_is_not_found_under_another_workflow(hall: Hall) -> None:
    run = await hall.start("a")
    end = EndRun(caller=hall.caller, run_id=run["run_id"], workflow="b", verb="complete", fence=run["fence"])
    with pytest.raises(NotFound):
        await hall.stage.service.kernel.run(end)
    assert ((await hall.gate("a")).active, (await hall.gate("b")).active) == (1, 0)


@pytest.mark.parametrize(
    ("role", "status"), [("operate", 200), ("admin", 200), ("audit", 403), ("review", 403), ("submit", 403)]
)
async def test_whoever_runs_the_service_sets_and_clears_limits(hall: Hall, role: str, status: int) -> None:
    key = await hall.stage.person("ada", role)
    await hall.limit(9, "a")
    answers = [
        await hall.stage.call("PUT", "limits/tenant", key, {"max_concurrent_runs": 7}),
        await hall.stage.call("DELETE", "limits/a", key),
    ]
    assert [seen.status for seen in answers] == [status] * 2


async def test_a_limit_that_is_set_or_cleared_is_audited(hall: Hall) -> None:
    await hall.limit(2, "a")
    await hall.stage.call("DELETE", "limits/a", hall.stage.admin)
    assert [action for action, _ in await hall.stage.audit("a")] == ["limit_set", "limit_clear"]


async def test_a_run_keeps_what_it_was_given(hall: Hall) -> None:
    run = await hall.start(input={"month": 3})
    assert (await hall.stage.get(f"workflow-runs/{run['run_id']}"))["input"] == {"month": 3}
