"""How many people could decide a request: exactly those whose yes would count, each once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

MANY = """
version: v1
rules:
  - {id: many, when: {topic: pay}, decision: require_human, approval: {quorum: 9}}
  - {id: own, when: {topic: own}, decision: require_human, approval: {quorum: 9, self_approval: true}}
  - {id: money, when: {topic: money}, decision: require_human, approval: {quorum: 9, groups: [finance]}}
"""


async def able(api: InProcessApi, job: str) -> Any:
    return (await api.get(f"approvals/{job}"))["people_able"]


async def test_people_with_the_role_and_a_key_are_able(api: InProcessApi) -> None:
    await api.policy(MANY)
    job = await api.submit(await api.agent())
    assert await able(api, job) == 0

    await api.person("ada")
    await api.person("bob", "submit,operate,audit")
    await api.agent("machine", "review")
    gone = await api.person("eve")
    assert await able(api, job) == 2

    await api.call("POST", f"api-keys/{gone.split('_')[1]}/revoke", api.admin, {})
    assert await able(api, job) == 1


async def test_a_name_like_that_of_the_stores_own_user_makes_nobody_able(api: InProcessApi) -> None:
    await api.policy(MANY)
    job = await api.submit(await api.agent())
    key = await api.person("local:eve")
    await api.call("POST", f"api-keys/{key.split('_')[1]}/revoke", api.admin, {})
    assert await able(api, job) == 0


async def test_two_principals_of_one_person_are_able_once(api: InProcessApi) -> None:
    await api.policy(MANY)
    job = await api.submit(await api.agent())
    await api.person("ada")
    await api.person("ada-phone", owner="ada")
    assert await able(api, job) == 1


async def test_only_people_of_the_groups_are_able(api: InProcessApi) -> None:
    await api.policy(MANY)
    await api.person("ada", groups=("finance",))
    await api.person("bob", groups=("sales",))
    job = await api.submit(await api.agent(), topic="money")
    assert await able(api, job) == 1


async def test_whoever_submitted_or_edited_it_is_not_able(api: InProcessApi) -> None:
    await api.policy(MANY)
    ada, bob = await api.person("ada", "review,submit"), await api.person("bob")
    await api.person("eve")
    job, own = await api.submit(ada), await api.submit(ada, topic="own")
    assert [await able(api, each) for each in (job, own)] == [2, 3]

    for each in (job, own):
        changed = {"payload": {"changed": True}, "reason": "typo"}
        assert (await api.call("POST", f"approvals/{each}/edit", bob, changed)).status == 200

    assert [await able(api, each) for each in (job, own)] == [1, 3]


async def test_the_owner_of_the_submitters_owner_is_not_able(api: InProcessApi) -> None:
    await api.policy(MANY)
    await api.person("ada")
    await api.person("work")
    job = await api.submit(await api.agent(owner="work"))
    assert await able(api, job) == 1

    seen = await api.call("PUT", "principals/work", api.admin, {"owner": "ada"})

    assert (seen.status, await able(api, job)) == (200, 0)


async def test_as_many_are_able_as_votes_would_count(api: InProcessApi) -> None:
    await api.policy(MANY)
    keys = [await api.person(name) for name in ("ada", "bob", "eve", "laptop", "work")]
    keys += [await api.person("phone", owner="eve"), await api.person("zed", "review,submit")]
    job = await api.submit(keys[-1])
    for name, owner in (("laptop", "work"), ("work", "ada"), ("bob", "elsewhere")):
        assert (await api.call("PUT", f"principals/{name}", api.admin, {"owner": owner})).status == 200
    before = await able(api, job)

    answers = [await api.approve(job, key) for key in keys]

    assert {answer.word for answer in answers} == {"vote_recorded", "self_approval"}
    votes = max(answer.document.get("votes", 0) for answer in answers)
    assert (before, votes, await able(api, job)) == (3, 3, 3)


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_nobody_is_counted_for_what_no_longer_waits(api: InProcessApi, verb: str) -> None:
    await api.policy(ASK)
    ada = await api.person("ada")
    job = await api.submit(await api.agent())
    await getattr(api, verb)(job, ada)
    assert await able(api, job) is None


async def test_among_more_people_than_are_looked_at_nobody_is_counted(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.rooms.jobs.approval_queries.PEOPLE_MAX", 2)
    await api.policy(MANY)
    job = await api.submit(await api.agent())
    await api.person("ada")
    assert await able(api, job) == 1

    await api.person("bob")
    assert await able(api, job) is None
