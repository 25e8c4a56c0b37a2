"""A claim asks for permission present at that moment, and says in the audit why it was not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.rooms.jobs.model import GRANTED_LABEL, ApprovalState
from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.rooms.jobs.job_client import WORKABLE, JobClient

DENY = """
version: v1
rules:
  - {id: frozen, when: {topic: "pay.**"}, decision: deny, reason: month end}
  - {id: free, when: {topic: "free.**"}, decision: allow}
"""
STRICTER = """
version: v1
rules:
  - {id: ask, when: {topic: "pay.**"}, decision: require_human, approval: {quorum: 2}}
  - {id: now-asks, when: {topic: "free.**"}, decision: require_human}
"""
LOOSER = "version: v1\ndefault: allow\n"
BROKEN = """
version: v1
rules:
  - {id: odd, when: {topic: "**"}, if: %s, decision: allow}
"""
OBSERVE_DENY = "version: v1\nmode: observe\ndefault: deny\n"


async def entries(client: JobClient, job: str) -> list[dict[str, Any]]:
    return (await client.api.get(f"jobs/{job}/history"))["items"]


async def test_a_policy_tightened_to_deny_after_approval_stops_the_job_and_the_audit_says_why(
    client: JobClient,
) -> None:
    job = await client.approved("pay.a")
    await client.api.policy(DENY)

    assert await client.claim("pay.a") == []

    stopped = await client.api.job(job)
    assert (stopped["state"], stopped["decision"]["rule"]) == ("DENIED", "frozen")
    assert GRANTED_LABEL not in stopped["system_labels"]
    newest = (await entries(client, job))[0]
    assert (newest["action"], newest["rule"]) == ("deny", "frozen")
    assert "the policy now denies it" in newest["details"]["why"]
    assert (await client.api.events(job))[-1] == "job.denied"


async def test_without_any_policy_nothing_approved_runs(client: JobClient) -> None:
    job = await client.submit("free.a")
    await client.api.policy("version: v1\n")
    assert await client.claim("free.a") == []
    assert (await client.api.job(job))["state"] == "DENIED"


async def test_what_stands_in_the_way_delays_nobody_behind_it(client: JobClient) -> None:
    for _ in range(5):
        await client.approved("pay.a", priority="critical")
    await client.api.policy(DENY)
    free = await client.submit("free.a")
    assert [job["id"] for job in await client.claim("pay.a", "free.a", wait_seconds=0)] == [free]


async def test_what_may_no_longer_run_does_not_hide_what_may_from_a_claim_that_does_not_wait(
    client: JobClient,
) -> None:
    for _ in range(5):
        await client.submit("free.a", env="old")
    wanted = await client.submit("free.a", env="new")
    await client.api.policy("version: v1\nrules:\n  - {id: new, when: {env: new}, decision: allow}\n")
    assert [job["id"] for job in await client.claim("free.a", max=1, wait_seconds=0)] == [wanted]


async def test_many_withdrawn_jobs_are_cleared_by_one_waiting_claim(client: JobClient) -> None:
    for _ in range(5):
        await client.submit("free.a")
    client.api.clock.advance(1)
    await client.api.policy("version: v1\nrules:\n  - {id: b, when: {topic: free.b}, decision: allow}\n")
    wanted = await client.submit("free.b", priority="low")
    assert [job["id"] for job in await client.claim("free.*", wait_seconds=1)] == [wanted]


async def test_a_rule_that_now_asks_people_sends_the_job_to_them(client: JobClient) -> None:
    job = await client.submit("free.a")
    await client.api.policy(STRICTER)

    assert await client.claim("free.a") == []

    asked = await client.api.job(job)
    assert (asked["state"], asked["approval"]["rule"]) == ("APPROVAL", "now-asks")
    assert (await client.api.audit(job))[-1] == ("ask_again", "done")
    assert (await client.api.events(job))[-1] == "approval.requested"
    assert (await client.api.approve(job, client.ada)).word == "approved"
    assert (await client.take("free.a"))["id"] == job


async def test_a_yes_under_weaker_requirements_is_asked_for_again(client: JobClient) -> None:
    job = await client.approved("pay.a")
    await client.api.policy(STRICTER)

    assert await client.claim("pay.a") == []

    asked = await client.api.job(job)
    assert (asked["state"], asked["approval"]["quorum"], asked["approval"]["round"]) == ("APPROVAL", 2, 2)
    assert asked["approval"]["votes"] == []
    assert GRANTED_LABEL not in asked["system_labels"]
    assert asked["revisions"][-1]["approval"]["state"] == "approved"


@pytest.mark.parametrize(
    ("before", "after", "stands"),
    [
        ("{self_approval: true}", "{}", False),
        ("{self_approval: true}", "{self_approval: true}", True),
        ("{}", "{groups: [finance]}", False),
        ("{groups: [finance]}", "{groups: [finance]}", True),
        ("{groups: [finance]}", "{groups: [finance, legal]}", True),
        ("{groups: [finance, legal]}", "{groups: [finance]}", False),
        ("{groups: [finance]}", "{}", True),
        ("{quorum: 2}", "{quorum: 1}", True),
    ],
)
async def test_a_yes_stands_where_as_much_or_less_is_asked_for_now(
    client: JobClient, before: str, after: str, stands: bool
) -> None:
    policy = (
        'version: v1\nrules:\n  - {id: ask, when: {topic: "pay.**"}, decision: require_human, approval: %s}\n'
    )
    people = [await client.api.person(name, groups=("finance",)) for name in ("ann", "bob")]
    await client.api.policy(policy % before)
    job = await client.submit("pay.a")
    for person in people:
        await client.api.approve(job, person)
    assert (await client.api.job(job))["state"] == "PENDING"

    await client.api.policy(policy % after)

    assert bool(await client.claim("pay.a")) is stands


async def test_a_policy_that_asks_no_more_than_before_changes_nothing(client: JobClient) -> None:
    job = await client.approved("pay.a")
    await client.api.policy(WORKABLE + '  - {id: more, when: {topic: "x"}, decision: deny}\n')
    assert (await client.take("pay.a"))["id"] == job


async def test_a_policy_that_now_allows_it_needs_nobody(client: JobClient) -> None:
    job = await client.approved("pay.a")
    await client.api.policy(LOOSER)
    assert (await client.take("pay.a"))["id"] == job


async def test_an_observing_policy_hands_everything_out(client: JobClient) -> None:
    job = await client.submit("free.a")
    await client.api.policy(OBSERVE_DENY)
    assert (await client.take("free.a"))["id"] == job


async def test_a_policy_that_fails_on_the_job_denies_it_at_the_claim(client: JobClient) -> None:
    job, approved = await client.submit("free.a"), await client.approved("pay.a")
    await client.api.policy(BROKEN % "payload.missing > 5")
    assert await client.claim("free.a") == []
    named = await client.api.call("POST", f"jobs/{approved}/claim", client.worker, {})

    assert (named.status, named.word) == (403, "policy_denied")
    for each in (job, approved):
        stopped = await client.api.job(each)
        assert (stopped["state"], stopped["decision"]["failure"]["field"]) == ("DENIED", "payload.missing")


async def test_a_policy_that_cannot_be_evaluated_holds_the_job_back_and_says_so_once(
    client: JobClient,
) -> None:
    job = await client.submit("free.a", payload=TOO_MUCH)
    await client.api.policy(BROKEN % f'"{COSTLY}"')
    for _ in range(3):
        assert await client.claim("free.a") == []
        client.api.clock.advance(20)

    held = await client.api.job(job)
    assert held["state"] == "PENDING"
    assert "odd" in held["held_up"]
    assert (await client.api.audit(job)).count(("claim_held_up", "done")) == 1
    await client.api.policy(WORKABLE)
    taken = await client.take("free.a")
    assert (taken["id"], taken["held_up"]) == (job, None)


@pytest.mark.parametrize("changed", ["payload", "hash", "approval", "state", "label", "nobody"])
async def test_a_stored_job_that_was_altered_is_not_handed_out(client: JobClient, changed: str) -> None:
    job = await client.approved("pay.a")
    record: Any = await client.api.service.store.get(_jobs(), "default", job)
    match changed:
        case "payload":
            await client.alter(
                job, action=msgspec.structs.replace(record.action, payload=msgspec.Raw(b'{"n":9}'))
            )
        case "hash":
            await client.alter(job, job_hash="sha256:" + "0" * 64)
        case "approval":
            other = msgspec.structs.replace(record.approval, job_hash="sha256:" + "0" * 64)
            await client.alter(job, approval=other)
        case "state":
            await client.alter(
                job, approval=msgspec.structs.replace(record.approval, state=ApprovalState.EXPIRED)
            )
        case "label":
            await client.alter(job, system_labels={})
        case _:
            await client.alter(job, approval=None)

    assert await client.claim("pay.a") == []
    assert (await client.api.job(job))["state"] in ("DENIED", "APPROVAL")


async def test_a_named_claim_asks_for_the_same_permission(client: JobClient) -> None:
    denied, asked = await client.approved("pay.a"), await client.submit("free.a")
    await client.api.policy(
        DENY.replace('"free.**"}, decision: allow', '"free.**"}, decision: require_human')
    )

    first = await client.api.call("POST", f"jobs/{denied}/claim", client.worker, {})
    second = await client.api.call("POST", f"jobs/{asked}/claim", client.worker, {})

    assert (first.status, first.word, first.document["rule"]) == (403, "policy_denied", "frozen")
    assert (await client.api.job(denied))["state"] == "DENIED"
    assert (second.status, second.word, second.document["state"]) == (409, "not_actionable", "APPROVAL")
    assert (await client.api.job(asked))["state"] == "APPROVAL"


def _jobs() -> Any:
    from interlock.rooms.jobs.model import JOBS

    return JOBS
