"""Workflows over the API: steps are jobs behind the same gate, in the order of what they depend on."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.store.urls import store_for
from tests.harness.in_process_api import InProcessApi, open_api

ALLOW = "version: v1\ndefault: allow\n"
STEPS = [
    {"id": "draft", "topic": "report.draft"},
    {"id": "agree", "kind": "approval", "depends_on": ["draft"]},
    {"id": "send", "topic": "report.send", "depends_on": ["agree", "draft"]},
]


async def set_up(api: InProcessApi, steps: list[dict[str, Any]] = STEPS, policy: str = ALLOW) -> str:
    """A workflow and a run of it; returns the run's id."""
    await api.policy(policy)
    defined = await api.call("PUT", "workflows/report", api.admin, {"steps": steps})
    assert defined.status == 200, defined.document
    started = await api.call("POST", "workflows/report/runs", api.admin, {"input": {"month": 3}})
    assert started.status == 201, started.document
    await api.service.workflows.advance_all()
    return started.document["run_id"]


async def work(api: InProcessApi, *, fail: bool = False) -> dict[str, Any]:
    """Claim the one job there is and end it; returns the job."""
    worker = await api.key("worker", "worker", "work")
    claimed = await api.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    (job,) = claimed.document["jobs"]
    verb, body = ("fail", {"error": "no", "retryable": False}) if fail else ("complete", {"result": "done"})
    ended = await api.call("POST", f"jobs/{job['id']}/{verb}", worker, {"fence": job["fence"], **body})
    assert ended.status == 200, ended.document
    await api.service.workflows.advance_all()
    return job


async def states(api: InProcessApi, run_id: str) -> dict[str, str]:
    run = await api.get(f"workflow-runs/{run_id}")
    return {"run": run["state"], **{step["id"]: step["state"] for step in run["steps"]}}


async def test_steps_run_in_the_order_of_what_they_depend_on(api: InProcessApi) -> None:
    run_id = await set_up(api)
    assert (await work(api))["payload"]["input"] == {"month": 3}
    assert await states(api, run_id) == {
        "run": "running", "draft": "succeeded", "agree": "running", "send": "waiting",
    }  # fmt: skip
    ada = await api.person("ada")
    agreed = await api.call("POST", f"workflow-runs/{run_id}/steps/agree/approve", ada, {})
    assert agreed.word == "approved"
    await api.service.workflows.advance_all()
    assert (await work(api))["payload"]["results"] == {"agree": None, "draft": "done"}
    assert (await states(api, run_id))["run"] == "succeeded"


async def test_no_worker_gets_an_approval_step(api: InProcessApi) -> None:
    run_id = await set_up(api)
    await work(api)
    ada = await api.person("ada")
    await api.call("POST", f"workflow-runs/{run_id}/steps/agree/approve", ada, {})
    worker = await api.key("worker", "worker", "work")
    claimed = await api.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    assert claimed.document["jobs"] == []


async def asked(api: InProcessApi) -> tuple[str, str, str]:
    """A run that an agent started and that waits for people: the run, the question and the agent's key."""
    bot = await api.agent()
    await api.policy(ALLOW)
    await api.call("PUT", "workflows/report", api.admin, {"steps": STEPS})
    run_id = (await api.call("POST", "workflows/report/runs", bot, {})).document["run_id"]
    await api.service.workflows.advance_all()
    await work(api)
    (question,) = (await api.get("approvals?state=pending"))["items"]
    return run_id, question["id"], bot


@pytest.mark.parametrize("policy", [ALLOW, "version: v1\nmode: observe\n", "version: v1\ndefault: deny\n"])
async def test_a_refresh_asks_the_same_people_again_whatever_the_policy_would_allow(
    api: InProcessApi, policy: str
) -> None:
    run_id, question, bot = await asked(api)
    ada = await api.person("ada")
    before = await api.job(question)
    await api.policy(policy)

    seen = await api.call("POST", f"approvals/{question}/refresh", bot, {})
    await api.service.workflows.advance_all()

    after = seen.document
    assert (seen.status, after["state"], after["approval"]["round"]) == (200, "APPROVAL", 2)
    for kept in ("rule", "quorum", "groups", "binding", "expires_at"):
        assert after["approval"][kept] == before["approval"][kept]
    assert (await states(api, run_id))["agree"] == "running"
    assert (await api.approve(question, ada)).word == "approved"
    await api.service.workflows.advance_all()
    assert (await states(api, run_id))["agree"] == "succeeded"


