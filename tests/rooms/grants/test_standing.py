"""Standing grants: a yes given beforehand, worth no more than its giver's vote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.rooms.grants.model import Signature
from tests.rooms.grants.conftest import Granting, Pen
from tests.rooms.grants.test_signing import forge

POLICY = """
version: v1
rules:
  - {id: one, when: {topic: refund}, decision: require_human}
  - {id: two, when: {topic: payout}, decision: require_human, approval: {quorum: 2}}
  - {id: ops, when: {topic: deploy}, decision: require_human, approval: {groups: [ops]}}
  - {id: own, when: {topic: tidy}, decision: require_human, approval: {self_approval: true}}
  - {id: no, when: {topic: wipe}, decision: deny}
"""
STRICTER = POLICY.replace(
    "topic: refund}, decision: require_human",
    "topic: refund}, decision: require_human, approval: {quorum: 2}",
)


async def submit(granting: Granting, payload: Any, topic: str = "refund", key: str | None = None) -> Any:
    seen = await granting.api.propose(key or granting.bot, payload, topic)
    return seen.document


async def test_a_job_that_fits_a_standing_grant_is_released_without_a_person(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    grant = await granting.grant("refund", standing=True, uses=2, pins={"cents": {"max": 500}})

    job = await submit(granting, {"cents": 400})

    assert (job["state"], job["approval"], job["grant_use"]) == (
        "PENDING",
        None,
        {"grant_id": grant, "use": 1, "groups": []},
    )
    assert await granting.api.events(job["id"]) == ["job.released"]
    read = await granting.read(grant)
    assert [use["execution_id"] for use in read["claims"]] == [job["id"]]
    assert ("grant_claim", "done") in await granting.api.audit(grant)


async def test_a_worker_may_run_what_a_standing_grant_released(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    await granting.grant("refund", standing=True)
    job = await submit(granting, {})
    worker = await granting.api.key("w", "worker", "work")

    seen = await granting.api.call("POST", "jobs/claim", worker, {"topics": ["refund"]})

    assert [held["id"] for held in seen.document["jobs"]] == [job["id"]]


async def test_what_a_standing_grant_released_waits_again_if_the_policy_asks_for_more(
    granting: Granting,
) -> None:
    await granting.api.policy(POLICY)
    await granting.grant("refund", standing=True)
    job = await submit(granting, {})
    await granting.api.policy(STRICTER)
    worker = await granting.api.key("w", "worker", "work")

    seen = await granting.api.call("POST", "jobs/claim", worker, {"topics": ["refund"]})

    assert seen.document["jobs"] == []
    assert (await granting.api.job(job["id"]))["state"] == "APPROVAL"


@pytest.mark.parametrize(
    ("topic", "payload"),
    [("refund", {"cents": 501}), ("refund", {}), ("payout", {"cents": 1}), ("deploy", {"cents": 1})],
)
async def test_what_does_not_fit_waits_for_people_and_consumes_nothing(
    granting: Granting, topic: str, payload: Any
) -> None:
    await granting.api.policy(POLICY)
    grant = await granting.grant(topic, standing=True, pins={"cents": {"max": 500}})

    job = await submit(granting, payload, topic)

    assert (job["state"], job["grant_use"]) == ("APPROVAL", None)
    assert (await granting.read(grant))["used"] == 0


async def test_a_grant_of_the_group_asked_for_counts(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    olga = await granting.api.person("olga", groups=("ops",))
    await granting.issue("deploy", key=olga, standing=True)
    assert (await submit(granting, {}, "deploy"))["state"] == "PENDING"


async def test_a_fitting_standing_grant_is_found_behind_many_for_other_repositories(
    granting: Granting,
) -> None:
    await granting.api.policy(POLICY)
    for number in range(20):
        await granting.grant("refund", standing=True, pins={"repository": f"r{number}"})

    job = await submit(granting, {"repository": "r19"})

    assert (job["state"], job["grant_use"]["use"]) == ("PENDING", 1)


async def test_nobody_releases_their_own_agents_jobs(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    own = await granting.api.agent("own", owner="ada")
    await granting.grant("refund", standing=True)
    assert (await submit(granting, {}, key=own))["state"] == "APPROVAL"


async def test_nobody_releases_the_jobs_of_an_agent_whose_owner_became_theirs(granting: Granting) -> None:
    api = granting.api
    await api.policy(POLICY)
    await api.person("ada-work")
    own = await api.agent("own", owner="ada-work")
    assert (await api.call("PUT", "principals/ada-work", api.admin, {"owner": "ada"})).status == 200
    await granting.grant("refund", standing=True)
    assert (await submit(granting, {}, key=own))["state"] == "APPROVAL"


async def test_nobody_releases_their_own_agents_jobs_through_what_an_owner_of_theirs_owns(
    granting: Granting,
) -> None:
    api = granting.api
    await api.policy(POLICY)
    own, laptop = await api.agent("own", owner="ada"), await api.person("laptop", owner="ada-work")
    await api.person("ada-work", owner="ada")
    assert (await granting.issue("refund", key=laptop, standing=True)).status == 201
    assert (await submit(granting, {}, key=own))["state"] == "APPROVAL"
    assert (await submit(granting, {}))["state"] == "PENDING"


@pytest.mark.parametrize("before", [None, "ada"])
async def test_a_standing_grant_whose_approver_changed_hands_since_does_not_count(
    granting: Granting, before: str | None
) -> None:
    api = granting.api
    await api.policy(POLICY)
    laptop = await api.person("laptop", owner=before)
    grant = (await granting.issue("refund", key=laptop, standing=True)).document["id"]
    assert (await api.call("PUT", "principals/laptop", api.admin, {"owner": "zoe"})).status == 200

    assert (await submit(granting, {}))["state"] == "APPROVAL"
    assert (await granting.read(grant))["used"] == 0


async def test_where_the_rule_allows_it_somebodys_grant_releases_their_own_agents_jobs(
    granting: Granting,
) -> None:
    await granting.api.policy(POLICY)
    own = await granting.api.agent("own", owner="ada")
    await granting.grant("tidy", standing=True)
    assert (await submit(granting, {}, "tidy", key=own))["state"] == "PENDING"


async def test_a_grant_of_another_group_than_the_one_asked_for_does_not_count(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    sam = await granting.api.person("sam", groups=("sales",))
    await granting.issue("deploy", key=sam, standing=True)
    assert (await submit(granting, {}, "deploy"))["state"] == "APPROVAL"


@pytest.mark.parametrize("lost", ["role", "key", "name"])
async def test_a_standing_grant_of_someone_who_may_no_longer_decide_does_not_count(
    granting: Granting, lost: str
) -> None:
    api = granting.api
    await api.policy(POLICY)
    eve = await api.person("eve")
    grant = (await granting.issue("refund", key=eve, standing=True)).document["id"]
    if lost == "role":
        await api.call("PUT", "principals/eve", api.admin, {"roles": ["submit"]})
    else:
        await api.call("POST", f"api-keys/{eve.split('_')[1]}/revoke", api.admin, {})
    if lost == "name":
        assert (await api.call("DELETE", "principals/eve", api.admin)).status == 200

    assert (await submit(granting, {}))["state"] == "APPROVAL"
    assert (await granting.read(grant))["used"] == 0


async def test_who_has_no_vote_issues_no_standing_grant(granting: Granting) -> None:
    admin = await granting.api.person("root", "admin")
    assert (await granting.issue("refund", key=admin, standing=True)).word == "forbidden"
    assert (await granting.issue("refund", key=admin)).status == 201


async def test_a_denied_job_stays_denied(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    grant = await granting.grant("wipe", standing=True)
    assert (await submit(granting, {}, "wipe"))["code"] == "policy_denied"
    assert (await granting.read(grant))["used"] == 0


async def test_many_jobs_at_once_use_a_standing_grant_exactly_as_often_as_it_says(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    await granting.grant("refund", standing=True, uses=10, budget={"path": "cents", "total_max": 500})

    jobs = await asyncio.gather(*(submit(granting, {"cents": 60}) for _ in range(30)))

    released = [job for job in jobs if job["state"] == "PENDING"]
    assert sorted(job["grant_use"]["use"] for job in released) == list(range(1, 9))
    assert {job["state"] for job in jobs} == {"PENDING", "APPROVAL"}


async def test_a_standing_grant_is_not_for_claims_nor_another_for_jobs(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    standing = await granting.grant("refund", standing=True)
    assert "standing" in (await granting.claim(task="refund", grant_id=standing))["reason"]
    assert not (await granting.claim(task="refund"))["claimed"]
    await granting.api.call("POST", f"grants/{standing}/revoke", granting.ada, {})
    await granting.grant("refund")
    assert (await submit(granting, {}))["state"] == "APPROVAL"


async def test_a_signed_standing_grant_is_held_to_its_signature(granting: Granting, pen: Pen) -> None:
    await granting.api.policy(POLICY)
    await granting.api.call("PUT", "grants/terms", granting.api.admin, {"signed_tasks": ["refund"]})
    await granting.grant(**pen.sign(granting.api, task="refund", standing=True, uses=2), task="refund")

    assert (await submit(granting, {}))["state"] == "PENDING"
    fingerprint = pen.fingerprint.replace("/", "%2F").replace("+", "%2B")
    await granting.api.call("POST", f"signers/{fingerprint}/revoke", granting.api.admin)
    assert (await submit(granting, {}))["state"] == "APPROVAL"


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"uses": 100}, "it does not match the grant"),
        ({"pins": ()}, "it does not match the grant"),
        ({"signature": None}, "it was taken out of a grant that was signed"),
        ({"signature": Signature(signer="SHA256:nobody", value="AAAA")}, "the signer is not registered"),
    ],
)
async def test_a_standing_grant_that_fails_its_signature_stays_open_and_is_told_in_the_audit(
    granting: Granting, pen: Pen, forged: dict[str, Any], why: str
) -> None:
    await granting.api.policy(POLICY)
    signed = pen.sign(granting.api, task="refund", standing=True, pins={"cents": 1})
    grant = await granting.grant(**signed, task="refund")
    await forge(granting, grant, **forged)

    job = await submit(granting, {"cents": 1})

    assert (job["state"], await granting.state(grant)) == ("APPROVAL", "open")
    (entry,) = await refused_claims(granting, grant)
    assert (entry["actor"], entry["details"]["execution_id"]) == ("bot", job["id"])
    assert why in entry["details"]["why"]


async def test_a_revoked_signer_is_told_once_a_submit_and_never_where_pins_do_not_match(
    granting: Granting, pen: Pen
) -> None:
    await granting.api.policy(POLICY)
    fits, other = [
        await granting.grant(
            **pen.sign(granting.api, task="refund", standing=True, pins={"cents": cents}), task="refund"
        )
        for cents in (1, 2)
    ]
    fingerprint = pen.fingerprint.replace("/", "%2F").replace("+", "%2B")
    await granting.api.call("POST", f"signers/{fingerprint}/revoke", granting.api.admin)

    await submit(granting, {"cents": 1})

    assert await granting.refusals(fits) == ["signature: the signer's key was revoked"]
    assert await granting.refusals(other) == []


async def test_a_submit_tells_of_five_broken_signatures_at_most(granting: Granting) -> None:
    await granting.api.policy(POLICY)
    grants = [await granting.grant("refund", standing=True) for _ in range(7)]
    await granting.api.call("PUT", "grants/terms", granting.api.admin, {"signed_tasks": ["refund"]})

    assert (await submit(granting, {}))["state"] == "APPROVAL"

    assert sum([len(await granting.refusals(grant)) for grant in grants]) == 5


async def refused_claims(granting: Granting, grant: str) -> list[Any]:
    items = (await granting.api.get(f"audit?subject={grant}"))["items"]
    return [item for item in items if item["action"] == "grant_claim_refused"]
