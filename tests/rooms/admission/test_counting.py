"""Every run counts at its workflow's gate as at the tenant's; who may end runs and set limits, and what is told."""

from __future__ import annotations

import pytest

from interlock.rooms.admission.rules import EndRun
from interlock.rooms.identity.refusals import NotFound
from tests.rooms.admission.admission_client import AdmissionClient


async def test_a_workflow_admits_as_many_as_its_limit_says_and_no_more(client: AdmissionClient) -> None:
    await client.limit(3, "a")
    runs = [await client.start("a") for _ in range(3)]
    full = await client.ask("a")
    assert (full.status, full.document["active"], full.document["scope"]) == (429, 3, "a")
    assert (await client.gate("a")).active == 3

    await client.end(runs[0])

    await client.start("a")
    assert (await client.ask("a")).status == 429


async def test_an_ended_run_is_ended_again_only_by_its_own_fence(client: AdmissionClient) -> None:
    first, second = await client.start(), await client.start()
    await client.end(first)
    assert (await client.end(first)).status == 200
    late = await client.end({**first, "fence": second["fence"]})
    assert (late.status, late.word) == (409, "fence_stale")


async def test_a_run_is_not_found_under_another_workflow(client: AdmissionClient) -> None:
    run = await client.start("a")
    end = EndRun(
        caller=client.caller, run_id=run["run_id"], workflow="b", verb="complete", fence=run["fence"]
    )
    with pytest.raises(NotFound):
        await client.api.service.kernel.run(end)
    assert ((await client.gate("a")).active, (await client.gate("b")).active) == (1, 0)


@pytest.mark.parametrize(
    ("role", "status"), [("operate", 200), ("admin", 200), ("audit", 403), ("review", 403), ("submit", 403)]
)
async def test_whoever_runs_the_service_sets_and_clears_limits(
    client: AdmissionClient, role: str, status: int
) -> None:
    key = await client.api.person("ada", role)
    await client.limit(9, "a")
    answers = [
        await client.api.call("PUT", "limits/tenant", key, {"max_concurrent_runs": 7}),
        await client.api.call("DELETE", "limits/a", key),
    ]
    assert [seen.status for seen in answers] == [status] * 2


async def test_a_limit_that_is_set_or_cleared_is_audited(client: AdmissionClient) -> None:
    await client.limit(2, "a")
    await client.api.call("DELETE", "limits/a", client.api.admin)
    assert [action for action, _ in await client.api.audit("a")] == ["limit_set", "limit_clear"]


async def test_a_run_keeps_what_it_was_given(client: AdmissionClient) -> None:
    run = await client.start(input={"month": 3})
    assert (await client.api.get(f"workflow-runs/{run['run_id']}"))["input"] == {"month": 3}
