"""What the page of a request says of people, escalation, workers and rules."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.ids import TellTime
from tests.harness.in_process_api import ASK, Stage

TWO = """
version: v1
rules:
  - {id: two, when: {topic: pay}, decision: require_human, approval: {quorum: 2, grace: 30s}}
  - {id: money, when: {topic: money}, decision: require_human, approval: {groups: [finance], expires_in: 4h, escalate: [{after: 30m, groups: [leads]}, {after: 1h, groups: [board]}]}}
  - {id: read, when: {topic: read}, decision: allow}
"""  # noqa: E501
NOTHING = {
    "may_decide": False, "why_not": "forbidden", "voted": False,
    "may_withdraw": False, "may_edit": False, "may_refresh": False,
}  # fmt: skip


async def pass_time(stage: Stage, seconds: float) -> None:
    """Let time go by, and let the server hear of it; no sweep runs."""
    stage.clock.advance(seconds)
    await stage.service.kernel.run(TellTime())


async def shown(stage: Stage, job: str, key: str | None = None) -> Any:
    return await stage.get(f"approvals/{job}", key)


async def you(stage: Stage, job: str, key: str) -> Any:
    return (await shown(stage, job, key))["you"]


async def test_the_eligible_are_those_whom_people_able_counts(stage: Stage) -> None:
    await stage.policy(TWO)
    ada = await stage.person("ada")
    await stage.person("ada-phone", owner="ada")
    await stage.person("bob")
    await stage.person("eve", "submit")
    job = await stage.submit(await stage.agent("bot", owner="bob"))
    await stage.approve(job, ada)

    request = await shown(stage, job)

    assert (request["eligible"], request["people_able"]) == (["ada"], 1)


async def test_twenty_names_are_shown_and_all_are_counted(stage: Stage) -> None:
    await stage.policy(ASK)
    for number in range(25):
        await stage.person(f"p{number:02}")
    request = await shown(stage, await stage.submit(await stage.agent()))
    assert (request["eligible"], request["people_able"]) == ([f"p{n:02}" for n in range(20)], 25)


async def test_you_may_what_the_commands_would_let_you(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob = await stage.agent(owner="bob"), await stage.person("ada"), await stage.person("bob")
    eye = await stage.person("eye", "audit")
    job = await stage.submit(bot)

    fresh = {**NOTHING, "may_decide": True, "why_not": None, "may_edit": True, "may_refresh": True}
    assert await you(stage, job, ada) == fresh
    assert await you(stage, job, eye) == NOTHING
    own = {**fresh, "may_decide": False, "why_not": "self_approval"}
    assert await you(stage, job, bob) == own
    assert await you(stage, job, bot) == {**own, "why_not": "people_only"}

    await stage.approve(job, ada)
    assert await you(stage, job, ada) == {**fresh, "voted": True, "may_withdraw": True}
    await stage.approve(job, await stage.person("cyd"))
    decided = {**NOTHING, "why_not": "already_approved", "voted": True, "may_withdraw": True}
    assert await you(stage, job, ada) == decided
    await pass_time(stage, 31)
    assert await you(stage, job, ada) == {**decided, "may_withdraw": False}


async def test_you_may_not_what_the_route_does_not_let_your_roles_do(stage: Stage) -> None:
    await stage.policy(TWO)
    job = await stage.submit(await stage.person("sam", "submit"))
    sam = await stage.person("sam", "audit")

    assert await you(stage, job, sam) == NOTHING
    for verb, body in (("edit", {"payload": {}, "reason": "x"}), ("refresh", None)):
        assert (await stage.call("POST", f"approvals/{job}/{verb}", sam, body)).word == "forbidden"


@pytest.mark.parametrize("who", ["ada", "bob", "bot", "eye", "fin"])
@pytest.mark.parametrize("state", ["waiting", "voted", "rejected", "expired", "cancelled", "grace"])
async def test_what_you_may_do_is_what_happens_when_you_do_it(stage: Stage, who: str, state: str) -> None:
    """Each ability is tried on a request of its own, in every state, by everybody."""
    await stage.policy(TWO)
    keys = {
        "bot": await stage.agent(owner="bob"),
        "ada": await stage.person("ada"),
        "bob": await stage.person("bob"),
        "eye": await stage.person("eye", "audit"),
        "fin": await stage.person("fin", groups=("finance",)),
        "cyd": await stage.person("cyd"),
    }
    sent: dict[str, tuple[str, dict[str, Any]]] = {
        "may_decide": ("reject", {"reason": "x"}),
        "may_withdraw": ("withdraw", {"reason": "x"}),
        "may_edit": ("edit", {"payload": {"n": 2}, "reason": "x"}),
        "may_refresh": ("refresh", {}),
    }
    for ability, (verb, body) in sent.items():
        job = await stage.submit(keys["bot"])
        await bring(stage, job, state, keys)
        told = await you(stage, job, keys[who])

        answer = await stage.call("POST", f"approvals/{job}/{verb}", keys[who], body or None)

        did = answer.status == 200 and not answer.word.startswith("already_")
        assert told[ability] == did, (ability, answer.document)
        if ability == "may_decide" and answer.status != 200:
            assert told["why_not"] == answer.word


async def bring(stage: Stage, job: str, state: str, keys: dict[str, str]) -> None:
    if state in ("voted", "grace"):
        await stage.approve(job, keys["ada"])
    if state == "grace":
        await stage.approve(job, keys["cyd"])
    if state == "rejected":
        await stage.reject(job, keys["cyd"])
    if state == "cancelled":
        await stage.call("POST", f"jobs/{job}/cancel", keys["bot"], {})
    if state == "expired":
        await pass_time(stage, 86_401)


async def test_escalations_are_shown_as_they_come(stage: Stage) -> None:
    await stage.policy(TWO)
    ada = await stage.person("ada", groups=("finance",))
    job = await stage.submit(await stage.agent(), topic="money")

    def told(request: Any) -> Any:
        happened = [each["happened"] for each in request["escalations"]]
        return happened, request["next_escalation_at"], request["next_escalation_groups"]

    request = await shown(stage, job)
    assert [each["groups"] for each in request["escalations"]] == [["leads"], ["board"]]
    assert told(request) == ([False, False], "2030-01-01T00:30:00Z", ["leads"])
    await pass_time(stage, 1800)
    assert told(await shown(stage, job)) == ([True, False], "2030-01-01T01:00:00Z", ["board"])

    await stage.approve(job, ada)
    await pass_time(stage, 7200)

    assert told(await shown(stage, job)) == ([True, False], None, [])


async def test_the_takers_are_who_claimed_this_topic_last(durable: Stage) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    for name in ("w1", "w2", "w3", "w4", "w2"):
        worker = await durable.key(name, "worker", "work")
        await durable.approve(await durable.submit(bot), ada)
        claimed = await durable.call("POST", "jobs/claim", worker, {"topics": ["pay"]})
        assert len(claimed.document["jobs"]) == 1
    other = await durable.key("stranger", "worker", "work")
    await durable.submit(bot, topic="read")
    await durable.call("POST", "jobs/claim", other, {"topics": ["read"]})

    job = await durable.submit(bot)

    assert (await shown(durable, job))["takers"] == ["w2", "w4", "w3"]
    assert (await shown(durable, await durable.submit(bot, executor="caller")))["takers"] == ["bot"]


RULES = """
version: v1
rules:
  - {id: readers, when: {topic: read}, decision: allow}
  - {id: small, when: {topic: pay}, if: payload.amount < 10, decision: allow}
  - {id: ask, when: {topic: pay}, decision: require_human, reason: money leaves}
  - {id: later, when: {topic: pay}, decision: deny}
