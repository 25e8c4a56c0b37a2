"""How runs with steps end: by their steps, together with them, and never behind people's backs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.refusal import LockBusy
from interlock.rooms.workflows.advance import AdvanceRun
from interlock.rooms.workflows.model import Step, StepRun, StepState
from interlock.rooms.workflows.rules import ready_steps
from interlock.store import store_for
from tests.api.workflows.test_workflows import ALLOW, STEPS, asked, set_up, states, work
from tests.harness.in_process_api import Stage, open_stage

TWO = [
    {"id": "draft", "topic": "report.draft"},
    {"id": "send", "topic": "report.send", "depends_on": ["draft"]},
]
# Whether it throttles hangs on what the step before gave, which is not known before that step is done.
THROTTLED = """
version: v1
default: allow
rules:
  - id: big
    when: {topic: report.send}
    if: payload.results.draft.rows > 100
    decision: throttle
    throttle: {rate: 1/h, burst: 1}
    then: allow
"""


async def claimed(stage: Stage) -> tuple[str, dict[str, Any]]:
    """A worker's key, and the one job it holds."""
    worker = await stage.key("worker", "worker", "work")
    seen = await stage.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    (job,) = seen.document["jobs"]
    return worker, job


async def end(stage: Stage, run_id: str, verb: str, key: str) -> Any:
    fence = (await stage.get(f"workflow-runs/{run_id}", key)).get("fence", 1)
    return await stage.call("POST", f"workflow-runs/{run_id}/{verb}", key, {"fence": fence})


async def test_who_started_a_run_cannot_call_it_done_while_its_steps_are_not(stage: Stage) -> None:
    run_id, question, bot = await asked(stage)

    seen = await end(stage, run_id, "complete", bot)

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "running")
    assert (await states(stage, run_id))["agree"] == "running"
    assert (await stage.approve(question, await stage.person("ada"))).word == "approved"
    await stage.service.workflows.advance_all()
    await work(stage)
    assert (await states(stage, run_id))["run"] == "succeeded"
    assert (await end(stage, run_id, "complete", bot)).status == 200


@pytest.mark.parametrize(("verb", "state"), [("cancel", "cancelled"), ("fail", "failed")])
async def test_a_run_takes_its_question_with_it_at_once(stage: Stage, verb: str, state: str) -> None:
    run_id, question, bot = await asked(stage)

    assert (await end(stage, run_id, verb, bot)).status == 200

    late = await stage.approve(question, await stage.person("ada"))
    assert (late.status, late.word, late.document["state"]) == (409, "not_actionable", "CANCELLED")
    after = {"run": state, "draft": "succeeded", "agree": "cancelled", "send": "skipped"}
    assert await states(stage, run_id) == after
    await stage.service.workflows.advance_all()
    assert await states(stage, run_id) == after


@pytest.mark.parametrize("verb", ["cancel", "fail", "complete"])
async def test_nobody_takes_jobs_back_that_are_not_theirs_by_ending_their_run(
    stage: Stage, verb: str
) -> None:
    run_id, question, _ = await asked(stage)
    before = await stage.job(question)
    seen = await end(stage, run_id, verb, await stage.agent("other"))
    assert (seen.status, seen.word) == (403, "forbidden")
    assert await stage.job(question) == before
    assert (await states(stage, run_id))["run"] == "running"


async def check_cancelled_with_its_worker(stage: Stage) -> None:
    run_id = await set_up(stage)
    worker, job = await claimed(stage)

    assert (await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})).status == 200

    assert (await stage.job(job["id"]))["state"] == "CANCELLED"
    body = {"fence": job["fence"], "error": "stopped", "retryable": True}
    late = await stage.call("POST", f"jobs/{job['id']}/fail", worker, body)
    assert (late.status, late.word) == (409, "fence_stale")
    assert (await stage.get("limits"))["active"] == 0


async def test_a_job_of_a_cancelled_run_is_not_tried_again(stage: Stage) -> None:
    await check_cancelled_with_its_worker(stage)
    stage.clock.advance(3600)
    await stage.sweep()
    worker = await stage.key("worker", "worker", "work")
    assert (await stage.call("POST", "jobs/claim", worker, {"topics": ["**"]})).document["jobs"] == []


async def test_a_cancelled_run_and_its_jobs_end_in_one_decision_on_sqlite(tmp_path: Path) -> None:
    async with open_stage(store_for(f"sqlite:///{tmp_path}/interlock.db")) as stage:
        await check_cancelled_with_its_worker(stage)


async def test_a_cancelled_run_and_its_jobs_end_in_one_decision_on_postgres(postgres_url: str) -> None:
    async with open_stage(store_for(postgres_url)) as stage:
        await check_cancelled_with_its_worker(stage)


async def test_a_run_that_was_cancelled_asks_nobody_anything_more(stage: Stage) -> None:
    run_id = await set_up(stage)
    worker, job = await claimed(stage)
    await stage.call("POST", f"jobs/{job['id']}/complete", worker, {"fence": job["fence"], "result": 1})

    await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})
    await stage.service.workflows.advance_all()

    assert await states(stage, run_id) == {
        "run": "cancelled", "draft": "succeeded", "agree": "skipped", "send": "skipped",
    }  # fmt: skip
    assert len((await stage.get("jobs"))["items"]) == 1


