"""A repeat under its key gets the first answer also if what it was about is no longer there."""

from __future__ import annotations

from tests.harness.in_process_api import ASK, InProcessApi, Seen

GLOB = {"topics": ["re*"]}


async def post(api: InProcessApi, path: str, key: str, body: object = None) -> Seen:
    return await api.call("POST", path, key, body or {}, idempotency_key="k")


def assert_repeated(first: Seen, again: Seen) -> None:
    assert (first.status // 100, again.status, again.body) == (2, first.status, first.body)
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_claim_by_a_glob_whose_jobs_are_all_done(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    worker = await durable.agent("worker", "submit,work")
    job = await durable.submit(worker, topic="read")
    first = await post(durable, "jobs/claim", worker, GLOB)
    fence = first.document["jobs"][0]["fence"]
    await durable.call("POST", f"jobs/{job}/complete", worker, {"fence": fence, "result": 1})

    again = await post(durable, "jobs/claim", worker, GLOB)
    other = await post(durable, "jobs/claim", worker, {**GLOB, "max": 2})

    assert_repeated(first, again)
    assert (other.status, other.word) == (422, "idempotency_key_reused")


async def test_a_revocation_of_a_principal_that_was_removed(durable: InProcessApi) -> None:
    issued = await durable.call("POST", "principals/bot/keys", durable.admin, {"kind": "agent", "roles": []})
    path = f"api-keys/{issued.document['key_id']}/revoke"
    first = await post(durable, path, durable.admin)
    assert (await durable.call("DELETE", "principals/bot", durable.admin)).status == 200

    again = await post(durable, path, durable.admin)
    without_key = await durable.call("POST", path, durable.admin)

    assert_repeated(first, again)
    assert (without_key.status, without_key.word) == (404, "not_found")


async def test_a_yes_to_a_step_the_end_and_a_rerun_of_a_run_that_was_forgotten(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    await durable.call("PUT", "workflows/w", durable.admin, {"steps": [{"id": "one", "topic": "pay"}]})
    run = (await durable.call("POST", "workflows/w/runs", bot, {})).document
    await durable.service.workflows.advance_all()
    path = f"workflow-runs/{run['run_id']}"
    yes = await post(durable, f"{path}/steps/one/approve", ada)
    cancelled = await post(durable, f"{path}/cancel", bot, {"fence": run["fence"]})
    rerun = await post(durable, f"{path}/rerun", bot, {"from_step": "one"})
    forgotten = await durable.call("DELETE", path, durable.admin, idempotency_key="k")

    assert_repeated(cancelled, await post(durable, f"{path}/cancel", bot, {"fence": run["fence"]}))
    assert_repeated(yes, await post(durable, f"{path}/steps/one/approve", ada))
    assert_repeated(rerun, await post(durable, f"{path}/rerun", bot, {"from_step": "one"}))
    assert_repeated(forgotten, await durable.call("DELETE", path, durable.admin, idempotency_key="k"))


async def test_what_was_never_there_leaves_its_key_unused(api: InProcessApi) -> None:
    bot = await api.agent()

    refused = await post(api, "workflow-runs/run_0/rerun", bot, {"from_step": "one"})
    other = await post(api, "workflow-runs/run_0/rerun", bot, {"from_step": "two"})

    assert [(seen.status, seen.word) for seen in (refused, other)] == [(404, "not_found")] * 2
