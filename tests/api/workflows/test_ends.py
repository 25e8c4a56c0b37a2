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
from interlock.store.urls import store_for
from tests.api.workflows.test_workflows import ALLOW, STEPS, asked, set_up, states, work
from tests.harness.in_process_api import InProcessApi, open_api

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


async def claimed(api: InProcessApi) -> tuple[str, dict[str, Any]]:
    """A worker's key, and the one job it holds."""
    worker = await api.key("worker", "worker", "work")
    seen = await api.call("POST", "jobs/claim", worker, {"topics": ["**"]})
    (job,) = seen.document["jobs"]
    return worker, job


async def end(api: InProcessApi, run_id: str, verb: str, key: str) -> Any:
    fence = (await api.get(f"workflow-runs/{run_id}", key)).get("fence", 1)
    return await api.call("POST", f"workflow-runs/{run_id}/{verb}", key, {"fence": fence})


async def test_who_started_a_run_cannot_call_it_done_while_its_steps_are_not(api: InProcessApi) -> None:
    run_id, question, bot = await asked(api)

    seen = await end(api, run_id, "complete", bot)

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "running")
    assert (await states(api, run_id))["agree"] == "running"
    assert (await api.approve(question, await api.person("ada"))).word == "approved"
    await api.service.workflows.advance_all()
    await work(api)
    assert (await states(api, run_id))["run"] == "succeeded"
    assert (await end(api, run_id, "complete", bot)).status == 200


@pytest.mark.parametrize(("verb", "state"), [("cancel", "cancelled"), ("fail", "failed")])
async def test_a_run_takes_its_question_with_it_at_once(api: InProcessApi, verb: str, state: str) -> None:
    run_id, question, bot = await asked(api)

    assert (await end(api, run_id, verb, bot)).status == 200

    late = await api.approve(question, await api.person("ada"))
    assert (late.status, late.word, late.document["state"]) == (409, "not_actionable", "CANCELLED")
    after = {"run": state, "draft": "succeeded", "agree": "cancelled", "send": "skipped"}
    assert await states(api, run_id) == after
    await api.service.workflows.advance_all()
    assert await states(api, run_id) == after


@pytest.mark.parametrize("verb", ["cancel", "fail", "complete"])
async def test_nobody_takes_jobs_back_that_are_not_theirs_by_ending_their_run(
    api: InProcessApi, verb: str
) -> None:
    run_id, question, _ = await asked(api)
    before = await api.job(question)
    seen = await end(api, run_id, verb, await api.agent("other"))
    assert (seen.status, seen.word) == (403, "forbidden")
    assert await api.job(question) == before
    assert (await states(api, run_id))["run"] == "running"


async def check_cancelled_with_its_worker(api: InProcessApi) -> None:
    run_id = await set_up(api)
    worker, job = await claimed(api)

    assert (await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})).status == 200

    assert (await api.job(job["id"]))["state"] == "CANCELLED"
    body = {"fence": job["fence"], "error": "stopped", "retryable": True}
    late = await api.call("POST", f"jobs/{job['id']}/fail", worker, body)
    assert (late.status, late.word) == (409, "fence_stale")
    assert (await api.get("limits"))["active"] == 0


async def test_a_job_of_a_cancelled_run_is_not_tried_again(api: InProcessApi) -> None:
    await check_cancelled_with_its_worker(api)
    api.clock.advance(3600)
    await api.sweep()
    worker = await api.key("worker", "worker", "work")
    assert (await api.call("POST", "jobs/claim", worker, {"topics": ["**"]})).document["jobs"] == []


async def test_a_cancelled_run_and_its_jobs_end_in_one_decision_on_sqlite(tmp_path: Path) -> None:
    async with open_api(store_for(f"sqlite:///{tmp_path}/interlock.db")) as api:
        await check_cancelled_with_its_worker(api)


async def test_a_cancelled_run_and_its_jobs_end_in_one_decision_on_postgres(postgres_url: str) -> None:
    async with open_api(store_for(postgres_url)) as api:
        await check_cancelled_with_its_worker(api)


async def test_a_run_that_was_cancelled_asks_nobody_anything_more(api: InProcessApi) -> None:
    run_id = await set_up(api)
    worker, job = await claimed(api)
    await api.call("POST", f"jobs/{job['id']}/complete", worker, {"fence": job["fence"], "result": 1})

    await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})
    await api.service.workflows.advance_all()

    assert await states(api, run_id) == {
        "run": "cancelled", "draft": "succeeded", "agree": "skipped", "send": "skipped",
    }  # fmt: skip
    assert len((await api.get("jobs"))["items"]) == 1