async def test_what_a_question_shows_cannot_be_edited(api: InProcessApi) -> None:
    _, question, bot = await asked(api)
    before = await api.job(question)

    for key in (bot, await api.person("ada")):
        seen = await api.call(
            "POST", f"approvals/{question}/edit", key, {"payload": {"all": "well"}, "reason": "nicer"}
        )
        assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "APPROVAL")
    assert await api.job(question) == before


async def test_a_failed_step_fails_the_run_and_skips_the_rest_and_frees_the_slot(api: InProcessApi) -> None:
    run_id = await set_up(api)
    await api.call("PUT", "limits/tenant", api.admin, {"max_concurrent_runs": 1})
    await work(api, fail=True)
    assert await states(api, run_id) == {
        "run": "failed", "draft": "failed", "agree": "skipped", "send": "skipped",
    }  # fmt: skip
    again = await api.call("POST", "workflows/report/runs", api.admin, {})
    assert again.status == 201


@pytest.mark.parametrize(("attempts", "after"), [(1, "failed"), (2, "running")])
async def test_a_step_is_tried_as_often_as_it_says(api: InProcessApi, attempts: int, after: str) -> None:
    run_id = await set_up(
        api, [{"id": "draft", "topic": "report.draft", "retry": {"max_attempts": attempts}}]
    )
    worker = await api.key("worker", "worker", "work")
    claimed = await api.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    (job,) = claimed.document["jobs"]
    body = {"fence": job["fence"], "error": "try again", "retryable": True}
    assert (await api.call("POST", f"jobs/{job['id']}/fail", worker, body)).status == 200
    await api.service.workflows.advance_all()
    assert await states(api, run_id) == {"run": after, "draft": after}


async def test_a_rejected_step_fails_the_run(api: InProcessApi) -> None:
    run_id = await set_up(api)
    await work(api)
    ada = await api.person("ada")
    run = await api.get(f"workflow-runs/{run_id}")
    job_id = next(step["job_id"] for step in run["steps"] if step["id"] == "agree")
    assert (await api.call("POST", f"approvals/{job_id}/reject", ada, {"reason": "no"})).word == "rejected"
    await api.service.workflows.advance_all()
    assert (await states(api, run_id))["run"] == "failed"


async def test_the_policy_may_deny_a_step(api: InProcessApi) -> None:
    run_id = await set_up(api, policy="version: v1\ndefault: deny\n")
    seen = await states(api, run_id)
    assert (seen["run"], seen["draft"]) == ("failed", "failed")


async def test_a_changed_policy_does_not_undo_a_question_that_the_workflow_asks(api: InProcessApi) -> None:
    run_id = await set_up(api)
    await work(api)
    await api.policy("version: v1\ndefault: allow\nrules: [{id: x, when: {topic: y}, decision: deny}]\n")
    ada = await api.person("ada")
    agreed = await api.call("POST", f"workflow-runs/{run_id}/steps/agree/approve", ada, {})
    assert agreed.word == "approved"


async def test_a_step_that_takes_too_long_fails(api: InProcessApi) -> None:
    run_id = await set_up(api, [{"id": "slow", "topic": "t", "timeout_seconds": 30}])
    api.clock.advance(31)
    await api.service.workflows.advance_all()
    assert await states(api, run_id) == {"run": "failed", "slow": "failed"}


async def test_a_cancelled_run_takes_its_waiting_jobs_with_it(api: InProcessApi) -> None:
    run_id = await set_up(api)
    assert (await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})).status == 200
    await api.service.workflows.advance_all()
    assert await states(api, run_id) == {
        "run": "cancelled", "draft": "cancelled", "agree": "skipped", "send": "skipped",
    }  # fmt: skip
    assert (await api.get("jobs?state=CANCELLED"))["items"]


async def test_a_rerun_keeps_earlier_results_and_repeats_the_rest(api: InProcessApi) -> None:
    run_id = await set_up(
        api, [{"id": "a", "topic": "t.a"}, {"id": "b", "topic": "t.b", "depends_on": ["a"]}]
    )
    await work(api)
    await work(api, fail=True)
    again = await api.call("POST", f"workflow-runs/{run_id}/rerun", api.admin, {"from_step": "b"})
    assert again.status == 201
    await api.service.workflows.advance_all()
    assert (await work(api))["topic"] == "t.b"
    assert await states(api, again.document["run_id"]) == {
        "run": "succeeded",
        "a": "succeeded",
        "b": "succeeded",
    }


