"""What stops a job at the last moment: its submitter gone, its target moved, a grant that was for something else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.rooms.jobs.claims import UNCLEAR_SECONDS
from interlock.rooms.jobs.model import JOBS
from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.rooms.jobs.job_client import WORKABLE, JobClient

OBSERVE = "version: v1\nmode: observe\ndefault: deny\n"
FROZEN = "version: v1\nrules: [{id: frozen, when: {topic: '**'}, decision: deny, reason: month end}]\n"


async def stopped(client: JobClient, job: str, topic: str) -> Any:
    """The job after a claim that must not get it."""
    assert await client.claim(topic) == []
    return await client.api.job(job)


async def test_a_job_whose_submitter_was_forgotten_is_not_handed_out(client: JobClient) -> None:
    job = await client.submit()
    await client.api.call("POST", f"api-keys/{client.bot.split('_')[1]}/revoke", client.api.admin, {})
    assert (await client.api.call("DELETE", "principals/bot", client.api.admin)).status == 200

    seen = await stopped(client, job, "free.a")

    assert (seen["state"], seen["decision"]["rule"]) == ("DENIED", "free")
    assert "its submitter bot is unknown" in seen["decision"]["reason"]


async def test_a_policy_that_only_observes_hands_out_nothing_whose_target_moved(client: JobClient) -> None:
    job = await client.submit(target={"key": "doc", "version": "v1"})
    await client.api.call("POST", "targets/doc/touch", client.ada, {"version": "v2"})
    await client.api.policy(OBSERVE)
    assert (await stopped(client, job, "free.a"))["state"] == "DENIED"


@pytest.mark.parametrize("topic", ["free.a", "pay.a"])
async def test_what_the_policy_denies_is_denied_by_its_rule_though_its_target_moved(
    client: JobClient, topic: str
) -> None:
    fields: dict[str, Any] = {"target": {"key": "doc", "version": "v1"}}
    job = await (client.approved(topic, **fields) if topic == "pay.a" else client.submit(topic, **fields))
    await client.api.call("POST", "targets/doc/touch", client.ada, {"version": "v2"})
    now_in_force = await client.api.policy(FROZEN)

    seen = await stopped(client, job, topic)

    assert (seen["state"], seen["policy_snapshot"]) == ("DENIED", now_in_force)
    assert seen["decision"]["rule"] == "frozen"
    assert "month end" in seen["decision"]["reason"]


async def test_a_job_that_goes_back_to_people_is_asked_under_the_policy_in_force(client: JobClient) -> None:
    job = await client.approved("pay.a", target={"key": "doc", "version": "v1"})
    await client.api.call("POST", "targets/doc/touch", client.ada, {"version": "v2"})
    two = "version: v1\nrules: [{id: two, when: {topic: '**'}, decision: require_human, approval: {quorum: 2}}]\n"
    now_in_force = await client.api.policy(two)

    seen = await stopped(client, job, "pay.a")

    assert (seen["state"], seen["approval"]["quorum"]) == ("APPROVAL", 2)
    assert seen["approval"]["policy_snapshot"] == now_in_force


async def test_what_a_standing_grant_released_is_not_handed_out_once_it_was_altered(
    client: JobClient,
) -> None:
    await client.api.call("POST", "grants", client.ada, {"task": "pay.a", "standing": True})
    job = await client.submit("pay.a")
    record = await client.api.service.store.get(JOBS, "default", job)
    assert record is not None
    assert record.grant_use is not None
    action = msgspec.structs.replace(record.action, payload=msgspec.Raw(b'{"n":9}'))
    await client.alter(job, action=action, job_hash=action.hash("default"))

    assert (await stopped(client, job, "pay.a"))["state"] == "APPROVAL"


async def test_a_job_that_is_now_asked_about_shows_the_rule_that_asks_and_what_it_was_before(
    client: JobClient,
) -> None:
    job = await client.submit()
    before = (await client.api.job(job))["policy_snapshot"]
    now_in_force = await client.api.policy(
        "version: v1\nrules: [{id: asks, when: {topic: '**'}, decision: require_human, reason: new rule}]\n"
    )
    client.api.clock.advance(60)

    seen = await stopped(client, job, "free.a")

    assert (seen["state"], seen["policy_snapshot"]) == ("APPROVAL", now_in_force)
    assert (seen["decision"]["rule"], seen["decision"]["reason"]) == ("asks", "new rule")
    assert seen["updated_at"] == "2030-01-01T00:01:00Z"
    (kept,) = seen["revisions"]
    assert kept["policy_snapshot"] == before
    assert kept["why"]


async def test_a_job_whose_time_ran_out_is_expired_by_the_claim_that_finds_it(client: JobClient) -> None:
    job = await client.submit(expires_in="60s")
    client.api.clock.advance(60)
    named = await client.api.call("POST", f"jobs/{job}/claim", client.worker, {})
    assert named.status == 409
    assert (await client.api.job(job))["state"] == "EXPIRED"
    assert (await client.api.audit(job))[-1] == ("expire", "done")
    assert (await client.api.events(job))[-1] == "job.expired"


async def test_a_job_that_cannot_be_judged_rests_before_it_is_looked_at_again(client: JobClient) -> None:
    job = await client.submit(payload=TOO_MUCH)
    odd = f'version: v1\nrules: [{{id: odd, when: {{topic: "**"}}, if: "{COSTLY}", decision: allow}}]\n'
    await client.api.policy(odd)
    assert await client.claim() == []
    await client.api.policy(WORKABLE)
    client.api.clock.advance(UNCLEAR_SECONDS - 1)
    assert await client.claim() == []
    client.api.clock.advance(1)
    assert (await client.take())["id"] == job
