"""Where the submitter of a job asks people too: never less than the policy asks for, and a rule that denies stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import InProcessApi, Seen

RULES = """
version: v1
mode: {mode}
rules:
  - {{id: free, when: {{topic: free}}, decision: allow}}
  - {{id: no, when: {{topic: [no, exec.no]}}, decision: deny}}
  - {{id: ask, when: {{topic: ask}}, decision: require_human, approval: {{quorum: 2}}}}
  - {{id: leads, when: {{topic: leads}}, decision: require_human, approval: {{groups: [leads]}}}}
  - {{id: either, when: {{topic: either}}, decision: require_human, approval: {{groups: [leads, ops]}}}}
  - {{id: slow, when: {{topic: slow}}, decision: throttle, throttle: {{rate: 1/h, burst: 1}}, then: allow}}
  - {{id: broken, when: {{topic: broken}}, if: payload.missing > 1, decision: deny}}
"""


async def submit(api: InProcessApi, topic: str, **more: Any) -> Seen:
    body = {"topic": topic, "payload": {}, "approval": {"groups": ["ops"]}, **more}
    return await api.call("POST", "jobs", await api.agent(), body)


async def policy(api: InProcessApi, mode: str = "enforce") -> None:
    await api.policy(RULES.format(mode=mode))


@pytest.mark.parametrize(
    ("topic", "status", "asked"),
    [
        ("free", 202, (1, ["ops"])),
        ("slow", 202, (1, ["ops"])),
        ("ask", 202, (2, ["ops"])),
        ("leads", 202, (1, ["leads"])),
        ("either", 202, (1, ["ops"])),
        ("exec.unknown", 202, (1, ["ops"])),
        ("unknown", 403, None),
        ("no", 403, None),
        ("exec.no", 403, None),
        ("broken", 403, None),
    ],
)
async def test_people_are_asked_for_no_less_than_the_policy_asks(
    api: InProcessApi, topic: str, status: int, asked: tuple[int, list[str]] | None
) -> None:
    await policy(api)

    seen = await submit(api, topic)

    assert seen.status == status
    approval = seen.document.get("approval")
    assert asked == (None if approval is None else (approval["quorum"], approval["groups"]))


async def test_a_throttle_still_lets_no_more_through(api: InProcessApi) -> None:
    await policy(api)
    await submit(api, "slow")

    assert (await submit(api, "slow")).status == 429


@pytest.mark.parametrize(("topic", "status"), [("free", 202), ("no", 202), ("exec.no", 202), ("broken", 202)])
async def test_a_policy_that_only_observes_keeps_nobody_from_being_asked(
    api: InProcessApi, topic: str, status: int
) -> None:
    await policy(api, "observe")

    assert (await submit(api, topic)).status == status


@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_only_those_who_were_asked_decide_and_then_it_may_run(api: InProcessApi, mode: str) -> None:
    await policy(api, mode)
    olga, eve = await api.person("olga", groups=("ops",)), await api.person("eve")
    job = (await submit(api, "free")).document["id"]
    hand = await api.key("hand", "worker", "work")

    assert (await api.approve(job, eve)).word == "not_eligible"
    assert (await api.approve(job, olga)).word == "approved"
    claimed = await api.call("POST", "jobs/claim", hand, {"topics": ["free"]})
    assert [each["id"] for each in claimed.document["jobs"]] == [job]


async def test_an_edit_and_a_refresh_ask_the_same_people_again(api: InProcessApi) -> None:
    await policy(api)
    ada = await api.person("ada")
    job = (await submit(api, "free")).document["id"]

    edited = await api.call("POST", f"approvals/{job}/edit", ada, {"payload": {"n": 1}, "reason": "better"})
    refreshed = await api.call("POST", f"approvals/{job}/refresh", ada, {})

    for seen in (edited, refreshed):
        assert (seen.document["state"], seen.document["approval"]["groups"]) == ("APPROVAL", ["ops"])


async def test_the_policy_explains_what_asking_people_comes_to(api: InProcessApi) -> None:
    await policy(api)
    body = {"topic": "exec.unknown", "payload": {}, "approval": {"groups": ["ops"]}}

    seen = await api.call("POST", "policy/evaluate", await api.agent(), body)

    assert (seen.document["decision"], seen.document["approval"]["groups"]) == ("require_human", ["ops"])


async def test_whom_the_submitter_asks_is_no_part_of_what_is_hashed(api: InProcessApi) -> None:
    await policy(api)
    asked = await submit(api, "free")
    plain = await api.call("POST", "jobs", await api.agent(), {"topic": "free", "payload": {}})

    assert asked.document["job_hash"] == plain.document["job_hash"]


async def test_interlocks_own_label_says_nothing_if_the_submitter_wrote_it(api: InProcessApi) -> None:
    await policy(api)
    bot = await api.agent()
    plain, labelled = [
        await api.call("POST", "jobs", bot, {"topic": "free", "payload": {}, "labels": labels})
        for labels in ({"team": "ops"}, {"team": "ops", "approval_granted": "true"})
    ]

    assert labelled.document["labels"] == {"team": "ops"}
    assert labelled.document["job_hash"] == plain.document["job_hash"]