async def test_the_slot_of_a_run_with_steps_is_not_its_starters_to_keep(api: InProcessApi) -> None:
    await api.policy(ALLOW)
    await api.call("PUT", "workflows/report", api.admin, {"steps": STEPS})
    started = await api.call("POST", "workflows/report/runs", api.admin, {"ttl_seconds": 1})
    run = started.document
    await api.call("POST", f"workflow-runs/{run['run_id']}/renew", api.admin, {"fence": run["fence"]})
    api.clock.advance(60)
    assert (await api.call("POST", "workflows/other/runs", api.admin, {})).status == 201
    await api.service.workflows.advance_all()
    assert (await states(api, run["run_id"]))["draft"] == "running"


async def test_a_run_that_no_server_kept_stays_lost_and_takes_its_jobs_with_it(api: InProcessApi) -> None:
    run_id = await set_up(api)
    _, job = await claimed(api)
    api.clock.advance(86_400 + 1)

    await api.service.workflows.advance_all()

    assert (await states(api, run_id))["run"] == "lost"
    assert (await api.job(job["id"]))["state"] == "CANCELLED"
    assert (await api.get("limits"))["active"] == 0
    assert ("run_lose", "done") in await api.audit(run_id)


async def test_a_run_that_is_lost_cannot_be_cancelled_even_by_an_operator(api: InProcessApi) -> None:
    started = await api.call("POST", "workflows/plain/runs", api.admin, {"ttl_seconds": 5})
    run_id = started.document["run_id"]
    api.clock.advance(6)
    seen = await api.call("POST", f"workflow-runs/{run_id}/cancel", api.admin, {})
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "lost")


async def test_a_throttle_may_hang_on_what_the_step_before_gave(api: InProcessApi) -> None:
    run_id = await set_up(api, TWO, THROTTLED)
    worker, job = await claimed(api)
    body = {"fence": job["fence"], "result": {"rows": 200}}
    await api.call("POST", f"jobs/{job['id']}/complete", worker, body)

    await api.service.workflows.advance_all()

    assert await states(api, run_id) == {"run": "running", "draft": "succeeded", "send": "running"}


NEVER = "version: v1\ndefault: allow\nrules: [{id: shut, when: {topic: t.a}, decision: throttle}]\n"


FAILING = "version: v1\ndefault: allow\nrules: [{id: sum, when: {topic: t.a}, if: payload.sum > 5, decision: allow}]\n"


async def test_a_step_that_a_rule_fails_on_is_denied_and_says_why(api: InProcessApi) -> None:
    run_id = await set_up(api, [{"id": "a", "topic": "t.a"}], FAILING)

    run = await api.get(f"workflow-runs/{run_id}")

    (step,) = run["steps"]
    assert (run["state"], step["state"]) == ("failed", "failed")
    assert "rule sum" in step["why"]
    assert "there is no field payload.sum" in step["why"]
    assert (await api.job(step["job_id"]))["state"] == "DENIED"


async def test_a_step_that_the_policy_has_wait_says_so(api: InProcessApi) -> None:
    run_id = await set_up(api, [{"id": "a", "topic": "t.a"}], NEVER)
    (step,) = (await api.get(f"workflow-runs/{run_id}"))["steps"]
    assert (step["state"], "shut" in step["why"]) == ("waiting", True)
    await api.policy(ALLOW)
    await api.service.workflows.advance_all()
    (step,) = (await api.get(f"workflow-runs/{run_id}"))["steps"]
    assert (step["state"], step["why"]) == ("running", "")


async def test_a_run_that_cannot_be_advanced_keeps_no_other_from_it(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.workflows._PASS_MAX", 1)
    await set_up(api)
    worker, job = await claimed(api)
    monkeypatch.setattr("interlock.rooms.workflows.advance.ready_steps", _break_after_the_first)
    await api.call("POST", f"jobs/{job['id']}/complete", worker, {"fence": job["fence"], "result": 1})
    other = (await api.call("POST", "workflows/report/runs", api.admin, {})).document["run_id"]

    await api.service.workflows.advance_all()

    assert (await states(api, other))["draft"] == "running"


async def test_a_run_whose_gate_somebody_holds_keeps_no_other_from_going_on(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.workflows._PASS_MAX", 1)
    held = await set_up(api)
    decide = api.service.kernel.run

    async def run(command: Any, *args: Any, **options: Any) -> Any:
        if isinstance(command, AdvanceRun) and command.run_id == held:
            raise LockBusy("another process holds the gate")
        return await decide(command, *args, **options)

    monkeypatch.setattr(api.service.kernel, "run", run)
    other = (await api.call("POST", "workflows/report/runs", api.admin, {})).document["run_id"]
    await api.service.workflows.advance_all()
    assert (await states(api, other))["draft"] == "running"


def _break_after_the_first(definition: Sequence[Step], runs: Sequence[StepRun]) -> list[Step]:
    if runs[0].state is StepState.SUCCEEDED:
        raise RuntimeError("a bug")
    return ready_steps(definition, runs)
