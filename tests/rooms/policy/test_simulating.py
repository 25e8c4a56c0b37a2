"""What a candidate policy would change, and what it would not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

ASKING = """
version: v1
rules:
  - id: ask
    when: {topic: pay}
    decision: require_human
    approval: {%s}
"""
RATION = "{id: ration, when: {topic: pay}, decision: throttle, throttle: {rate: 1/h}, then: require_human}"


async def changes(api: InProcessApi, policy: str) -> list[Any]:
    seen = await api.call("POST", "policy/simulate", api.admin, {"policy": policy})
    assert seen.status == 200, seen.document
    assert seen.document["unchanged"] == seen.document["examined"] - len(seen.document["changes"])
    return seen.document["changes"]


@pytest.mark.parametrize(
    ("asked", "differs"),
    [
        ("", []),
        ("quorum: 1, expires_in: 24h", []),
        ("quorum: 3", ["quorum"]),
        ("groups: [board]", ["groups"]),
        ("self_approval: true", ["self_approval"]),
        ("expires_in: 1h", ["expires_in"]),
        ("binding: semantic", ["binding"]),
        ("escalate: [{after: 1h, groups: [board]}], on_expiry: escalate", ["escalate", "on_expiry"]),
    ],
)
async def test_asking_people_for_something_else_is_a_change(
    api: InProcessApi, asked: str, differs: list[str]
) -> None:
    await api.policy(ASK)
    job = await api.submit(await api.agent())

    found = await changes(api, ASKING % asked)

    assert [(each["job_id"], each["differs"]) for each in found] == ([(job, differs)] if differs else [])


async def test_another_decision_and_another_rule_are_changes(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    await api.submit(bot)

    (denied,) = await changes(api, "version: v1\n")
    (renamed,) = await changes(api, ASK.replace("id: ask", "id: other"))

    assert (denied["differs"], denied["after"]["decision"]) == (["decision"], "deny")
    assert (renamed["differs"], renamed["after"]["rule"]) == (["rule"], "other")


async def test_the_policy_that_observed_an_empty_bucket_would_change_nothing(api: InProcessApi) -> None:
    policy = f"version: v1\nmode: observe\nrules:\n  - {RATION}\n"
    await api.policy(policy)
    bot = await api.agent()
    for _ in range(2):
        await api.submit(bot)
    seen = [item["decision"]["observed"] for item in (await api.get("policy/observed"))["items"]]

    assert seen == ["throttle", "require_human"]
    assert await changes(api, policy) == []


async def test_what_a_workflow_asks_people_is_no_matter_of_the_policy(api: InProcessApi) -> None:
    await api.policy("version: v1\ndefault: allow\n")
    steps = [{"id": "agree", "kind": "approval"}]
    await api.call("PUT", "workflows/report", api.admin, {"steps": steps})
    await api.call("POST", "workflows/report/runs", api.admin, {})
    await api.service.workflows.advance_all()
    assert len((await api.get("approvals"))["items"]) == 1

    assert await changes(api, "version: v1\ndefault: allow\n") == []