"""


async def test_the_rules_say_why_it_was_asked_under_the_policy_that_asked(stage: Stage) -> None:
    await stage.policy(RULES)
    ada = await stage.person("ada")
    job = await stage.submit(await stage.agent(), {"amount": 50})
    rules = (await shown(stage, job))["rules"]

    assert [(each["id"], each["matched"]) for each in rules] == [
        ("readers", False), ("small", False), ("ask", True),
    ]  # fmt: skip
    assert "pay" in rules[0]["why"]
    assert rules[1]["why"] == "if: payload.amount < 10 was false"
    assert rules[2]["why"] == "money leaves"
    asked = {"topic": "pay", "payload": {"amount": 50}, "actor": {"id": "bot"}}
    said = (await stage.call("POST", "policy/evaluate", ada, asked)).document
    assert [(each["rule"], each["why"]) for each in said["trail"]] == [(r["id"], r["why"]) for r in rules[:2]]

    await stage.policy(ASK)
    assert (await shown(stage, job))["rules"] == rules


async def test_without_the_submitter_or_with_a_default_there_is_no_matching_rule(stage: Stage) -> None:
    await stage.policy(
        "version: v1\ndefault: require_human\nrules:\n  - {id: r, when: {topic: x}, decision: allow}\n"
    )
    job = await stage.submit(await stage.agent())
    assert [(each["id"], each["matched"]) for each in (await shown(stage, job))["rules"]] == [("r", False)]


async def test_at_most_fifty_rules_are_shown_the_one_that_asked_last(stage: Stage) -> None:
    many = "".join(f"  - {{id: r{n}, when: {{topic: x}}, decision: allow}}\n" for n in range(80))
    await stage.policy(
        f"version: v1\nrules:\n{many}  - {{id: ask, when: {{topic: pay}}, decision: require_human}}\n"
    )
    rules = (await shown(stage, await stage.submit(await stage.agent())))["rules"]
    assert (len(rules), rules[0]["id"], rules[-1]["id"]) == (50, "r31", "ask")
