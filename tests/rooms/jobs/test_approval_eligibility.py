"""Who may decide, and whose yes counts at the moment of the deciding vote."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import ASK, Stage

TWO = """
version: v1
rules:
  - {id: two, when: {topic: pay}, decision: require_human, approval: {quorum: 2}}
"""
FINANCE = """
version: v1
rules:
  - {id: money, when: {topic: pay}, decision: require_human, approval: {quorum: 2, groups: [finance, board]}}
"""
SELF = """
version: v1
rules:
  - {id: own, when: {topic: pay}, decision: require_human, approval: {self_approval: true}}
"""


async def set_principal(stage: Stage, name: str, **fields: object) -> None:
    seen = await stage.call("PUT", f"principals/{name}", stage.admin, fields)
    assert seen.status == 200, seen.document


async def revoke(stage: Stage, key: str) -> None:
    seen = await stage.call("POST", f"api-keys/{key.split('_')[1]}/revoke", stage.admin, {})
    assert seen.status == 200, seen.document


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_only_people_decide_whatever_roles_a_key_was_given(stage: Stage, kind: str) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    machine = await stage.key("machine", kind, "review,admin,operate")
    job = await stage.submit(bot)

    for decide in (stage.approve, stage.reject):
        refused = await decide(job, machine)
        assert (refused.status, refused.word) == (403, "people_only")
    assert (await stage.job(job))["state"] == "APPROVAL"
    assert (await stage.audit(job))[-1] == ("reject_refused", "PeopleOnly")


async def test_a_person_without_the_role_is_refused_and_that_is_audited(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada", "submit,operate,admin,audit,work")
    job = await stage.submit(bot)

    refused = await stage.approve(job, ada)

    assert (refused.status, refused.word) == (403, "forbidden")
    assert (await stage.audit(job))[-1] == ("approve_refused", "Forbidden")


async def test_nobody_decides_their_own_request(stage: Stage) -> None:
    await stage.policy(ASK)
    ada = await stage.person("ada", "submit,review")
    job = await stage.submit(ada)

    for decide in (stage.approve, stage.reject):
        refused = await decide(job, ada)
        assert (refused.status, refused.word) == (403, "self_approval")


async def test_a_second_key_of_the_submitter_is_the_submitter(stage: Stage) -> None:
    await stage.policy(ASK)
    first = await stage.person("ada", "submit,review")
    second = await stage.person("ada", "submit,review")
    job = await stage.submit(first)

    assert (await stage.approve(job, second)).word == "self_approval"


async def test_an_agents_owner_counts_as_the_submitter(stage: Stage) -> None:
    await stage.policy(ASK)
    ada, bob = await stage.person("ada"), await stage.person("bob")
    bot = await stage.agent(owner="ada")
    job = await stage.submit(bot)

    assert (await stage.approve(job, ada)).word == "self_approval"
    assert (await stage.approve(job, bob)).word == "approved"


async def test_another_principal_of_the_owner_counts_as_the_submitter(stage: Stage) -> None:
    await stage.policy(ASK)
    await stage.person("ada")
    phone = await stage.person("ada-phone", owner="ada")
    bot = await stage.agent(owner="ada")
    job = await stage.submit(bot)

    assert (await stage.approve(job, phone)).word == "self_approval"


async def test_an_owner_of_an_owner_counts_as_the_submitter(stage: Stage) -> None:
    await stage.policy(ASK)
    ada = await stage.person("ada")
    await stage.person("ada-work", owner="ada")
    bot = await stage.agent(owner="ada-work")
    job = await stage.submit(bot)

    assert (await stage.approve(job, ada)).word == "self_approval"


async def test_an_owner_named_after_the_submit_counts_too(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await set_principal(stage, "bot", owner="ada")

    assert (await stage.approve(job, ada)).word == "self_approval"


async def test_the_owner_at_submit_counts_even_if_the_agent_changed_hands(stage: Stage) -> None:
    await stage.policy(ASK)
    ada = await stage.person("ada")
    bot = await stage.agent(owner="ada")
    job = await stage.submit(bot)
    await set_principal(stage, "bot", owner="bob")

    assert (await stage.approve(job, ada)).word == "self_approval"


async def test_a_rule_may_allow_self_approval(stage: Stage) -> None:
    await stage.policy(SELF)
    ada = await stage.person("ada", "submit,review")
    job = await stage.submit(ada)

    assert (await stage.approve(job, ada)).word == "approved"


async def test_only_the_groups_of_the_rule_decide(stage: Stage) -> None:
    await stage.policy(FINANCE)
    bot = await stage.agent()
    ada = await stage.person("ada", groups=("finance",))
    eve = await stage.person("eve", groups=("sales",))
    zed = await stage.person("zed", groups=("board", "sales"))
    job = await stage.submit(bot)

    refused = await stage.approve(job, eve)
    first, second = await stage.approve(job, ada), await stage.approve(job, zed)

    assert (refused.status, refused.word) == (403, "not_eligible")
    assert refused.document["groups"] == ["board", "finance"]
    assert (first.word, second.word) == ("vote_recorded", "approved")


async def test_two_principals_of_one_person_are_one_vote(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada = await stage.agent(), await stage.person("ada")
    phone = await stage.person("ada-phone", owner="ada")
    job = await stage.submit(bot)
    await stage.approve(job, ada)

    again = await stage.approve(job, phone)

    assert (again.word, again.document["votes"]) == ("vote_recorded", 1)
    assert (await stage.job(job))["state"] == "APPROVAL"
