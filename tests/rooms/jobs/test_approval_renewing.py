"""Asking again: after a change of policy, after an expiry, after an edit."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, InProcessApi, Seen

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


async def refresh(api: InProcessApi, job: str, key: str) -> Seen:
    return await api.call("POST", f"approvals/{job}/refresh", key, {})


async def edit(api: InProcessApi, job: str, key: str, payload: object, reason: str = "corrected") -> Seen:
    return await api.call("POST", f"approvals/{job}/edit", key, {"payload": payload, "reason": reason})


async def forget(api: InProcessApi, name: str, key: str) -> None:
    await api.call("POST", f"api-keys/{key.split('_')[1]}/revoke", api.admin, {})
    assert (await api.call("DELETE", f"principals/{name}", api.admin)).status == 200


@pytest.mark.parametrize(
    ("decision", "state", "event"),
    [
        ("allow", "PENDING", "job.released"),
        ("deny", "DENIED", "job.denied"),
        ("require_human", "APPROVAL", "approval.requested"),
    ],
)
async def test_a_refresh_puts_the_job_where_the_policy_now_says(
    api: InProcessApi, decision: str, state: str, event: str
) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    now = await api.policy(
        ASK.replace("decision: require_human", f"decision: {decision}") + "mode: enforce\n# v2\n"
    )

    seen = await refresh(api, job, ada)

    assert (seen.status, seen.document["state"]) == (200, state)
    assert seen.document["policy_snapshot"] == now
    assert seen.document["decision"]["decision"] == decision
    assert (await api.events(job))[-1] == event
    assert (await api.audit(job))[-1] == ("refresh", "done")


async def test_a_refresh_clears_the_votes_and_keeps_the_old_request(api: InProcessApi) -> None:
    await api.policy(LIMIT)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot, {"amount": 500})
    await api.approve(job, ada)

    seen = await refresh(api, job, bob)

    assert seen.document["approval"]["votes"] == []
    assert seen.document["approval"]["round"] == 2
    kept = (await api.job(job))["revisions"]
    assert [vote["principal"] for vote in kept[0]["approval"]["votes"]] == ["ada"]
    assert (await api.approve(job, bob)).word == "vote_recorded"


@pytest.mark.parametrize("outcome", ["approve", "reject", "cancel"])
async def test_a_decided_job_cannot_be_refreshed_or_edited(api: InProcessApi, outcome: str) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    if outcome == "cancel":
        await api.call("POST", f"jobs/{job}/cancel", bot, {})
    else:
        await api.call("POST", f"approvals/{job}/{outcome}", ada, {"reason": "so be it"})

    for again in (await refresh(api, job, ada), await edit(api, job, ada, {})):
        assert (again.status, again.word) == (409, "not_actionable")


async def test_an_edit_makes_a_new_hash_clears_the_votes_and_keeps_the_old_version(api: InProcessApi) -> None:
    await api.policy(LIMIT)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot, {"amount": 500})
    before = await api.job(job)
    await api.approve(job, ada)

    seen = await edit(api, job, bob, {"amount": 400}, "a digit too many")

    assert (seen.status, seen.document["state"]) == (200, "APPROVAL")
    assert seen.document["payload"] == {"amount": 400}
    assert seen.document["job_hash"] != before["job_hash"]
    assert seen.document["approval"]["job_hash"] == seen.document["job_hash"]
    assert seen.document["approval"]["votes"] == []
    old = (await api.job(job))["revisions"][0]
    assert (old["payload"], old["job_hash"]) == ({"amount": 500}, before["job_hash"])
    assert (old["replaced_by"], old["why"]) == ("bob", "a digit too many")


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_a_machine_that_was_given_the_reviewers_role_asks_nothing_again(
    api: InProcessApi, kind: str
) -> None:
    await api.policy(LIMIT)
    bot, ada = await api.agent(), await api.person("ada")
    machine = await api.key("machine", kind, "review,work,submit")
    job = await api.submit(bot, {"amount": 500})
    await api.approve(job, ada)

    for no in (await refresh(api, job, machine), await edit(api, job, machine, {"amount": 9})):
        assert (no.status, no.word) == (403, "people_only")

    assert len((await api.job(job))["approval"]["votes"]) == 1
    refused = [what for what, how in await api.audit(job) if how == "PeopleOnly"]
    assert refused == ["refresh_refused", "edit_refused"]
    assert (await edit(api, job, bot, {"amount": 400})).status == 200


async def test_an_edit_is_judged_by_the_policy_again(api: InProcessApi) -> None:
    await api.policy(LIMIT)
    bot, ada = await api.agent(), await api.person("ada")
    small, huge = await api.submit(bot, {"amount": 500}), await api.submit(bot, {"amount": 500})

    assert (await edit(api, small, ada, {"amount": 5})).document["state"] == "PENDING"
    assert (await edit(api, huge, ada, {"amount": 9999})).document["state"] == "DENIED"
    assert "approval_granted" not in (await api.job(small))["labels"]


async def test_whoever_edits_cannot_approve_what_they_wrote(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    phone = await api.person("ada-phone", owner="ada")
    job = await api.submit(bot, {"amount": 1})
    seen = (await edit(api, job, ada, {"amount": 2})).document["job_hash"]

    assert (await api.approve(job, ada)).word == "self_approval"
    assert (await api.approve(job, phone)).word == "self_approval"
    assert (await api.approve(job, bob, job_hash=seen)).word == "approved"


async def test_an_editor_stays_bound_after_somebody_elses_refresh(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot, {"amount": 1})
    await edit(api, job, ada, {"amount": 2})
    await refresh(api, job, bob)

    assert (await api.approve(job, ada)).word == "self_approval"


async def test_a_stranger_cannot_refresh_or_edit(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, other = await api.agent(), await api.agent("other")
    job = await api.submit(bot)

    refused = [await refresh(api, job, other), await edit(api, job, other, {})]
    assert [(each.status, each.word) for each in refused] == [(403, "forbidden"), (403, "people_only")]
    assert (await api.audit(job))[-1] == ("edit_refused", "PeopleOnly")
    assert (await edit(api, job, bot, {"amount": 1})).status == 200


@pytest.mark.parametrize(
    ("role", "word"),
    [("review", "APPROVAL"), ("operate", "APPROVAL"), ("admin", "APPROVAL"), ("audit", "forbidden")],
)
async def test_whoever_decides_or_runs_the_service_may_ask_again(
    api: InProcessApi, role: str, word: str
) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada", role)
    job = await api.submit(bot, expires_in="5m")

    assert (await refresh(api, job, ada)).word == word


async def test_an_edit_that_there_is_no_room_for_is_refused_and_every_version_kept(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, {"n": 0})
    for n in range(1, 21):
        assert (await edit(api, job, bot, {"n": n})).status == 200

    refused = await edit(api, job, bot, {"n": 21})

    assert (refused.status, refused.word) == (409, "not_actionable")
    assert "cancel it and submit a new job" in refused.document["detail"]
    kept = await api.job(job)
    assert [old["payload"]["n"] for old in kept["revisions"]] == list(range(20))
    assert (kept["payload"], kept["approval"]["round"]) == ({"n": 20}, 21)
    assert ("edit_refused", "EditedTooOften") in await api.audit(job)


async def test_large_versions_are_kept_as_long_as_there_is_room(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, {"text": "x" * 900_000})

    answers = [(await edit(api, job, bot, {"text": f"{n}" + "x" * 900_000})).status for n in range(6)]
    again = [await api.call("POST", f"approvals/{job}/refresh", api.admin, {}) for _ in range(3)]

    assert answers == [200, 200, 200, 200, 409, 409]
    assert [seen.status for seen in again] == [200] * 3
    assert len((await api.job(job))["revisions"]) == 4


async def test_a_yes_to_the_version_before_an_edit_does_not_count_for_the_one_after(
    api: InProcessApi,
) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, {"amount": 1})
    seen = (await api.job(job))["job_hash"]

    edited, approved = await asyncio.gather(
        edit(api, job, bot, {"amount": 1000}), api.approve(job, ada, job_hash=seen)
    )

    after = await api.job(job)
    if approved.word == "approved":
        assert (edited.word, after["payload"]) == ("not_actionable", {"amount": 1})
    else:
        assert (approved.word, after["state"], after["payload"]) == (
            "hash_mismatch",
            "APPROVAL",
            {"amount": 1000},
        )


async def test_a_refresh_that_releases_is_repeated_byte_for_byte(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(ASK.replace("require_human", "allow"))

    first = await api.call("POST", f"approvals/{job}/refresh", ada, {}, idempotency_key="r1")
    again = await api.call("POST", f"approvals/{job}/refresh", ada, {}, idempotency_key="r1")

    assert (first.status, first.document["state"]) == (200, "PENDING")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotency-replayed"] == "true"


async def test_who_may_not_ask_again_is_told_so_even_if_the_policy_cannot_be_evaluated(
    api: InProcessApi,
) -> None:
    await api.policy(ASK)
    bot, other = await api.agent(), await api.agent("other")
    waiting, cancelled = await api.submit(bot, TOO_MUCH), await api.submit(bot)
    await api.call("POST", f"jobs/{cancelled}/cancel", bot, {})
    await api.policy(COSTING)

    assert (await refresh(api, waiting, other)).word == "forbidden"
    assert (await edit(api, waiting, other, {})).word == "people_only"
    assert (await refresh(api, cancelled, bot)).word == "not_actionable"
    assert (await refresh(api, waiting, bot)).word == "policy_unavailable"


@pytest.mark.parametrize("verb", ["refresh", "edit"])
async def test_asking_again_about_what_a_rule_cannot_read_denies_it(api: InProcessApi, verb: str) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot)
    await api.policy(LACKING)

    seen = await (refresh(api, job, bot) if verb == "refresh" else edit(api, job, bot, {"other": 1}))

    assert (seen.status, seen.document["state"], seen.document["approval"]) == (200, "DENIED", None)
    assert seen.document["decision"]["failure"]["field"] == "payload.absent"


async def test_a_yes_under_a_policy_that_fails_on_the_request_releases_nothing(api: InProcessApi) -> None:
    await api.policy(ASK.replace("require_human", "require_human\n    approval: {binding: semantic}"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(LACKING)

    assert (await api.approve(job, ada)).word == "snapshot_changed"
    assert (await api.job(job))["state"] == "APPROVAL"


async def test_a_job_whose_submitter_was_forgotten_is_not_called_absent(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await forget(api, "bot", bot)

    for refused in (await refresh(api, job, ada), await edit(api, job, ada, {})):
        assert (refused.status, refused.word, refused.document["state"]) == (
            409,
            "not_actionable",
            "APPROVAL",
        )
    assert (await api.reject(job, ada)).word == "rejected"
    assert (await api.audit(job))[1:3] == [
        ("refresh_refused", "SubmitterUnknown"),
        ("edit_refused", "SubmitterUnknown"),
    ]


async def test_a_vote_of_someone_who_was_forgotten_does_not_count(api: InProcessApi) -> None:
    await api.policy(LIMIT)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot, {"amount": 500})
    await api.approve(job, ada)
    await forget(api, "ada", ada)

    second = await api.approve(job, bob)

    assert (second.word, second.document["votes"]) == ("vote_recorded", 1)