@pytest.mark.parametrize("step", ["nope", "b"])
async def test_a_rerun_from_nowhere_is_refused(api: InProcessApi, step: str) -> None:
    run_id = await set_up(
        api, [{"id": "a", "topic": "t.a"}, {"id": "b", "topic": "t.b", "depends_on": ["a"]}]
    )
    await work(api, fail=True)
    again = await api.call("POST", f"workflow-runs/{run_id}/rerun", api.admin, {"from_step": step})
    assert (again.status, again.word, again.document["state"]) == (409, "not_actionable", "failed")


async def test_a_run_that_was_cancelled_just_now_can_be_forgotten_and_leaves_no_job_behind(
    api: InProcessApi,
) -> None:
    run_id = await set_up(api)
    early = await api.call("DELETE", f"workflow-runs/{run_id}", api.admin)
    assert (early.status, early.word, early.document["state"]) == (409, "not_actionable", "running")
    await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})

    gone = await api.call("DELETE", f"workflow-runs/{run_id}", api.admin)

    assert (gone.status, gone.document["run_id"], gone.document["state"]) == (200, run_id, "cancelled")
    for method in ("GET", "DELETE"):
        assert (await api.call(method, f"workflow-runs/{run_id}", api.admin)).status == 404
    assert (await api.get("workflow-runs"))["items"] == []
    assert [job["state"] for job in (await api.get("jobs"))["items"]] == ["CANCELLED"]
    assert (await api.get("limits"))["active"] == 0
    assert "run_delete" in [entry["action"] for entry in (await api.get(f"audit?subject={run_id}"))["items"]]


async def test_only_an_operator_forgets_a_run(api: InProcessApi) -> None:
    run_id = await set_up(api)
    await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})
    refused = await api.call("DELETE", f"workflow-runs/{run_id}", await api.agent())
    assert (refused.status, refused.word) == (403, "forbidden")


async def test_the_audit_says_of_a_cancelled_run_that_it_was_cancelled_and_not_that_it_failed(
    api: InProcessApi,
) -> None:
    run_id = await set_up(api)
    await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})
    await api.service.workflows.advance_all()
    said = [entry["action"] for entry in (await api.get(f"audit?subject={run_id}"))["items"]]
    assert said == ["run_cancel", "run_start"]


async def test_a_workflow_is_shown_as_it_can_be_sent_again(api: InProcessApi) -> None:
    steps = [*STEPS, {"id": "last", "topic": "t.last", "retry": {"max_attempts": 7}, "timeout_seconds": 5}]
    first = (await api.call("PUT", "workflows/w", api.admin, {"steps": steps})).document["steps"]
    again = await api.call("PUT", "workflows/w", api.admin, {"steps": first})
    assert (again.status, again.document["steps"]) == (200, first)
    assert (first[3]["retry"], first[0]["kind"]) == ({"max_attempts": 7}, "worker")


async def test_the_timeline_tells_it_in_order(api: InProcessApi) -> None:
    run_id = await set_up(api, [{"id": "a", "topic": "t.a"}])
    await work(api)
    told = [entry["action"] for entry in (await api.get(f"workflow-runs/{run_id}/timeline"))["items"]]
    assert told == ["run_start", "submit", "claim", "complete", "run_succeeded"]


async def test_changing_a_workflow_leaves_runs_under_way_alone(api: InProcessApi) -> None:
    run_id = await set_up(api, [{"id": "a", "topic": "t.a"}])
    await api.call("PUT", "workflows/report", api.admin, {"steps": [{"id": "z", "topic": "t.z"}]})
    assert (await api.call("DELETE", "workflows/report", api.admin)).status == 200
    assert (await api.call("GET", "workflows/report", api.admin)).status == 404
    await work(api)
    assert await states(api, run_id) == {"run": "succeeded", "a": "succeeded"}


async def test_advancing_again_changes_nothing(api: InProcessApi) -> None:
    run_id = await set_up(api)
    before = await api.get(f"workflow-runs/{run_id}")
    for _ in range(5):
        await api.service.workflows.advance_all()
    assert await api.get(f"workflow-runs/{run_id}") == before
    assert len((await api.get("jobs"))["items"]) == 1


async def test_two_servers_advancing_one_run_start_each_step_once(postgres_url: str) -> None:
    async with open_api(store_for(postgres_url)) as api, open_api(store_for(postgres_url)) as other:
        await set_up(api, [{"id": f"s{n}", "topic": "t.s"} for n in range(20)])
        for _ in range(3):
            await api.service.workflows.advance_all()
            await other.service.workflows.advance_all()
        assert len((await api.get("jobs"))["items"]) == 20
