"""Workflows over the API: steps are jobs behind the same gate, in the order of what they depend on."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.store import store_for
from tests.harness.in_process_api import Stage, open_stage

ALLOW = "version: v1\ndefault: allow\n"
STEPS = [
    {"id": "draft", "topic": "report.draft"},
    {"id": "agree", "kind": "approval", "depends_on": ["draft"]},
    {"id": "send", "topic": "report.send", "depends_on": ["agree", "draft"]},
]


async def set_up(stage: Stage, steps: list[dict[str, Any]] = STEPS, policy: str = ALLOW) -> str:
    """A workflow and a run of it; returns the run's id."""
    await stage.policy(policy)
    defined = await stage.call("PUT", "workflows/report", stage.admin, {"steps": steps})
    assert defined.status == 200, defined.document
    started = await stage.call("POST", "workflows/report/runs", stage.admin, {"input": {"month": 3}})
    assert started.status == 201, started.document
    await stage.service.workflows.advance_all()
    return started.document["run_id"]


async def work(stage: Stage, *, fail: bool = False) -> dict[str, Any]:
    """Claim the one job there is and end it; returns the job."""
    worker = await stage.key("worker", "worker", "work")
    claimed = await stage.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    (job,) = claimed.document["jobs"]
    verb, body = ("fail", {"error": "no", "retryable": False}) if fail else ("complete", {"result": "done"})
    ended = await stage.call("POST", f"jobs/{job['id']}/{verb}", worker, {"fence": job["fence"], **body})
    assert ended.status == 200, ended.document
    await stage.service.workflows.advance_all()
    return job


async def states(stage: Stage, run_id: str) -> dict[str, str]:
    run = await stage.get(f"workflow-runs/{run_id}")
    return {"run": run["state"], **{step["id"]: step["state"] for step in run["steps"]}}


async def test_steps_run_in_the_order_of_what_they_depend_on(stage: Stage) -> None:
    run_id = await set_up(stage)
    assert (await work(stage))["payload"]["input"] == {"month": 3}
    assert await states(stage, run_id) == {
        "run": "running", "draft": "succeeded", "agree": "running", "send": "waiting",
    }  # fmt: skip
    ada = await stage.person("ada")
    agreed = await stage.call("POST", f"workflow-runs/{run_id}/steps/agree/approve", ada, {})
    assert agreed.word == "approved"
    await stage.service.workflows.advance_all()
    assert (await work(stage))["payload"]["results"] == {"agree": None, "draft": "done"}
    assert (await states(stage, run_id))["run"] == "succeeded"


async def test_no_worker_gets_an_approval_step(stage: Stage) -> None:
    run_id = await set_up(stage)
    await work(stage)
    ada = await stage.person("ada")
    await stage.call("POST", f"workflow-runs/{run_id}/steps/agree/approve", ada, {})
    worker = await stage.key("worker", "worker", "work")
    claimed = await stage.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    assert claimed.document["jobs"] == []


async def asked(stage: Stage) -> tuple[str, str, str]:
    """A run that an agent started and that waits for people: the run, the question and the agent's key."""
    bot = await stage.agent()
    await stage.policy(ALLOW)
    await stage.call("PUT", "workflows/report", stage.admin, {"steps": STEPS})
    run_id = (await stage.call("POST", "workflows/report/runs", bot, {})).document["run_id"]
    await stage.service.workflows.advance_all()
    await work(stage)
    (question,) = (await stage.get("approvals?state=pending"))["items"]
    return run_id, question["id"], bot


@pytest.mark.parametrize("policy", [ALLOW, "version: v1\nmode: observe\n", "version: v1\ndefault: deny\n"])
async def test_a_refresh_asks_the_same_people_again_whatever_the_policy_would_allow(
    stage: Stage, policy: str
) -> None:
    run_id, question, bot = await asked(stage)
    ada = await stage.person("ada")
    before = await stage.job(question)
    await stage.policy(policy)

    seen = await stage.call("POST", f"approvals/{question}/refresh", bot, {})
    await stage.service.workflows.advance_all()

    after = seen.document
    assert (seen.status, after["state"], after["approval"]["round"]) == (200, "APPROVAL", 2)
    for kept in ("rule", "quorum", "groups", "binding", "expires_at"):
        assert after["approval"][kept] == before["approval"][kept]
    assert (await states(stage, run_id))["agree"] == "running"
    assert (await stage.approve(question, ada)).word == "approved"
    await stage.service.workflows.advance_all()
    assert (await states(stage, run_id))["agree"] == "succeeded"


