"""One decision each, made once, with one event and one audit entry."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

QUORUM_TWO = """
version: v1
rules:
  - {id: two, when: {topic: pay}, decision: require_human, approval: {quorum: 2}}
"""


async def test_a_yes_releases_the_job_with_label_decision_event_and_audit_entry(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, {"amount": 5})
    api.clock.advance(60)

    decided = await api.approve(job, ada, reason="looks right", note="checked the invoice")

    assert decided.status == 200
    assert decided.document["outcome"] == "approved"
    assert decided.document["state"] == "PENDING"
    after = await api.job(job)
    assert after["state"] == "PENDING"
    assert after["labels"]["approval_granted"] == "true"
    assert after["approval"]["decision_id"] == decided.document["decision_id"] is not None
    assert after["approval"]["decided_by"] == "ada"
    assert after["approval"]["reason"] == "looks right"
    assert after["approval"]["note"] == "checked the invoice"
    assert after["approval"]["decided_at"] == after["updated_at"] == "2030-01-01T00:01:00Z"
    assert await api.events(job) == ["approval.requested", "approval.approved"]
    assert await api.audit(job) == [("submit", "done"), ("approve", "done")]


async def test_a_second_yes_changes_nothing_and_names_the_same_decision(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    first = await api.approve(job, ada)
    before = await api.job(job)

    second = await api.approve(job, bob)

    assert (second.status, second.word) == (200, "already_approved")
    assert second.document["decision_id"] == first.document["decision_id"]
    assert second.document["decided_by"] == "ada"
    assert await api.job(job) == before
    assert (await api.events(job)).count("approval.approved") == 1
    assert [action for action, _ in await api.audit(job)].count("approve") == 1


async def test_a_no_decides_at_once_whatever_the_quorum(api: InProcessApi) -> None:
    await api.policy(QUORUM_TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)

    decided = await api.reject(job, bob, reason="wrong amount", code="wrong_amount")

    assert (decided.status, decided.word) == (200, "rejected")
    assert decided.document["state"] == "DENIED"
    assert (await api.job(job))["approval"]["code"] == "wrong_amount"
    assert (await api.events(job))[-1] == "approval.rejected"


async def test_a_second_no_is_already_rejected(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    first = await api.reject(job, ada)

    second = await api.reject(job, bob)

    assert (second.status, second.word) == (200, "already_rejected")
    assert second.document["decision_id"] == first.document["decision_id"]
    assert (await api.events(job)).count("approval.rejected") == 1


async def test_a_yes_after_a_no_is_refused_and_names_who_and_when(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    api.clock.advance(60)
    decided = await api.reject(job, ada)
    api.clock.advance(60)

    late = await api.approve(job, bob)

    assert (late.status, late.word) == (409, "already_rejected")
    assert late.document["decided_by"] == "ada"
    assert late.document["decided_at"] == "2030-01-01T00:01:00Z"
    assert late.document["decision_id"] == decided.document["decision_id"]
    assert (await api.job(job))["state"] == "DENIED"
    assert (await api.audit(job))[-1] == ("approve_refused", "AlreadyRejected")


async def test_a_no_after_a_yes_is_refused_and_names_who_and_when(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)

    late = await api.reject(job, bob)

    assert (late.status, late.word) == (409, "already_approved")
    assert late.document["decided_by"] == "ada"
    assert (await api.job(job))["state"] == "PENDING"


async def test_two_people_must_agree_where_the_quorum_is_two(api: InProcessApi) -> None:
    await api.policy(QUORUM_TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)

    first = await api.approve(job, ada)
    second = await api.approve(job, bob)

    assert (first.status, first.word) == (200, "vote_recorded")
    assert (first.document["votes"], first.document["quorum"]) == (1, 2)
    assert first.document["state"] == "APPROVAL"
    assert (second.word, second.document["votes"]) == ("approved", 2)
    assert await api.events(job) == ["approval.requested", "approval.vote_recorded", "approval.approved"]


async def test_one_person_voting_twice_is_one_vote(api: InProcessApi) -> None:
    await api.policy(QUORUM_TWO)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.approve(job, ada)

    again = await api.approve(job, ada)

    assert (again.word, again.document["votes"]) == ("vote_recorded", 1)
    assert (await api.events(job)).count("approval.vote_recorded") == 1
    assert (await api.job(job))["state"] == "APPROVAL"


async def test_a_job_that_asks_nobody_cannot_be_decided(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, topic="read")

    assert (await api.approve(job, ada)).word == "not_actionable"
    assert (await api.reject(job, ada)).word == "not_actionable"


async def test_a_denied_job_cannot_be_approved(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    denied = await api.propose(bot, topic="launch")

    late = await api.approve(denied.document["job_id"], ada)

    assert (late.status, late.word) == (409, "not_actionable")
    assert late.document["state"] == "DENIED"


async def test_a_cancelled_job_cannot_be_approved(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.call("POST", f"jobs/{job}/cancel", bot, {})

    late = await api.approve(job, ada)

    assert (late.status, late.word) == (409, "not_actionable")
    assert (await api.job(job))["state"] == "CANCELLED"


async def test_an_unknown_job_is_not_found(api: InProcessApi) -> None:
    ada = await api.person("ada")

    assert (await api.approve("job_none", ada)).word == "not_found"
    assert (await api.reject("job_none", ada)).word == "not_found"


async def test_a_reviewer_who_saw_another_version_is_told_so(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    seen = (await api.job(job))["job_hash"]

    other = await api.approve(job, ada, job_hash="sha256:" + "0" * 64)
    same = await api.approve(job, ada, job_hash=seen)

    assert (other.status, other.word, other.document["job_hash"]) == (409, "hash_mismatch", seen)
    assert same.word == "approved"


async def test_a_burst_in_one_batch_has_one_winner(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    people = [await api.person(f"p{n}") for n in range(10)]
    job = await api.submit(bot)

    answers = await asyncio.gather(
        *(api.approve(job, key) if n % 2 else api.reject(job, key) for n, key in enumerate(people * 5))
    )

    deciding = [answer for answer in answers if answer.word in ("approved", "rejected")]
    assert len(deciding) == 1
    final = (await api.job(job))["state"]
    assert final == {"approved": "PENDING", "rejected": "DENIED"}[deciding[0].word]
    events = [event for event in await api.events(job) if event in ("approval.approved", "approval.rejected")]
    assert len(events) == 1
    assert {answer.status for answer in answers} == {200, 409}


async def test_a_yes_to_another_version_than_the_one_approved_is_told_so(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot, {"amount": 1})
    old = (await api.job(job))["job_hash"]
    await api.call("POST", f"approvals/{job}/edit", bot, {"payload": {"amount": 2}, "reason": "more"})
    new = (await api.job(job))["job_hash"]
    await api.approve(job, ada, job_hash=new)

    seen = await api.approve(job, bob, job_hash=old)

    assert (seen.status, seen.word, seen.document["job_hash"]) == (409, "hash_mismatch", new)
    assert (await api.approve(job, bob, job_hash=new)).word == "already_approved"


async def test_a_job_that_was_cancelled_after_a_yes_cannot_be_decided(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await api.call("POST", f"jobs/{job}/cancel", bot, {})

    for seen in (await api.approve(job, bob), await api.reject(job, bob)):
        assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "CANCELLED")


@pytest.mark.parametrize("swept", [True, False])
async def test_a_job_whose_time_ran_out_after_a_yes_cannot_be_decided(api: InProcessApi, swept: bool) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot, expires_in="1m")
    await api.approve(job, ada)
    api.clock.advance(60)
    if swept:
        await api.sweep()

    for seen in (await api.approve(job, bob), await api.reject(job, bob)):
        assert (seen.status, seen.word, seen.document["state"]) == (409, "approval_expired", "EXPIRED")


async def test_a_yes_to_what_is_done_names_the_decision_and_a_no_says_that_it_is_done(
    api: InProcessApi,
) -> None:
    await api.policy(ASK)
    bot, ada, hand = await api.agent(), await api.person("ada"), await api.key("hand", "worker", "work")
    job = await api.submit(bot)
    await api.approve(job, ada)
    (held,) = (await api.call("POST", "jobs/claim", hand, {"topics": ["pay"]})).document["jobs"]
    await api.call("POST", f"jobs/{job}/complete", hand, {"fence": held["fence"], "result": 1})

    yes, no = await api.approve(job, ada), await api.reject(job, ada)

    assert (yes.status, yes.word, yes.document["state"]) == (200, "already_approved", "SUCCEEDED")
    assert (no.status, no.word) == (409, "already_approved")
    assert no.document["detail"].endswith("it is SUCCEEDED by now")
