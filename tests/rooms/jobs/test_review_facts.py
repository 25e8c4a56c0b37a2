"""What the page of a request says of people, escalation, workers and rules."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.ids import TellTime
from tests.harness.in_process_api import ASK, InProcessApi

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


async def pass_time(api: InProcessApi, seconds: float) -> None:
    """Let time go by, and let the server hear of it; no sweep runs."""
    api.clock.advance(seconds)
    await api.service.kernel.run(TellTime())


async def shown(api: InProcessApi, job: str, key: str | None = None) -> Any:
    return await api.get(f"approvals/{job}", key)


async def you(api: InProcessApi, job: str, key: str) -> Any:
    return (await shown(api, job, key))["you"]


async def test_the_eligible_are_those_whom_people_able_counts(api: InProcessApi) -> None:
    await api.policy(TWO)
    ada = await api.person("ada")
    await api.person("ada-phone", owner="ada")
    await api.person("bob")
    await api.person("eve", "submit")
    job = await api.submit(await api.agent("bot", owner="bob"))
    await api.approve(job, ada)

    request = await shown(api, job)

    assert (request["eligible"], request["people_able"]) == (["ada"], 1)


async def test_whom_a_submitter_acts_for_is_the_end_of_its_chain_of_owners(api: InProcessApi) -> None:
    await api.policy(ASK)
    ada = await api.person("ada")
    await api.person("bob", "submit")
    await api.agent("lead", owner="bob")
    helper = await api.agent("helper", owner="lead")

    asked, own = await api.submit(helper), await api.submit(await api.key("bob", "person", "submit"))

    for job, whom in ((asked, "bob"), (own, None)):
        assert (await shown(api, job))["submitted_for"] == whom
    inbox = (await api.get("inbox", ada))["items"]
    assert {each["id"]: each["submitted_for"] for each in inbox} == {asked: "bob", own: None}


async def test_twenty_names_are_shown_and_all_are_counted(api: InProcessApi) -> None:
    await api.policy(ASK)
    for number in range(25):
        await api.person(f"p{number:02}")
    request = await shown(api, await api.submit(await api.agent()))
    assert (request["eligible"], request["people_able"]) == ([f"p{n:02}" for n in range(20)], 25)


async def test_you_may_what_the_commands_would_let_you(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(owner="bob"), await api.person("ada"), await api.person("bob")
    eye = await api.person("eye", "audit")
    job = await api.submit(bot)

    fresh = {**NOTHING, "may_decide": True, "why_not": None, "may_edit": True, "may_refresh": True}
    assert await you(api, job, ada) == fresh
    assert await you(api, job, eye) == NOTHING
    own = {**fresh, "may_decide": False, "why_not": "self_approval"}
    assert await you(api, job, bob) == own
    assert await you(api, job, bot) == {**own, "why_not": "people_only"}

    await api.approve(job, ada)
    assert await you(api, job, ada) == {**fresh, "voted": True, "may_withdraw": True}
    await api.approve(job, await api.person("cyd"))
    decided = {**NOTHING, "why_not": "already_approved", "voted": True, "may_withdraw": True}
    assert await you(api, job, ada) == decided
    await pass_time(api, 31)
    assert await you(api, job, ada) == {**decided, "may_withdraw": False}


async def test_you_may_not_what_the_route_does_not_let_your_roles_do(api: InProcessApi) -> None:
    await api.policy(TWO)
    job = await api.submit(await api.person("sam", "submit"))
    sam = await api.person("sam", "audit")

    assert await you(api, job, sam) == NOTHING
    for verb, body in (("edit", {"payload": {}, "reason": "x"}), ("refresh", None)):
        assert (await api.call("POST", f"approvals/{job}/{verb}", sam, body)).word == "forbidden"


@pytest.mark.parametrize("who", ["ada", "bob", "bot", "eye", "fin"])
@pytest.mark.parametrize("state", ["waiting", "voted", "rejected", "expired", "cancelled", "grace"])
async def test_what_you_may_do_is_what_happens_when_you_do_it(
    api: InProcessApi, who: str, state: str
) -> None:
    """Each ability is tried on a request of its own, in every state, by everybody."""
    await api.policy(TWO)
    keys = {
        "bot": await api.agent(owner="bob"),
        "ada": await api.person("ada"),
        "bob": await api.person("bob"),
        "eye": await api.person("eye", "audit"),
        "fin": await api.person("fin", groups=("finance",)),
        "cyd": await api.person("cyd"),
    }
    sent: dict[str, tuple[str, dict[str, Any]]] = {
        "may_decide": ("reject", {"reason": "x"}),
        "may_withdraw": ("withdraw", {"reason": "x"}),
        "may_edit": ("edit", {"payload": {"n": 2}, "reason": "x"}),
        "may_refresh": ("refresh", {}),
    }
    for ability, (verb, body) in sent.items():
        job = await api.submit(keys["bot"])
        await bring(api, job, state, keys)
        told = await you(api, job, keys[who])

        answer = await api.call("POST", f"approvals/{job}/{verb}", keys[who], body or None)

        did = answer.status == 200 and not answer.word.startswith("already_")
        assert told[ability] == did, (ability, answer.document)
        if ability == "may_decide" and answer.status != 200:
            assert told["why_not"] == answer.word


async def bring(api: InProcessApi, job: str, state: str, keys: dict[str, str]) -> None:
    if state in ("voted", "grace"):
        await api.approve(job, keys["ada"])
    if state == "grace":
        await api.approve(job, keys["cyd"])
    if state == "rejected":
        await api.reject(job, keys["cyd"])
    if state == "cancelled":
        await api.call("POST", f"jobs/{job}/cancel", keys["bot"], {})
    if state == "expired":
        await pass_time(api, 86_401)


async def test_escalations_are_shown_as_they_come(api: InProcessApi) -> None:
    await api.policy(TWO)
    ada = await api.person("ada", groups=("finance",))
    job = await api.submit(await api.agent(), topic="money")

    def told(request: Any) -> Any:
        happened = [each["happened"] for each in request["escalations"]]
        return happened, request["next_escalation_at"], request["next_escalation_groups"]

    request = await shown(api, job)
    assert [each["groups"] for each in request["escalations"]] == [["leads"], ["board"]]
    assert told(request) == ([False, False], "2030-01-01T00:30:00Z", ["leads"])
    await pass_time(api, 1800)
    assert told(await shown(api, job)) == ([True, False], "2030-01-01T01:00:00Z", ["board"])

    await api.approve(job, ada)
    await pass_time(api, 7200)

    assert told(await shown(api, job)) == ([True, False], None, [])


async def test_the_takers_are_who_claimed_this_topic_last(durable: InProcessApi) -> None:
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


async def test_the_rules_say_why_it_was_asked_under_the_policy_that_asked(api: InProcessApi) -> None:
    await api.policy(RULES)
    ada = await api.person("ada")
    job = await api.submit(await api.agent(), {"amount": 50})
    rules = (await shown(api, job))["rules"]

    assert [(each["id"], each["matched"]) for each in rules] == [
        ("readers", False), ("small", False), ("ask", True),
    ]  # fmt: skip
    assert "pay" in rules[0]["why"]
    assert rules[1]["why"] == "if: payload.amount < 10 was false"
    assert rules[2]["why"] == "money leaves"
    asked = {"topic": "pay", "payload": {"amount": 50}, "actor": {"id": "bot"}}
    said = (await api.call("POST", "policy/evaluate", ada, asked)).document
    assert [(each["rule"], each["why"]) for each in said["trail"]] == [(r["id"], r["why"]) for r in rules[:2]]

    await api.policy(ASK)
    assert (await shown(api, job))["rules"] == rules


async def test_without_the_submitter_or_with_a_default_there_is_no_matching_rule(api: InProcessApi) -> None:
    await api.policy(
        "version: v1\ndefault: require_human\nrules:\n  - {id: r, when: {topic: x}, decision: allow}\n"
    )
    job = await api.submit(await api.agent())
    assert [(each["id"], each["matched"]) for each in (await shown(api, job))["rules"]] == [("r", False)]


async def test_at_most_fifty_rules_are_shown_the_one_that_asked_last(api: InProcessApi) -> None:
    many = "".join(f"  - {{id: r{n}, when: {{topic: x}}, decision: allow}}\n" for n in range(80))
    await api.policy(
        f"version: v1\nrules:\n{many}  - {{id: ask, when: {{topic: pay}}, decision: require_human}}\n"
    )
    rules = (await shown(api, await api.submit(await api.agent())))["rules"]
    assert (len(rules), rules[0]["id"], rules[-1]["id"]) == (50, "r31", "ask")
