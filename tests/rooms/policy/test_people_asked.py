"""Where whoever submits a job asks people too: never less than the policy asks for, and a rule that denies stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import Seen, Stage

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


async def submit(stage: Stage, topic: str, **more: Any) -> Seen:
    body = {"topic": topic, "payload": {}, "approval": {"groups": ["ops"]}, **more}
    return await stage.call("POST", "jobs", await stage.agent(), body)


async def policy(stage: Stage, mode: str = "enforce") -> None:
    await stage.policy(RULES.format(mode=mode))


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
    stage: Stage, topic: str, status: int, asked: tuple[int, list[str]] | None
) -> None:
    await policy(stage)

    seen = await submit(stage, topic)

    assert seen.status == status
    approval = seen.document.get("approval")
    assert asked == (None if approval is None else (approval["quorum"], approval["groups"]))


async def test_a_throttle_still_lets_no_more_through(stage: Stage) -> None:
    await policy(stage)
    await submit(stage, "slow")

    assert (await submit(stage, "slow")).status == 429


@pytest.mark.parametrize(("topic", "status"), [("free", 202), ("no", 202), ("exec.no", 202), ("broken", 202)])
async def test_a_policy_that_only_observes_keeps_nobody_from_being_asked(
    stage: Stage, topic: str, status: int
) -> None:
    await policy(stage, "observe")

    assert (await submit(stage, topic)).status == status


@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_only_those_who_were_asked_decide_and_then_it_may_run(stage: Stage, mode: str) -> None:
    await policy(stage, mode)
    olga, eve = await stage.person("olga", groups=("ops",)), await stage.person("eve")
    job = (await submit(stage, "free")).document["id"]
    hand = await stage.key("hand", "worker", "work")

    assert (await stage.approve(job, eve)).word == "not_eligible"
    assert (await stage.approve(job, olga)).word == "approved"
    claimed = await stage.call("POST", "jobs/claim", hand, {"topics": ["free"]})
    assert [each["id"] for each in claimed.document["jobs"]] == [job]


async def test_an_edit_and_a_refresh_ask_the_same_people_again(stage: Stage) -> None:
    await policy(stage)
    ada = await stage.person("ada")
    job = (await submit(stage, "free")).document["id"]

    edited = await stage.call("POST", f"approvals/{job}/edit", ada, {"payload": {"n": 1}, "reason": "better"})
    refreshed = await stage.call("POST", f"approvals/{job}/refresh", ada, {})

    for seen in (edited, refreshed):
        assert (seen.document["state"], seen.document["approval"]["groups"]) == ("APPROVAL", ["ops"])


async def test_the_policy_explains_what_asking_people_comes_to(stage: Stage) -> None:
    await policy(stage)
    body = {"topic": "exec.unknown", "payload": {}, "approval": {"groups": ["ops"]}}

    seen = await stage.call("POST", "policy/evaluate", await stage.agent(), body)

    assert (seen.document["decision"], seen.document["approval"]["groups"]) == ("require_human", ["ops"])


async def test_whom_the_submitter_asks_is_no_part_of_what_is_hashed(stage: Stage) -> None:
    await policy(stage)
    asked = await submit(stage, "free")
    plain = await stage.call("POST", "jobs", await stage.agent(), {"topic": "free", "payload": {}})

    assert asked.document["job_hash"] == plain.document["job_hash"]


async def test_interlocks_own_label_says_nothing_if_the_submitter_wrote_it(stage: Stage) -> None:
    await policy(stage)
    bot = await stage.agent()
    plain, labelled = [
        await stage.call("POST", "jobs", bot, {"topic": "free", "payload": {}, "labels": labels})
        for labels in ({"team": "ops"}, {"team": "ops", "approval_granted": "true"})
    ]

    assert labelled.document["labels"] == {"team": "ops"}
    assert labelled.document["job_hash"] == plain.document["job_hash"]
