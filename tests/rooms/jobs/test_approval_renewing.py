"""Asking again: after a change of policy, after an expiry, after an edit."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, Seen, Stage

LIMIT = """
version: v1
rules:
  - {id: small, when: {topic: pay}, if: payload.amount < 100, decision: allow}
  - {id: huge, when: {topic: pay}, if: payload.amount > 9000, decision: deny}
  - {id: ask, when: {topic: pay}, decision: require_human, approval: {quorum: 2}}
"""

FAILING = """
version: v1
rules:
  - id: ration
    when: {topic: pay}
    if: %s
    decision: throttle
    throttle: {rate: 1/h}
    then: allow
"""
COSTING = FAILING % f'"{COSTLY}"'
LACKING = FAILING % "payload.absent > 1"


async def refresh(stage: Stage, job: str, key: str) -> Seen:
    return await stage.call("POST", f"approvals/{job}/refresh", key, {})


async def edit(stage: Stage, job: str, key: str, payload: object, reason: str = "corrected") -> Seen:
    return await stage.call("POST", f"approvals/{job}/edit", key, {"payload": payload, "reason": reason})


async def forget(stage: Stage, name: str, key: str) -> None:
    await stage.call("POST", f"api-keys/{key.split('_')[1]}/revoke", stage.admin, {})
    assert (await stage.call("DELETE", f"principals/{name}", stage.admin)).status == 200


@pytest.mark.parametrize(
    ("decision", "state", "event"),
    [
        ("allow", "PENDING", "job.released"),
        ("deny", "DENIED", "job.denied"),
        ("require_human", "APPROVAL", "approval.requested"),
    ],
)
async def test_a_refresh_puts_the_job_where_the_policy_now_says(
    stage: Stage, decision: str, state: str, event: str
) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    now = await stage.policy(
        ASK.replace("decision: require_human", f"decision: {decision}") + "mode: enforce\n# v2\n"
    )

    seen = await refresh(stage, job, ada)

    assert (seen.status, seen.document["state"]) == (200, state)
    assert seen.document["policy_snapshot"] == now
    assert seen.document["decision"]["decision"] == decision
    assert (await stage.events(job))[-1] == event
    assert (await stage.audit(job))[-1] == ("refresh", "done")


async def test_a_refresh_clears_the_votes_and_keeps_the_old_request(stage: Stage) -> None:
    await stage.policy(LIMIT)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot, {"amount": 500})
    await stage.approve(job, ada)

    seen = await refresh(stage, job, bob)

    assert seen.document["approval"]["votes"] == []
    assert seen.document["approval"]["round"] == 2
    kept = (await stage.job(job))["revisions"]
    assert [vote["principal"] for vote in kept[0]["approval"]["votes"]] == ["ada"]
    assert (await stage.approve(job, bob)).word == "vote_recorded"


@pytest.mark.parametrize("outcome", ["approve", "reject", "cancel"])
async def test_a_decided_job_cannot_be_refreshed_or_edited(stage: Stage, outcome: str) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    if outcome == "cancel":
        await stage.call("POST", f"jobs/{job}/cancel", bot, {})
    else:
        await stage.call("POST", f"approvals/{job}/{outcome}", ada, {"reason": "so be it"})

    for again in (await refresh(stage, job, ada), await edit(stage, job, ada, {})):
        assert (again.status, again.word) == (409, "not_actionable")


async def test_an_edit_makes_a_new_hash_clears_the_votes_and_keeps_the_old_version(stage: Stage) -> None:
    await stage.policy(LIMIT)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot, {"amount": 500})
    before = await stage.job(job)
    await stage.approve(job, ada)

    seen = await edit(stage, job, bob, {"amount": 400}, "a digit too many")

    assert (seen.status, seen.document["state"]) == (200, "APPROVAL")
    assert seen.document["payload"] == {"amount": 400}
    assert seen.document["job_hash"] != before["job_hash"]
    assert seen.document["approval"]["job_hash"] == seen.document["job_hash"]
    assert seen.document["approval"]["votes"] == []
    old = (await stage.job(job))["revisions"][0]
    assert (old["payload"], old["job_hash"]) == ({"amount": 500}, before["job_hash"])
    assert (old["replaced_by"], old["why"]) == ("bob", "a digit too many")


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_a_machine_that_was_given_the_reviewers_role_asks_nothing_again(
    stage: Stage, kind: str
) -> None:
    await stage.policy(LIMIT)
    bot, ada = await stage.agent(), await stage.person("ada")
    machine = await stage.key("machine", kind, "review,work,submit")
    job = await stage.submit(bot, {"amount": 500})
    await stage.approve(job, ada)

    for no in (await refresh(stage, job, machine), await edit(stage, job, machine, {"amount": 9})):
        assert (no.status, no.word) == (403, "people_only")

    assert len((await stage.job(job))["approval"]["votes"]) == 1
    refused = [what for what, how in await stage.audit(job) if how == "PeopleOnly"]
    assert refused == ["refresh_refused", "edit_refused"]
    assert (await edit(stage, job, bot, {"amount": 400})).status == 200


async def test_an_edit_is_judged_by_the_policy_again(stage: Stage) -> None:
    await stage.policy(LIMIT)
    bot, ada = await stage.agent(), await stage.person("ada")
    small, huge = await stage.submit(bot, {"amount": 500}), await stage.submit(bot, {"amount": 500})

    assert (await edit(stage, small, ada, {"amount": 5})).document["state"] == "PENDING"
    assert (await edit(stage, huge, ada, {"amount": 9999})).document["state"] == "DENIED"
    assert "approval_granted" not in (await stage.job(small))["labels"]


async def test_whoever_edits_cannot_approve_what_they_wrote(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    phone = await stage.person("ada-phone", owner="ada")
    job = await stage.submit(bot, {"amount": 1})
    seen = (await edit(stage, job, ada, {"amount": 2})).document["job_hash"]

    assert (await stage.approve(job, ada)).word == "self_approval"
    assert (await stage.approve(job, phone)).word == "self_approval"
    assert (await stage.approve(job, bob, job_hash=seen)).word == "approved"


async def test_an_editor_stays_bound_after_somebody_elses_refresh(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot, {"amount": 1})
    await edit(stage, job, ada, {"amount": 2})
    await refresh(stage, job, bob)

    assert (await stage.approve(job, ada)).word == "self_approval"


async def test_a_stranger_cannot_refresh_or_edit(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, other = await stage.agent(), await stage.agent("other")
    job = await stage.submit(bot)

    refused = [await refresh(stage, job, other), await edit(stage, job, other, {})]
    assert [(each.status, each.word) for each in refused] == [(403, "forbidden"), (403, "people_only")]
    assert (await stage.audit(job))[-1] == ("edit_refused", "PeopleOnly")
    assert (await edit(stage, job, bot, {"amount": 1})).status == 200


@pytest.mark.parametrize(
    ("role", "word"),
    [("review", "APPROVAL"), ("operate", "APPROVAL"), ("admin", "APPROVAL"), ("audit", "forbidden")],
)
async def test_whoever_decides_or_runs_the_service_may_ask_again(stage: Stage, role: str, word: str) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada", role)
    job = await stage.submit(bot, expires_in="5m")

    assert (await refresh(stage, job, ada)).word == word


async def test_an_edit_that_there_is_no_room_for_is_refused_and_every_version_kept(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot, {"n": 0})
    for n in range(1, 21):
        assert (await edit(stage, job, bot, {"n": n})).status == 200

    refused = await edit(stage, job, bot, {"n": 21})

    assert (refused.status, refused.word) == (409, "not_actionable")
    assert "cancel it and submit a new job" in refused.document["detail"]
    kept = await stage.job(job)
    assert [old["payload"]["n"] for old in kept["revisions"]] == list(range(20))
    assert (kept["payload"], kept["approval"]["round"]) == ({"n": 20}, 21)
    assert ("edit_refused", "EditedTooOften") in await stage.audit(job)


async def test_large_versions_are_kept_as_long_as_there_is_room(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot, {"text": "x" * 900_000})

    answers = [(await edit(stage, job, bot, {"text": f"{n}" + "x" * 900_000})).status for n in range(6)]
    again = [await stage.call("POST", f"approvals/{job}/refresh", stage.admin, {}) for _ in range(3)]

    assert answers == [200, 200, 200, 200, 409, 409]
    assert [seen.status for seen in again] == [200] * 3
    assert len((await stage.job(job))["revisions"]) == 4


async def test_a_yes_to_the_version_before_an_edit_does_not_count_for_the_one_after(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot, {"amount": 1})
    seen = (await stage.job(job))["job_hash"]

    edited, approved = await asyncio.gather(
        edit(stage, job, bot, {"amount": 1000}), stage.approve(job, ada, job_hash=seen)
    )

    after = await stage.job(job)
    if approved.word == "approved":
        assert (edited.word, after["payload"]) == ("not_actionable", {"amount": 1})
    else:
        assert (approved.word, after["state"], after["payload"]) == (
            "hash_mismatch",
            "APPROVAL",
            {"amount": 1000},
        )


async def test_a_refresh_that_releases_is_repeated_byte_for_byte(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(ASK.replace("require_human", "allow"))

    first = await stage.call("POST", f"approvals/{job}/refresh", ada, {}, idempotency_key="r1")
    again = await stage.call("POST", f"approvals/{job}/refresh", ada, {}, idempotency_key="r1")

    assert (first.status, first.document["state"]) == (200, "PENDING")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotency-replayed"] == "true"


async def test_who_may_not_ask_again_is_told_so_even_if_the_policy_cannot_be_evaluated(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, other = await stage.agent(), await stage.agent("other")
    waiting, cancelled = await stage.submit(bot, TOO_MUCH), await stage.submit(bot)
    await stage.call("POST", f"jobs/{cancelled}/cancel", bot, {})
    await stage.policy(COSTING)

    assert (await refresh(stage, waiting, other)).word == "forbidden"
    assert (await edit(stage, waiting, other, {})).word == "people_only"
    assert (await refresh(stage, cancelled, bot)).word == "not_actionable"
    assert (await refresh(stage, waiting, bot)).word == "policy_unavailable"


@pytest.mark.parametrize("verb", ["refresh", "edit"])
async def test_asking_again_about_what_a_rule_cannot_read_denies_it(stage: Stage, verb: str) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot)
    await stage.policy(LACKING)

    seen = await (refresh(stage, job, bot) if verb == "refresh" else edit(stage, job, bot, {"other": 1}))

    assert (seen.status, seen.document["state"], seen.document["approval"]) == (200, "DENIED", None)
    assert seen.document["decision"]["failure"]["field"] == "payload.absent"


async def test_a_yes_under_a_policy_that_fails_on_the_request_releases_nothing(stage: Stage) -> None:
    await stage.policy(ASK.replace("require_human", "require_human\n    approval: {binding: semantic}"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(LACKING)

    assert (await stage.approve(job, ada)).word == "snapshot_changed"
    assert (await stage.job(job))["state"] == "APPROVAL"


async def test_a_job_whose_submitter_was_forgotten_is_not_called_absent(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await forget(stage, "bot", bot)

    for refused in (await refresh(stage, job, ada), await edit(stage, job, ada, {})):
        assert (refused.status, refused.word, refused.document["state"]) == (
            409,
            "not_actionable",
            "APPROVAL",
        )
    assert (await stage.reject(job, ada)).word == "rejected"
    assert (await stage.audit(job))[1:3] == [
        ("refresh_refused", "SubmitterUnknown"),
        ("edit_refused", "SubmitterUnknown"),
    ]


async def test_a_vote_of_someone_who_was_forgotten_does_not_count(stage: Stage) -> None:
    await stage.policy(LIMIT)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot, {"amount": 500})
    await stage.approve(job, ada)
    await forget(stage, "ada", ada)

    second = await stage.approve(job, bob)

    assert (second.word, second.document["votes"]) == ("vote_recorded", 1)
