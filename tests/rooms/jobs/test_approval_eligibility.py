"""Who may decide, and whose yes counts at the moment of the deciding vote."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

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


async def set_principal(api: InProcessApi, name: str, **fields: object) -> None:
    seen = await api.call("PUT", f"principals/{name}", api.admin, fields)
    assert seen.status == 200, seen.document


async def revoke(api: InProcessApi, key: str) -> None:
    seen = await api.call("POST", f"api-keys/{key.split('_')[1]}/revoke", api.admin, {})
    assert seen.status == 200, seen.document


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_only_people_decide_whatever_roles_a_key_was_given(api: InProcessApi, kind: str) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    machine = await api.key("machine", kind, "review,admin,operate")
    job = await api.submit(bot)

    for decide in (api.approve, api.reject):
        refused = await decide(job, machine)
        assert (refused.status, refused.word) == (403, "people_only")
    assert (await api.job(job))["state"] == "APPROVAL"
    assert (await api.audit(job))[-1] == ("reject_refused", "PeopleOnly")


async def test_a_person_without_the_role_is_refused_and_that_is_audited(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada", "submit,operate,admin,audit,work")
    job = await api.submit(bot)

    refused = await api.approve(job, ada)

    assert (refused.status, refused.word) == (403, "forbidden")
    assert (await api.audit(job))[-1] == ("approve_refused", "Forbidden")


async def test_nobody_decides_their_own_request(api: InProcessApi) -> None:
    await api.policy(ASK)
    ada = await api.person("ada", "submit,review")
    job = await api.submit(ada)

    for decide in (api.approve, api.reject):
        refused = await decide(job, ada)
        assert (refused.status, refused.word) == (403, "self_approval")


async def test_a_second_key_of_the_submitter_is_the_submitter(api: InProcessApi) -> None:
    await api.policy(ASK)
    first = await api.person("ada", "submit,review")
    second = await api.person("ada", "submit,review")
    job = await api.submit(first)

    assert (await api.approve(job, second)).word == "self_approval"


async def test_an_agents_owner_counts_as_the_submitter(api: InProcessApi) -> None:
    await api.policy(ASK)
    ada, bob = await api.person("ada"), await api.person("bob")
    bot = await api.agent(owner="ada")
    job = await api.submit(bot)

    assert (await api.approve(job, ada)).word == "self_approval"
    assert (await api.approve(job, bob)).word == "approved"


async def test_another_principal_of_the_owner_counts_as_the_submitter(api: InProcessApi) -> None:
    await api.policy(ASK)
    await api.person("ada")
    phone = await api.person("ada-phone", owner="ada")
    bot = await api.agent(owner="ada")
    job = await api.submit(bot)

    assert (await api.approve(job, phone)).word == "self_approval"


async def test_an_owner_of_an_owner_counts_as_the_submitter(api: InProcessApi) -> None:
    await api.policy(ASK)
    ada = await api.person("ada")
    await api.person("ada-work", owner="ada")
    bot = await api.agent(owner="ada-work")
    job = await api.submit(bot)

    assert (await api.approve(job, ada)).word == "self_approval"


async def test_an_owner_named_after_the_submit_counts_too(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await set_principal(api, "bot", owner="ada")

    assert (await api.approve(job, ada)).word == "self_approval"


async def test_the_owner_at_submit_counts_even_if_the_agent_changed_hands(api: InProcessApi) -> None:
    await api.policy(ASK)
    ada = await api.person("ada")
    bot = await api.agent(owner="ada")
    job = await api.submit(bot)
    await set_principal(api, "bot", owner="bob")

    assert (await api.approve(job, ada)).word == "self_approval"


async def test_a_rule_may_allow_self_approval(api: InProcessApi) -> None:
    await api.policy(SELF)
    ada = await api.person("ada", "submit,review")
    job = await api.submit(ada)

    assert (await api.approve(job, ada)).word == "approved"


async def test_only_the_groups_of_the_rule_decide(api: InProcessApi) -> None:
    await api.policy(FINANCE)
    bot = await api.agent()
    ada = await api.person("ada", groups=("finance",))
    eve = await api.person("eve", groups=("sales",))
    zed = await api.person("zed", groups=("board", "sales"))
    job = await api.submit(bot)

    refused = await api.approve(job, eve)
    first, second = await api.approve(job, ada), await api.approve(job, zed)

    assert (refused.status, refused.word) == (403, "not_eligible")
    assert refused.document["groups"] == ["board", "finance"]
    assert (first.word, second.word) == ("vote_recorded", "approved")


async def test_two_principals_of_one_person_are_one_vote(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada = await api.agent(), await api.person("ada")
    phone = await api.person("ada-phone", owner="ada")
    job = await api.submit(bot)
    await api.approve(job, ada)

    again = await api.approve(job, phone)

    assert (again.word, again.document["votes"]) == ("vote_recorded", 1)
    assert (await api.job(job))["state"] == "APPROVAL"
