"""What the reviewer is told would come of a yes is what comes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, InProcessApi

TWO = ASK.replace("decision: require_human", "decision: require_human\n    approval: {quorum: 2}")
OTHER = "  - {id: other, when: {topic: other}, decision: allow}\n"
SEMANTIC = ASK.replace(
    "decision: require_human", "decision: require_human\n    approval: {binding: semantic}"
)


async def shown(api: InProcessApi, job: str, key: str) -> Any:
    return await api.get(f"approvals/{job}", key)


async def test_a_vote_that_no_longer_counts_is_still_needed(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    assert (await shown(api, job, bob))["votes_needed"] == 1

    await api.call("PUT", "principals/ada", api.admin, {"roles": ["submit"]})
    before = await shown(api, job, bob)
    seen = await api.approve(job, bob)
    after = await shown(api, job, bob)

    assert before["votes_needed"] == 2
    assert before["on_approve"] == "your vote is counted; 1 more of 2 people must agree"
    assert (seen.word, seen.document["votes"], after["votes_needed"]) == ("vote_recorded", 1, 1)


@pytest.mark.parametrize("policy", [TWO, SEMANTIC], ids=["strict", "semantic"])
async def test_a_policy_that_asks_for_something_else_is_in_the_way(api: InProcessApi, policy: str) -> None:
    await api.policy(policy)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(ASK)

    told = (await shown(api, job, ada))["on_approve"]

    assert told == "nothing: the policy changed since it was asked; refresh it first"
    assert (await api.approve(job, ada)).word == "snapshot_changed"


async def test_a_policy_that_asks_for_the_same_is_in_nobodys_way(api: InProcessApi) -> None:
    await api.policy(SEMANTIC)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(SEMANTIC + OTHER)

    told = await shown(api, job, ada)

    assert told["drift"]["policy_changed"] is True
    assert told["on_approve"] == "pay is released to workers with exactly this payload"
    assert (await api.approve(job, ada)).word == "approved"


async def test_a_policy_that_fails_on_the_request_is_in_the_way(api: InProcessApi) -> None:
    await api.policy(SEMANTIC)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(SEMANTIC.replace("when: {topic: pay}", "when: {topic: pay}\n    if: payload.absent"))

    told = (await shown(api, job, ada))["on_approve"]

    assert told == "nothing: the policy changed since it was asked; refresh it first"
    assert (await api.approve(job, ada)).word == "snapshot_changed"


async def test_a_policy_that_cannot_be_evaluated_is_in_the_way(api: InProcessApi) -> None:
    await api.policy(SEMANTIC)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, TOO_MUCH)
    await api.policy(SEMANTIC.replace("when: {topic: pay}", f'when: {{topic: pay}}\n    if: "{COSTLY}"'))

    told = (await shown(api, job, ada))["on_approve"]

    assert told.startswith("nothing: rule 'ask' could not be evaluated")
    assert (await api.approve(job, ada)).word == "policy_unavailable"


async def test_a_target_that_moved_is_in_the_way(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, target={"key": "doc", "version": 1})
    await api.call("POST", "targets/doc/touch", ada, {"version": 2})

    told = (await shown(api, job, ada))["on_approve"]

    assert told == "nothing: doc moved to 2 since it was asked; refresh it first"
    assert (await api.approve(job, ada)).word == "target_changed"


async def test_nobody_is_needed_for_what_is_decided(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await api.approve(job, bob)

    told = await shown(api, job, ada)

    assert (told["votes_needed"], told["on_approve"]) == (0, "nothing: the job is PENDING")


async def test_an_escalation_never_outlasts_the_job(durable: InProcessApi) -> None:
    steps = "on_expiry: escalate, expires_in: 2s, escalate: [{after: 1s, groups: [leads]}]"
    await durable.policy(ASK.replace("require_human", f"require_human\n    approval: {{{steps}}}", 1))
    bot, ada = await durable.agent(), await durable.person("ada")
    job = await durable.submit(bot, expires_in=1)
    asked = await durable.job(job)
    await asyncio.sleep(1.05)

    told = await shown(durable, job, ada)

    assert asked["approval"]["expires_at"] == asked["expires_at"]
    assert (told["state"], told["job"]["state"]) == ("expired", "EXPIRED")
    assert told["on_approve"] == "nothing: the job is EXPIRED"
    assert (await durable.approve(job, ada)).word == "approval_expired"
