"""After the deciding yes there is a grace: whoever said yes may take it back, and nobody may carry the job out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.wire.http import Request
from tests.harness.in_process_api import Seen, Stage

GRACE = """
version: v1
rules:
  - {id: one, when: {topic: pay}, decision: require_human, approval: {grace: 30s, expires_in: 1h}}
  - {id: two, when: {topic: pay.two}, decision: require_human, approval: {grace: 30s, quorum: 2}}
  - {id: none, when: {topic: pay.now}, decision: require_human}
"""


async def withdraw(stage: Stage, job: str, key: str, reason: str = "too soon") -> Seen:
    return await stage.call("POST", f"approvals/{job}/withdraw", key, {"reason": reason})


async def claim(stage: Stage, key: str, topic: str = "pay") -> Any:
    return (await stage.call("POST", "jobs/claim", key, {"topics": [topic]})).document["jobs"]


@pytest.fixture
async def keys(stage: Stage) -> dict[str, str]:
    await stage.policy(GRACE)
    people = {name: await stage.person(name) for name in ("ada", "bob", "eve")}
    return {**people, "bot": await stage.agent(), "hand": await stage.key("hand", "worker", "work")}


async def test_a_job_is_not_claimable_before_the_grace_is_over(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    decided = await stage.approve(job, keys["ada"])

    assert (decided.word, decided.document["state"]) == ("approved", "PENDING")
    assert decided.document["grace_until"] == "2030-01-01T00:00:30Z"
    shown = await stage.job(job)
    assert shown["not_before"] == shown["approval"]["grace_until"] == "2030-01-01T00:00:30Z"
    assert shown["approval"]["in_grace"] is True
    stage.clock.advance(29)
    assert await claim(stage, keys["hand"]) == []
    stage.clock.advance(1)
    assert [each["id"] for each in await claim(stage, keys["hand"])] == [job]


async def test_a_worker_that_waits_gets_the_job_when_the_grace_ends(
    stage: Stage, keys: dict[str, str]
) -> None:
    job = await stage.submit(keys["bot"])
    body = {"topics": ["pay"], "wait_seconds": 30}
    waiting = asyncio.create_task(stage.call("POST", "jobs/claim", keys["hand"], body))
    await stage.approve(job, keys["ada"])
    await asyncio.sleep(0.05)
    assert not waiting.done()

    stage.clock.advance(30)

    assert [each["id"] for each in (await waiting).document["jobs"]] == [job]


@pytest.mark.parametrize(("executor", "who"), [("worker", "hand"), ("caller", "bot")])
async def test_a_claim_by_id_is_told_when_the_grace_ends(
    stage: Stage, keys: dict[str, str], executor: str, who: str
) -> None:
    job = await stage.submit(keys["bot"], executor=executor)
    await stage.approve(job, keys["ada"])
    stage.clock.advance(20)

    early = await stage.call("POST", f"jobs/{job}/claim", keys[who], {})

    assert (early.status, early.word) == (409, "in_grace")
    assert early.document["retryable"] is True
    assert early.document["retry_after_ms"] == 10_000
    assert early.headers["retry-after"] == "10"
    stage.clock.advance(10)
    assert (await stage.call("POST", f"jobs/{job}/claim", keys[who], {})).status == 200


async def test_a_withdrawal_undoes_the_decision_with_label_event_and_audit_entry(
    stage: Stage, keys: dict[str, str]
) -> None:
    job = await stage.submit(keys["bot"])
    decision = (await stage.approve(job, keys["ada"], reason="fine")).document["decision_id"]
    stage.clock.advance(29)

    undone = await withdraw(stage, job, keys["ada"], "the wrong invoice")

    assert (undone.status, undone.word) == (200, "withdrawn")
    assert (undone.document["state"], undone.document["votes"], undone.document["quorum"]) == (
        "APPROVAL",
        0,
        1,
    )
    after = await stage.job(job)
    assert (after["state"], after["approval"]["state"], after["not_before"]) == ("APPROVAL", "pending", None)
    assert "approval_granted" not in after["labels"]
    assert after["approval"]["decision_id"] is after["approval"]["grace_until"] is None
    assert (await stage.events(job))[-1] == "approval.withdrawn"
    entry = (await stage.get(f"jobs/{job}/history"))["items"][0]
    assert (entry["action"], entry["actor"]) == ("withdraw", "ada")
    assert entry["details"]["decision_id"] == decision
    assert entry["details"]["reason"] == "the wrong invoice"
    stage.clock.advance(60)
    assert await claim(stage, keys["hand"]) == []
    assert (await stage.approve(job, keys["bob"])).word == "approved"


async def test_a_withdrawal_takes_back_ones_own_vote_alone(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"], topic="pay.two")
    await stage.approve(job, keys["ada"])
    await stage.approve(job, keys["bob"])

    undone = await withdraw(stage, job, keys["ada"])

    assert undone.document["votes"] == 1
    assert [vote["principal"] for vote in (await stage.job(job))["approval"]["votes"]] == ["bob"]
    assert (await withdraw(stage, job, keys["bob"])).document["votes"] == 0


async def test_whoever_did_not_vote_withdraws_nothing(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    await stage.approve(job, keys["ada"])
    before = await stage.job(job)

    refused = await withdraw(stage, job, keys["eve"])
    agents = await withdraw(stage, job, keys["bot"])

    assert (refused.status, refused.word) == (403, "not_eligible")
    assert "ask ada" in refused.document["detail"]
    assert (agents.status, agents.word) == (403, "people_only")
    assert await stage.job(job) == before
    assert ("withdraw_refused", "NotAVoter") in await stage.audit(job)


@pytest.mark.parametrize(
    ("topic", "seconds", "says"),
    [("pay", 30, "ended at 2030-01-01T00:00:30Z"), ("pay.now", 0, "gives no grace")],
)
async def test_after_the_grace_or_without_one_a_yes_stands(
    stage: Stage, keys: dict[str, str], topic: str, seconds: int, says: str
) -> None:
    job = await stage.submit(keys["bot"], topic=topic)
    await stage.approve(job, keys["ada"])
    stage.clock.advance(seconds)

    late = await withdraw(stage, job, keys["ada"])

    assert (late.status, late.word) == (409, "not_actionable")
    assert says in late.document["detail"]
    assert "cancel the job" in late.document["detail"]
    assert len(await claim(stage, keys["hand"], topic)) == 1
    running = await withdraw(stage, job, keys["ada"])
    assert (running.status, running.document["state"]) == (409, "RUNNING")


async def test_a_request_whose_time_ran_out_in_the_grace_is_expired_once_withdrawn(
    stage: Stage, keys: dict[str, str]
) -> None:
    job = await stage.submit(keys["bot"])
    stage.clock.advance(3590)
    await stage.approve(job, keys["ada"])
    stage.clock.advance(20)

    assert (await withdraw(stage, job, keys["ada"])).status == 200
    assert (await stage.job(job))["state"] == "EXPIRED"


async def test_a_policy_without_grace_keeps_its_snapshot_and_grace_is_bounded(stage: Stage) -> None:
    def policy(grace: str) -> str:
        return GRACE.replace("grace: 30s", f"grace: {grace}")

    assert await stage.policy(policy("60s")) == await stage.policy(policy("1m"))
    for wrong in ("30", "0s", "25h", "soon"):
        refused = await stage.call(
            "PUT", "policy", stage.admin, policy(wrong).encode(), headers={"content-type": "text/yaml"}
        )
        assert refused.status == 400, wrong


@pytest.mark.parametrize(
    ("said", "kept"), [(None, "api"), ("cli", "cli"), ("sdk", "sdk"), ("console", "api"), ("Slack", "api")]
)
async def test_a_vote_records_where_it_was_given_and_no_header_makes_it_the_consoles(
    stage: Stage, keys: dict[str, str], said: str | None, kept: str
) -> None:
    job = await stage.submit(keys["bot"])
    headers = {} if said is None else {"interlock-via": said}

    await stage.call("POST", f"approvals/{job}/approve", keys["ada"], {}, headers=headers)

    approval = (await stage.job(job))["approval"]
    assert (approval["votes"][0]["via"], approval["decided_via"]) == (kept, kept)


async def test_a_part_of_this_process_may_say_that_a_vote_came_from_the_console(
    stage: Stage, keys: dict[str, str]
) -> None:
    job = await stage.submit(keys["bot"])
    headers = {"authorization": f"Bearer {keys['ada']}", "interlock-via": "cli"}

    await stage.app.respond(
        Request(method="POST", path=f"/api/v1/approvals/{job}/approve", headers=headers, made_via="console")
    )

    assert (await stage.job(job))["approval"]["votes"][0]["via"] == "console"