async def test_the_slot_of_a_run_with_steps_is_not_its_starters_to_keep(stage: Stage) -> None:
    await stage.policy(ALLOW)
    await stage.call("PUT", "workflows/report", stage.admin, {"steps": STEPS})
    started = await stage.call("POST", "workflows/report/runs", stage.admin, {"ttl_seconds": 1})
    run = started.document
    await stage.call("POST", f"workflow-runs/{run['run_id']}/renew", stage.admin, {"fence": run["fence"]})
    stage.clock.advance(60)
    assert (await stage.call("POST", "workflows/other/runs", stage.admin, {})).status == 201
    await stage.service.workflows.advance_all()
    assert (await states(stage, run["run_id"]))["draft"] == "running"


async def test_a_run_that_no_server_kept_stays_lost_and_takes_its_jobs_with_it(stage: Stage) -> None:
    run_id = await set_up(stage)
    _, job = await claimed(stage)
    stage.clock.advance(86_400 + 1)

    await stage.service.workflows.advance_all()

    assert (await states(stage, run_id))["run"] == "lost"
    assert (await stage.job(job["id"]))["state"] == "CANCELLED"
    assert (await stage.get("limits"))["active"] == 0
    assert ("run_lose", "done") in await stage.audit(run_id)


async def test_a_run_that_is_lost_cannot_be_cancelled_even_by_an_operator(stage: Stage) -> None:
    started = await stage.call("POST", "workflows/plain/runs", stage.admin, {"ttl_seconds": 5})
    run_id = started.document["run_id"]
    stage.clock.advance(6)
    seen = await stage.call("POST", f"workflow-runs/{run_id}/cancel", stage.admin, {})
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "lost")


async def test_a_throttle_may_hang_on_what_the_step_before_gave(stage: Stage) -> None:
    run_id = await set_up(stage, TWO, THROTTLED)
    worker, job = await claimed(stage)
    body = {"fence": job["fence"], "result": {"rows": 200}}
    await stage.call("POST", f"jobs/{job['id']}/complete", worker, body)

    await stage.service.workflows.advance_all()

    assert await states(stage, run_id) == {"run": "running", "draft": "succeeded", "send": "running"}


NEVER = "version: v1\ndefault: allow\nrules: [{id: shut, when: {topic: t.a}, decision: throttle}]\n"


FAILING = "version: v1\ndefault: allow\nrules: [{id: sum, when: {topic: t.a}, if: payload.sum > 5, decision: allow}]\n"


async def test_a_step_that_a_rule_fails_on_is_denied_and_says_why(stage: Stage) -> None:
    run_id = await set_up(stage, [{"id": "a", "topic": "t.a"}], FAILING)

    run = await stage.get(f"workflow-runs/{run_id}")

    (step,) = run["steps"]
    assert (run["state"], step["state"]) == ("failed", "failed")
    assert "rule sum" in step["why"]
    assert "there is no field payload.sum" in step["why"]
    assert (await stage.job(step["job_id"]))["state"] == "DENIED"


async def test_a_step_that_the_policy_has_wait_says_so(stage: Stage) -> None:
    run_id = await set_up(stage, [{"id": "a", "topic": "t.a"}], NEVER)
    (step,) = (await stage.get(f"workflow-runs/{run_id}"))["steps"]
    assert (step["state"], "shut" in step["why"]) == ("waiting", True)
    await stage.policy(ALLOW)
    await stage.service.workflows.advance_all()
    (step,) = (await stage.get(f"workflow-runs/{run_id}"))["steps"]
    assert (step["state"], step["why"]) == ("running", "")


async def test_a_run_that_cannot_be_advanced_keeps_no_other_from_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.sweeps._PASS_MAX", 1)
    await set_up(stage)
    worker, job = await claimed(stage)
    monkeypatch.setattr("interlock.rooms.workflows.advance.ready_steps", _break_after_the_first)
    await stage.call("POST", f"jobs/{job['id']}/complete", worker, {"fence": job["fence"], "result": 1})
    other = (await stage.call("POST", "workflows/report/runs", stage.admin, {})).document["run_id"]

    await stage.service.workflows.advance_all()

    assert (await states(stage, other))["draft"] == "running"


async def test_a_run_whose_gate_somebody_holds_keeps_no_other_from_going_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.sweeps._PASS_MAX", 1)
    held = await set_up(stage)
    decide = stage.service.kernel.run

    async def run(command: Any, *args: Any, **options: Any) -> Any:
        if isinstance(command, AdvanceRun) and command.run_id == held:
            raise LockBusy("another process holds the gate")
        return await decide(command, *args, **options)

    monkeypatch.setattr(stage.service.kernel, "run", run)
    other = (await stage.call("POST", "workflows/report/runs", stage.admin, {})).document["run_id"]
    await stage.service.workflows.advance_all()
    assert (await states(stage, other))["draft"] == "running"


def _break_after_the_first(definition: Sequence[Step], runs: Sequence[StepRun]) -> list[Step]:
    if runs[0].state is StepState.SUCCEEDED:
        raise RuntimeError("a bug")
    return ready_steps(definition, runs)
