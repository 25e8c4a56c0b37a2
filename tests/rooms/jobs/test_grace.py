"""After the deciding yes there is a grace: its voter may take it back, and nobody may carry the job out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.wire.http import Request
from tests.harness.in_process_api import InProcessApi, Seen

GRACE = """
version: v1
rules:
  - {id: one, when: {topic: pay}, decision: require_human, approval: {grace: 30s, expires_in: 1h}}
  - {id: two, when: {topic: pay.two}, decision: require_human, approval: {grace: 30s, quorum: 2}}
  - {id: none, when: {topic: pay.now}, decision: require_human}
"""


async def withdraw(api: InProcessApi, job: str, key: str, reason: str = "too soon") -> Seen:
    return await api.call("POST", f"approvals/{job}/withdraw", key, {"reason": reason})


async def claim(api: InProcessApi, key: str, topic: str = "pay") -> Any:
    return (await api.call("POST", "jobs/claim", key, {"topics": [topic]})).document["jobs"]


@pytest.fixture
async def keys(api: InProcessApi) -> dict[str, str]:
    await api.policy(GRACE)
    people = {name: await api.person(name) for name in ("ada", "bob", "eve")}
    return {**people, "bot": await api.agent(), "hand": await api.key("hand", "worker", "work")}


async def test_a_job_is_not_claimable_before_the_grace_is_over(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    decided = await api.approve(job, keys["ada"])

    assert (decided.word, decided.document["state"]) == ("approved", "PENDING")
    assert decided.document["grace_until"] == "2030-01-01T00:00:30Z"
    shown = await api.job(job)
    assert shown["not_before"] == shown["approval"]["grace_until"] == "2030-01-01T00:00:30Z"
    assert shown["approval"]["in_grace"] is True
    api.clock.advance(29)
    assert await claim(api, keys["hand"]) == []
    api.clock.advance(1)
    assert [each["id"] for each in await claim(api, keys["hand"])] == [job]


async def test_a_worker_that_waits_gets_the_job_when_the_grace_ends(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    body = {"topics": ["pay"], "wait_seconds": 30}
    waiting = asyncio.create_task(api.call("POST", "jobs/claim", keys["hand"], body))
    await api.approve(job, keys["ada"])
    await asyncio.sleep(0.05)
    assert not waiting.done()

    api.clock.advance(30)

    assert [each["id"] for each in (await waiting).document["jobs"]] == [job]


@pytest.mark.parametrize(("executor", "who"), [("worker", "hand"), ("caller", "bot")])
async def test_a_claim_by_id_is_told_when_the_grace_ends(
    api: InProcessApi, keys: dict[str, str], executor: str, who: str
) -> None:
    job = await api.submit(keys["bot"], executor=executor)
    await api.approve(job, keys["ada"])
    api.clock.advance(20)

    early = await api.call("POST", f"jobs/{job}/claim", keys[who], {})

    assert (early.status, early.word) == (409, "in_grace")
    assert early.document["retryable"] is True
    assert early.document["retry_after_ms"] == 10_000
    assert early.headers["retry-after"] == "10"
    api.clock.advance(10)
    assert (await api.call("POST", f"jobs/{job}/claim", keys[who], {})).status == 200


async def test_a_withdrawal_undoes_the_decision_with_label_event_and_audit_entry(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    decision = (await api.approve(job, keys["ada"], reason="fine")).document["decision_id"]
    api.clock.advance(29)

    undone = await withdraw(api, job, keys["ada"], "the wrong invoice")

    assert (undone.status, undone.word) == (200, "withdrawn")
    assert (undone.document["state"], undone.document["votes"], undone.document["quorum"]) == (
        "APPROVAL",
        0,
        1,
    )
    after = await api.job(job)
    assert (after["state"], after["approval"]["state"], after["not_before"]) == ("APPROVAL", "pending", None)
    assert "approval_granted" not in after["labels"]
    assert after["approval"]["decision_id"] is after["approval"]["grace_until"] is None
    assert (await api.events(job))[-1] == "approval.withdrawn"
    entry = (await api.get(f"jobs/{job}/history"))["items"][0]
    assert (entry["action"], entry["actor"]) == ("withdraw", "ada")
    assert entry["details"]["decision_id"] == decision
    assert entry["details"]["reason"] == "the wrong invoice"
    api.clock.advance(60)
    assert await claim(api, keys["hand"]) == []
    assert (await api.approve(job, keys["bob"])).word == "approved"


async def test_a_withdrawal_takes_back_ones_own_vote_alone(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"], topic="pay.two")
    await api.approve(job, keys["ada"])
    await api.approve(job, keys["bob"])

    undone = await withdraw(api, job, keys["ada"])

    assert undone.document["votes"] == 1
    assert [vote["principal"] for vote in (await api.job(job))["approval"]["votes"]] == ["bob"]
    assert (await withdraw(api, job, keys["bob"])).document["votes"] == 0


async def test_whoever_did_not_vote_withdraws_nothing(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"])
    await api.approve(job, keys["ada"])
    before = await api.job(job)

    refused = await withdraw(api, job, keys["eve"])
    agents = await withdraw(api, job, keys["bot"])

    assert (refused.status, refused.word) == (403, "not_eligible")
    assert "ask ada" in refused.document["detail"]
    assert (agents.status, agents.word) == (403, "people_only")
    assert await api.job(job) == before
    assert ("withdraw_refused", "NotAVoter") in await api.audit(job)


@pytest.mark.parametrize(
    ("topic", "seconds", "says"),
    [("pay", 30, "ended at 2030-01-01T00:00:30Z"), ("pay.now", 0, "gives no grace")],
)
async def test_after_the_grace_or_without_one_a_yes_stands(
    api: InProcessApi, keys: dict[str, str], topic: str, seconds: int, says: str
) -> None:
    job = await api.submit(keys["bot"], topic=topic)
    await api.approve(job, keys["ada"])
    api.clock.advance(seconds)

    late = await withdraw(api, job, keys["ada"])

    assert (late.status, late.word) == (409, "not_actionable")
    assert says in late.document["detail"]
    assert "cancel the job" in late.document["detail"]
    assert len(await claim(api, keys["hand"], topic)) == 1
    running = await withdraw(api, job, keys["ada"])
    assert (running.status, running.document["state"]) == (409, "RUNNING")


async def test_a_request_whose_time_ran_out_in_the_grace_is_expired_once_withdrawn(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    api.clock.advance(3590)
    await api.approve(job, keys["ada"])
    api.clock.advance(20)

    assert (await withdraw(api, job, keys["ada"])).status == 200
    assert (await api.job(job))["state"] == "EXPIRED"


async def test_a_policy_without_grace_keeps_its_snapshot_and_grace_is_bounded(api: InProcessApi) -> None:
    def policy(grace: str) -> str:
        return GRACE.replace("grace: 30s", f"grace: {grace}")

    assert await api.policy(policy("60s")) == await api.policy(policy("1m"))
    for wrong in ("30", "0s", "25h", "soon"):
        refused = await api.call(
            "PUT", "policy", api.admin, policy(wrong).encode(), headers={"content-type": "text/yaml"}
        )
        assert refused.status == 400, wrong


@pytest.mark.parametrize(
    ("said", "kept"), [(None, "api"), ("cli", "cli"), ("sdk", "sdk"), ("console", "api"), ("Slack", "api")]
)
async def test_a_vote_records_where_it_was_given_and_no_header_makes_it_the_consoles(
    api: InProcessApi, keys: dict[str, str], said: str | None, kept: str
) -> None:
    job = await api.submit(keys["bot"])
    headers = {} if said is None else {"interlock-via": said}

    await api.call("POST", f"approvals/{job}/approve", keys["ada"], {}, headers=headers)

    approval = (await api.job(job))["approval"]
    assert (approval["votes"][0]["via"], approval["decided_via"]) == (kept, kept)


async def test_a_part_of_this_process_may_say_that_a_vote_came_from_the_console(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    headers = {"authorization": f"Bearer {keys['ada']}", "interlock-via": "cli"}

    await api.app.respond(
        Request(method="POST", path=f"/api/v1/approvals/{job}/approve", headers=headers, made_via="console")
    )

    assert (await api.job(job))["approval"]["votes"][0]["via"] == "console"
