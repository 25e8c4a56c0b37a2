"""How many people could decide a request: exactly those whose yes would count, each once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, Stage

MANY = """
version: v1
rules:
  - {id: many, when: {topic: pay}, decision: require_human, approval: {quorum: 9}}
  - {id: own, when: {topic: own}, decision: require_human, approval: {quorum: 9, self_approval: true}}
  - {id: money, when: {topic: money}, decision: require_human, approval: {quorum: 9, groups: [finance]}}
"""


async def able(stage: Stage, job: str) -> Any:
    return (await stage.get(f"approvals/{job}"))["people_able"]


async def test_people_with_the_role_and_a_key_are_able(stage: Stage) -> None:
    await stage.policy(MANY)
    job = await stage.submit(await stage.agent())
    assert await able(stage, job) == 0

    await stage.person("ada")
    await stage.person("bob", "submit,operate,audit")
    await stage.agent("machine", "review")
    gone = await stage.person("eve")
    assert await able(stage, job) == 2

    await stage.call("POST", f"api-keys/{gone.split('_')[1]}/revoke", stage.admin, {})
    assert await able(stage, job) == 1


async def test_a_name_like_that_of_the_stores_own_user_makes_nobody_able(stage: Stage) -> None:
    await stage.policy(MANY)
    job = await stage.submit(await stage.agent())
    key = await stage.person("local:eve")
    await stage.call("POST", f"api-keys/{key.split('_')[1]}/revoke", stage.admin, {})
    assert await able(stage, job) == 0


async def test_two_principals_of_one_person_are_able_once(stage: Stage) -> None:
    await stage.policy(MANY)
    job = await stage.submit(await stage.agent())
    await stage.person("ada")
    await stage.person("ada-phone", owner="ada")
    assert await able(stage, job) == 1


async def test_only_people_of_the_groups_are_able(stage: Stage) -> None:
    await stage.policy(MANY)
    await stage.person("ada", groups=("finance",))
    await stage.person("bob", groups=("sales",))
    job = await stage.submit(await stage.agent(), topic="money")
    assert await able(stage, job) == 1


async def test_whoever_submitted_or_edited_it_is_not_able(stage: Stage) -> None:
    await stage.policy(MANY)
    ada, bob = await stage.person("ada", "review,submit"), await stage.person("bob")
    await stage.person("eve")
    job, own = await stage.submit(ada), await stage.submit(ada, topic="own")
    assert [await able(stage, each) for each in (job, own)] == [2, 3]

    for each in (job, own):
        changed = {"payload": {"changed": True}, "reason": "typo"}
        assert (await stage.call("POST", f"approvals/{each}/edit", bob, changed)).status == 200

    assert [await able(stage, each) for each in (job, own)] == [1, 3]


async def test_the_owner_of_the_submitters_owner_is_not_able(stage: Stage) -> None:
    await stage.policy(MANY)
    await stage.person("ada")
    await stage.person("work")
    job = await stage.submit(await stage.agent(owner="work"))
    assert await able(stage, job) == 1

    seen = await stage.call("PUT", "principals/work", stage.admin, {"owner": "ada"})

    assert (seen.status, await able(stage, job)) == (200, 0)


async def test_as_many_are_able_as_votes_would_count(stage: Stage) -> None:
    await stage.policy(MANY)
    keys = [await stage.person(name) for name in ("ada", "bob", "eve", "laptop", "work")]
    keys += [await stage.person("phone", owner="eve"), await stage.person("zed", "review,submit")]
    job = await stage.submit(keys[-1])
    for name, owner in (("laptop", "work"), ("work", "ada"), ("bob", "elsewhere")):
        assert (await stage.call("PUT", f"principals/{name}", stage.admin, {"owner": owner})).status == 200
    before = await able(stage, job)

    answers = [await stage.approve(job, key) for key in keys]

    assert {answer.word for answer in answers} == {"vote_recorded", "self_approval"}
    votes = max(answer.document.get("votes", 0) for answer in answers)
    assert (before, votes, await able(stage, job)) == (3, 3, 3)


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_nobody_is_counted_for_what_no_longer_waits(stage: Stage, verb: str) -> None:
    await stage.policy(ASK)
    ada = await stage.person("ada")
    job = await stage.submit(await stage.agent())
    await getattr(stage, verb)(job, ada)
    assert await able(stage, job) is None


async def test_among_more_people_than_are_looked_at_nobody_is_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.rooms.jobs.queries.PEOPLE_MAX", 2)
    await stage.policy(MANY)
    job = await stage.submit(await stage.agent())
    await stage.person("ada")
    assert await able(stage, job) == 1

    await stage.person("bob")
    assert await able(stage, job) is None
