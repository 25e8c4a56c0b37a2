"""A claim asks for permission present at that moment, and says in the audit why it was not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.rooms.jobs.approval import ApprovalState
from interlock.rooms.jobs.model import GRANTED_LABEL
from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.rooms.jobs.job_client import WORKABLE, Shift

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


async def entries(shift: Shift, job: str) -> list[dict[str, Any]]:
    return (await shift.stage.get(f"jobs/{job}/history"))["items"]


async def test_a_policy_tightened_to_deny_after_approval_stops_the_job_and_the_audit_says_why(
    shift: Shift,
) -> None:
    job = await shift.approved("pay.a")
    await shift.stage.policy(DENY)

    assert await shift.claim("pay.a") == []

    stopped = await shift.stage.job(job)
    assert (stopped["state"], stopped["decision"]["rule"]) == ("DENIED", "frozen")
    assert GRANTED_LABEL not in stopped["system_labels"]
    newest = (await entries(shift, job))[0]
    assert (newest["action"], newest["rule"]) == ("deny", "frozen")
    assert "the policy now denies it" in newest["details"]["why"]
    assert (await shift.stage.events(job))[-1] == "job.denied"


async def test_without_any_policy_nothing_approved_runs(shift: Shift) -> None:
    job = await shift.submit("free.a")
    await shift.stage.policy("version: v1\n")
    assert await shift.claim("free.a") == []
    assert (await shift.stage.job(job))["state"] == "DENIED"


async def test_what_stands_in_the_way_delays_nobody_behind_it(shift: Shift) -> None:
    for _ in range(5):
        await shift.approved("pay.a", priority="critical")
    await shift.stage.policy(DENY)
    free = await shift.submit("free.a")
    assert [job["id"] for job in await shift.claim("pay.a", "free.a", wait_seconds=0)] == [free]


async def test_what_may_no_longer_run_does_not_hide_what_may_from_a_claim_that_does_not_wait(
    shift: Shift,
) -> None:
    for _ in range(5):
        await shift.submit("free.a", env="old")
    wanted = await shift.submit("free.a", env="new")
    await shift.stage.policy("version: v1\nrules:\n  - {id: new, when: {env: new}, decision: allow}\n")
    assert [job["id"] for job in await shift.claim("free.a", max=1, wait_seconds=0)] == [wanted]


async def test_many_withdrawn_jobs_are_cleared_by_one_waiting_claim(shift: Shift) -> None:
    for _ in range(5):
        await shift.submit("free.a")
    shift.stage.clock.advance(1)
    await shift.stage.policy("version: v1\nrules:\n  - {id: b, when: {topic: free.b}, decision: allow}\n")
    wanted = await shift.submit("free.b", priority="low")
    assert [job["id"] for job in await shift.claim("free.*", wait_seconds=1)] == [wanted]


async def test_a_rule_that_now_asks_people_sends_the_job_to_them(shift: Shift) -> None:
    job = await shift.submit("free.a")
    await shift.stage.policy(STRICTER)

    assert await shift.claim("free.a") == []

    asked = await shift.stage.job(job)
    assert (asked["state"], asked["approval"]["rule"]) == ("APPROVAL", "now-asks")
    assert (await shift.stage.audit(job))[-1] == ("ask_again", "done")
    assert (await shift.stage.events(job))[-1] == "approval.requested"
    assert (await shift.stage.approve(job, shift.ada)).word == "approved"
    assert (await shift.take("free.a"))["id"] == job


async def test_a_yes_under_weaker_requirements_is_asked_for_again(shift: Shift) -> None:
    job = await shift.approved("pay.a")
    await shift.stage.policy(STRICTER)

    assert await shift.claim("pay.a") == []

    asked = await shift.stage.job(job)
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
    shift: Shift, before: str, after: str, stands: bool
) -> None:
    policy = (
        'version: v1\nrules:\n  - {id: ask, when: {topic: "pay.**"}, decision: require_human, approval: %s}\n'
    )
    people = [await shift.stage.person(name, groups=("finance",)) for name in ("ann", "bob")]
    await shift.stage.policy(policy % before)
    job = await shift.submit("pay.a")
    for person in people:
        await shift.stage.approve(job, person)
    assert (await shift.stage.job(job))["state"] == "PENDING"

    await shift.stage.policy(policy % after)

    assert bool(await shift.claim("pay.a")) is stands


async def test_a_policy_that_asks_no_more_than_before_changes_nothing(shift: Shift) -> None:
    job = await shift.approved("pay.a")
    await shift.stage.policy(WORKABLE + '  - {id: more, when: {topic: "x"}, decision: deny}\n')
    assert (await shift.take("pay.a"))["id"] == job


async def test_a_policy_that_now_allows_it_needs_nobody(shift: Shift) -> None:
    job = await shift.approved("pay.a")
    await shift.stage.policy(LOOSER)
    assert (await shift.take("pay.a"))["id"] == job


async def test_an_observing_policy_hands_everything_out(shift: Shift) -> None:
    job = await shift.submit("free.a")
    await shift.stage.policy(OBSERVE_DENY)
    assert (await shift.take("free.a"))["id"] == job


async def test_a_policy_that_fails_on_the_job_denies_it_at_the_claim(shift: Shift) -> None:
    job, approved = await shift.submit("free.a"), await shift.approved("pay.a")
    await shift.stage.policy(BROKEN % "payload.missing > 5")
    assert await shift.claim("free.a") == []
    named = await shift.stage.call("POST", f"jobs/{approved}/claim", shift.worker, {})

    assert (named.status, named.word) == (403, "policy_denied")
    for each in (job, approved):
        stopped = await shift.stage.job(each)
        assert (stopped["state"], stopped["decision"]["failure"]["field"]) == ("DENIED", "payload.missing")


async def test_a_policy_that_cannot_be_evaluated_holds_the_job_back_and_says_so_once(shift: Shift) -> None:
    job = await shift.submit("free.a", payload=TOO_MUCH)
    await shift.stage.policy(BROKEN % f'"{COSTLY}"')
    for _ in range(3):
        assert await shift.claim("free.a") == []
        shift.stage.clock.advance(20)

    held = await shift.stage.job(job)
    assert held["state"] == "PENDING"
    assert "odd" in held["held_up"]
    assert (await shift.stage.audit(job)).count(("claim_held_up", "done")) == 1
    await shift.stage.policy(WORKABLE)
    taken = await shift.take("free.a")
    assert (taken["id"], taken["held_up"]) == (job, None)


@pytest.mark.parametrize("changed", ["payload", "hash", "approval", "state", "label", "nobody"])
async def test_a_stored_job_that_was_altered_is_not_handed_out(shift: Shift, changed: str) -> None:
    job = await shift.approved("pay.a")
    record: Any = await shift.stage.service.store.get(_jobs(), "default", job)
    match changed:
        case "payload":
            await shift.alter(
                job, action=msgspec.structs.replace(record.action, payload=msgspec.Raw(b'{"n":9}'))
            )
        case "hash":
            await shift.alter(job, job_hash="sha256:" + "0" * 64)
        case "approval":
            other = msgspec.structs.replace(record.approval, job_hash="sha256:" + "0" * 64)
            await shift.alter(job, approval=other)
        case "state":
            await shift.alter(
                job, approval=msgspec.structs.replace(record.approval, state=ApprovalState.EXPIRED)
            )
        case "label":
            await shift.alter(job, system_labels={})
        case _:
            await shift.alter(job, approval=None)

    assert await shift.claim("pay.a") == []
    assert (await shift.stage.job(job))["state"] in ("DENIED", "APPROVAL")


async def test_a_named_claim_asks_for_the_same_permission(shift: Shift) -> None:
    denied, asked = await shift.approved("pay.a"), await shift.submit("free.a")
    await shift.stage.policy(
        DENY.replace('"free.**"}, decision: allow', '"free.**"}, decision: require_human')
    )

    first = await shift.stage.call("POST", f"jobs/{denied}/claim", shift.worker, {})
    second = await shift.stage.call("POST", f"jobs/{asked}/claim", shift.worker, {})

    assert (first.status, first.word, first.document["rule"]) == (403, "policy_denied", "frozen")
    assert (await shift.stage.job(denied))["state"] == "DENIED"
    assert (second.status, second.word, second.document["state"]) == (409, "not_actionable", "APPROVAL")
    assert (await shift.stage.job(asked))["state"] == "APPROVAL"


def _jobs() -> Any:
    from interlock.rooms.jobs.model import JOBS

    return JOBS