async def test_what_a_question_shows_cannot_be_edited(stage: Stage) -> None:
    _, question, bot = await asked(stage)
    before = await stage.job(question)

    for key in (bot, await stage.person("ada")):
        seen = await stage.call(
            "POST", f"approvals/{question}/edit", key, {"payload": {"all": "well"}, "reason": "nicer"}
        )
        assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "APPROVAL")
    assert await stage.job(question) == before


async def test_a_failed_step_fails_the_run_and_skips_the_rest_and_frees_the_slot(stage: Stage) -> None:
    run_id = await set_up(stage)
    await stage.call("PUT", "limits/tenant", stage.admin, {"max_concurrent_runs": 1})
    await work(stage, fail=True)
    assert await states(stage, run_id) == {
        "run": "failed", "draft": "failed", "agree": "skipped", "send": "skipped",
    }  # fmt: skip
    again = await stage.call("POST", "workflows/report/runs", stage.admin, {})
    assert again.status == 201


@pytest.mark.parametrize(("attempts", "after"), [(1, "failed"), (2, "running")])
async def test_a_step_is_tried_as_often_as_it_says(stage: Stage, attempts: int, after: str) -> None:
    run_id = await set_up(
        stage, [{"id": "draft", "topic": "report.draft", "retry": {"max_attempts": attempts}}]
    )
    worker = await stage.key("worker", "worker", "work")
    claimed = await stage.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    (job,) = claimed.document["jobs"]
    body = {"fence": job["fence"], "error": "try again", "retryable": True}
    assert (await stage.call("POST", f"jobs/{job['id']}/fail", worker, body)).status == 200
    await stage.service.workflows.advance_all()
    assert await states(stage, run_id) == {"run": after, "draft": after}


async def test_a_rejected_step_fails_the_run(stage: Stage) -> None:
    run_id = await set_up(stage)
    await work(stage)
    ada = await stage.person("ada")
    run = await stage.get(f"workflow-runs/{run_id}")
    job_id = next(step["job_id"] for step in run["steps"] if step["id"] == "agree")
    assert (await stage.call("POST", f"approvals/{job_id}/reject", ada, {"reason": "no"})).word == "rejected"
    await stage.service.workflows.advance_all()
    assert (await states(stage, run_id))["run"] == "failed"


async def test_the_policy_may_deny_a_step(stage: Stage) -> None:
    run_id = await set_up(stage, policy="version: v1\ndefault: deny\n")
    seen = await states(stage, run_id)
    assert (seen["run"], seen["draft"]) == ("failed", "failed")


async def test_a_changed_policy_does_not_undo_a_question_that_the_workflow_asks(stage: Stage) -> None:
    run_id = await set_up(stage)
    await work(stage)
    await stage.policy("version: v1\ndefault: allow\nrules: [{id: x, when: {topic: y}, decision: deny}]\n")
    ada = await stage.person("ada")
    agreed = await stage.call("POST", f"workflow-runs/{run_id}/steps/agree/approve", ada, {})
    assert agreed.word == "approved"


async def test_a_step_that_takes_too_long_fails(stage: Stage) -> None:
    run_id = await set_up(stage, [{"id": "slow", "topic": "t", "timeout_seconds": 30}])
    stage.clock.advance(31)
    await stage.service.workflows.advance_all()
    assert await states(stage, run_id) == {"run": "failed", "slow": "failed"}


async def test_a_cancelled_run_takes_its_waiting_jobs_with_it(stage: Stage) -> None:
    run_id = await set_up(stage)
    assert (await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})).status == 200
    await stage.service.workflows.advance_all()
    assert await states(stage, run_id) == {
        "run": "cancelled", "draft": "cancelled", "agree": "skipped", "send": "skipped",
    }  # fmt: skip
    assert (await stage.get("jobs?state=CANCELLED"))["items"]


async def test_a_rerun_keeps_earlier_results_and_repeats_the_rest(stage: Stage) -> None:
    run_id = await set_up(
        stage, [{"id": "a", "topic": "t.a"}, {"id": "b", "topic": "t.b", "depends_on": ["a"]}]
    )
    await work(stage)
    await work(stage, fail=True)
    again = await stage.call("POST", f"workflow-runs/{run_id}/rerun", stage.admin, {"from_step": "b"})
    assert again.status == 201
    await stage.service.workflows.advance_all()
    assert (await work(stage))["topic"] == "t.b"
    assert await states(stage, again.document["run_id"]) == {
        "run": "succeeded",
        "a": "succeeded",
        "b": "succeeded",
    }


@pytest.mark.parametrize("step", ["nope", "b"])
async def test_a_rerun_from_nowhere_is_refused(stage: Stage, step: str) -> None:
    run_id = await set_up(
        stage, [{"id": "a", "topic": "t.a"}, {"id": "b", "topic": "t.b", "depends_on": ["a"]}]
    )
    await work(stage, fail=True)
    again = await stage.call("POST", f"workflow-runs/{run_id}/rerun", stage.admin, {"from_step": step})
    assert (again.status, again.word, again.document["state"]) == (409, "not_actionable", "failed")


async def test_a_run_that_was_cancelled_just_now_can_be_forgotten_and_leaves_no_job_behind(
    stage: Stage,
) -> None:
    run_id = await set_up(stage)
    early = await stage.call("DELETE", f"workflow-runs/{run_id}", stage.admin)
    assert (early.status, early.word, early.document["state"]) == (409, "not_actionable", "running")
    await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})

    gone = await stage.call("DELETE", f"workflow-runs/{run_id}", stage.admin)

    assert (gone.status, gone.document["run_id"], gone.document["state"]) == (200, run_id, "cancelled")
    for method in ("GET", "DELETE"):
        assert (await stage.call(method, f"workflow-runs/{run_id}", stage.admin)).status == 404
    assert (await stage.get("workflow-runs"))["items"] == []
    assert [job["state"] for job in (await stage.get("jobs"))["items"]] == ["CANCELLED"]
    assert (await stage.get("limits"))["active"] == 0
    assert "run_delete" in [
        entry["action"] for entry in (await stage.get(f"audit?subject={run_id}"))["items"]
    ]


async def test_only_an_operator_forgets_a_run(stage: Stage) -> None:
    run_id = await set_up(stage)
    await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})
    refused = await stage.call("DELETE", f"workflow-runs/{run_id}", await stage.agent())
    assert (refused.status, refused.word) == (403, "forbidden")


async def test_the_audit_says_of_a_cancelled_run_that_it_was_cancelled_and_not_that_it_failed(
    stage: Stage,
) -> None:
    run_id = await set_up(stage)
    await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})
    await stage.service.workflows.advance_all()
    said = [entry["action"] for entry in (await stage.get(f"audit?subject={run_id}"))["items"]]
    assert said == ["run_cancel", "run_start"]


async def test_a_workflow_is_shown_as_it_can_be_sent_again(stage: Stage) -> None:
    steps = [*STEPS, {"id": "last", "topic": "t.last", "retry": {"max_attempts": 7}, "timeout_seconds": 5}]
    first = (await stage.call("PUT", "workflows/w", stage.admin, {"steps": steps})).document["steps"]
    again = await stage.call("PUT", "workflows/w", stage.admin, {"steps": first})
    assert (again.status, again.document["steps"]) == (200, first)
    assert (first[3]["retry"], first[0]["kind"]) == ({"max_attempts": 7}, "worker")


async def test_the_timeline_tells_it_in_order(stage: Stage) -> None:
    run_id = await set_up(stage, [{"id": "a", "topic": "t.a"}])
    await work(stage)
    told = [entry["action"] for entry in (await stage.get(f"workflow-runs/{run_id}/timeline"))["items"]]
    assert told == ["run_start", "submit", "claim", "complete", "run_succeeded"]


async def test_changing_a_workflow_leaves_runs_under_way_alone(stage: Stage) -> None:
    run_id = await set_up(stage, [{"id": "a", "topic": "t.a"}])
    await stage.call("PUT", "workflows/report", stage.admin, {"steps": [{"id": "z", "topic": "t.z"}]})
    assert (await stage.call("DELETE", "workflows/report", stage.admin)).status == 200
    assert (await stage.call("GET", "workflows/report", stage.admin)).status == 404
    await work(stage)
    assert await states(stage, run_id) == {"run": "succeeded", "a": "succeeded"}


async def test_advancing_again_changes_nothing(stage: Stage) -> None:
    run_id = await set_up(stage)
    before = await stage.get(f"workflow-runs/{run_id}")
    for _ in range(5):
        await stage.service.workflows.advance_all()
    assert await stage.get(f"workflow-runs/{run_id}") == before
    assert len((await stage.get("jobs"))["items"]) == 1


async def test_two_servers_advancing_one_run_start_each_step_once(postgres_url: str) -> None:
    async with open_stage(store_for(postgres_url)) as stage, open_stage(store_for(postgres_url)) as other:
        await set_up(stage, [{"id": f"s{n}", "topic": "t.s"} for n in range(20)])
        for _ in range(3):
            await stage.service.workflows.advance_all()
            await other.service.workflows.advance_all()
        assert len((await stage.get("jobs"))["items"]) == 20
