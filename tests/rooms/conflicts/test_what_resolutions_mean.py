"""Which commands a resolution means, for records in whichever state and at whichever time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from interlock.rooms.conflicts.model import SAFEST, Affected, Conflict, ConflictKind, FollowUp, Resolution
from interlock.rooms.effects.model import Effect, EffectState, Outcome
from interlock.rooms.effects.settlement import ResolveEffect
from interlock.rooms.identity.model import Caller
from interlock.rooms.jobs.model import Approval, Job, JobState, Requirement, Verdict
from interlock.rooms.jobs.revisions import RefreshApproval
from interlock.rooms.jobs.rules import CancelJob, RetryJob
from interlock.rooms.jobs.settlement import Concerned, ResolveDoubt, Settlement, steps_of
from interlock.rooms.leases.lines import EndLeaseInConflict, SettleLease
from interlock.rooms.leases.model import Lease, LeaseMode, LeaseState
from interlock.rooms.policy.action import Action

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ADA = Caller(tenant="t", principal="ada")
EDIT, STALE = ConflictKind.HUMAN_EDIT_DURING_LEASE, ConflictKind.STALE_FENCE
PENDING_RESULT = ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING
KEEPING = (Resolution.KEEP_FIRST, Resolution.KEEP_SECOND)


def conflict(kind: ConflictKind = EDIT, **fields: Any) -> Conflict:
    return Conflict(
        tenant="t", id="cnf_1", kind=kind, target="doc:1", competing=(), affected=Affected(),
        safest_next_step=SAFEST[kind].next_step, opened_at=NOW, **fields,
    )  # fmt: skip


def job(state: JobState = JobState.APPROVAL, job_id: str = "job_1") -> Job:
    """A job; one that waits for people does so for an hour."""
    asked = Approval(
        requirement=Requirement(), policy_snapshot="p", job_hash="h", requested_at=NOW,
        expires_at=NOW + 60 * MINUTE,
    )  # fmt: skip
    return Job(
        tenant="t", id=job_id, action=Action(topic="pay", payload=msgspec.Raw(b"{}")), state=state, job_hash="h",
        policy_snapshot="p", verdict=Verdict(decision="require_human"), submitted_by="bot", submitted_at=NOW,
        updated_at=NOW, approval=asked if state is JobState.APPROVAL else None,
    )  # fmt: skip


def effect(state: EffectState = EffectState.AMBIGUOUS, *, begun_at: datetime = NOW) -> Effect:
    """An attempt that has a minute."""
    return Effect(
        tenant="t", id="pay:1", uid="u", request_hash="r", state=state, fence=1, downstream_key="d", ttl_seconds=60,
        first_begun_at=NOW, begun_at=begun_at, begun_by="bot", expires_at=begun_at + MINUTE,
    )  # fmt: skip


def lease(state: LeaseState = LeaseState.CONFLICT_DETECTED, conflict_id: str | None = "cnf_1") -> Lease:
    """A lease for a minute."""
    return Lease(
        tenant="t", id="lse_1", resource="doc:1", mode=LeaseMode.EXCLUSIVE, state=state, fence=1, owner="bot",
        ttl_seconds=60, since=NOW, expires_at=NOW + MINUTE, conflict_id=conflict_id,
    )  # fmt: skip


def steps(
    resolution: Resolution, concerned: Concerned, *, about: Conflict | None = None, now: datetime = NOW
) -> list[Any]:
    said = Settlement(by=ADA, resolution=resolution, note="we talked")
    return list(steps_of(about or conflict(), said, concerned, now))


ASKED_AGAIN = (FollowUp.ASK_AGAIN, RefreshApproval(caller=ADA, job_id="job_1", submitter="bot"))
RETRIED = (FollowUp.RETRY_JOB, RetryJob(caller=ADA, job_id="job_1", reason="we talked"))
CANCELLED = (FollowUp.CANCEL_JOB, CancelJob(caller=ADA, job_id="job_1", reason="we talked"))
FOR_JOBS = {
    (Resolution.MERGE, JobState.APPROVAL): ASKED_AGAIN,
    (Resolution.RETRY, JobState.APPROVAL): ASKED_AGAIN,
    (Resolution.RETRY, JobState.EXPIRED): ASKED_AGAIN,
    (Resolution.RETRY, JobState.FAILED): RETRIED,
    (Resolution.DISCARD, JobState.APPROVAL): CANCELLED,
    (Resolution.DISCARD, JobState.PENDING): CANCELLED,
    (Resolution.DISCARD, JobState.RUNNING): CANCELLED,
    (Resolution.DISCARD, JobState.FAILED): CANCELLED,
}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("resolution", Resolution)
def test_a_job_is_asked_about_again_retried_or_withdrawn_or_left_alone(
    resolution: Resolution, state: JobState
) -> None:
    step = FOR_JOBS.get((resolution, state))
    assert steps(resolution, Concerned(jobs=(job(state),))) == ([step] if step else [])


def test_a_job_is_judged_by_the_time_given() -> None:
    waiting = Concerned(jobs=(job(JobState.APPROVAL),))
    too_late = NOW + 60 * MINUTE
    assert steps(Resolution.DISCARD, waiting, now=too_late - MINUTE) == [CANCELLED]
    assert steps(Resolution.DISCARD, waiting, now=too_late) == []
    assert steps(Resolution.MERGE, waiting, now=too_late) == []
    assert steps(Resolution.RETRY, waiting, now=too_late) == [ASKED_AGAIN]


@pytest.mark.parametrize("kind", ConflictKind)
@pytest.mark.parametrize("resolution", Resolution)
def test_an_effect_in_doubt_may_be_tried_again_if_the_collision_was_about_its_outcome(
    resolution: Resolution, kind: ConflictKind
) -> None:
    evidence = msgspec.Raw(b'{"conflict":"cnf_1","note":"we talked"}')
    outcome = ResolveEffect(caller=ADA, action_id="pay:1", outcome=Outcome.NOT_COMMITTED, evidence=evidence)
    tried = ResolveDoubt(resolution=outcome)
    is_settled = resolution is Resolution.RETRY and kind in (PENDING_RESULT, STALE)
    wanted = [(FollowUp.RETRY_EFFECT, tried)] if is_settled else []
    assert steps(resolution, Concerned(effect=effect()), about=conflict(kind)) == wanted


@pytest.mark.parametrize("state", set(EffectState) - {EffectState.AMBIGUOUS})
def test_an_effect_without_doubt_is_left_alone(state: EffectState) -> None:
    known = Concerned(effect=effect(state))
    assert steps(Resolution.RETRY, known, about=conflict(PENDING_RESULT)) == []


def test_an_effect_is_in_doubt_from_the_time_its_attempt_ends() -> None:
    running = Concerned(effect=effect(EffectState.IN_PROGRESS))
    about = conflict(PENDING_RESULT)
    assert steps(Resolution.RETRY, running, about=about, now=NOW + MINUTE / 2) == []
    assert [each[0] for each in steps(Resolution.RETRY, running, about=about, now=NOW + MINUTE)] == [
        FollowUp.RETRY_EFFECT
    ]


def test_an_attempt_after_the_collision_is_none_of_its_business() -> None:
    later = Concerned(effect=effect(begun_at=NOW + MINUTE))
    assert steps(Resolution.RETRY, later, about=conflict(STALE), now=NOW + 5 * MINUTE) == []
    seen_again = conflict(STALE, last_seen_at=NOW + MINUTE)
    assert len(steps(Resolution.RETRY, later, about=seen_again, now=NOW + 5 * MINUTE)) == 1


@pytest.mark.parametrize(
    "state",
    [
        LeaseState.CONFLICT_DETECTED,
        LeaseState.WAITING_ON_REVIEW,
        LeaseState.APPLYING,
    ],
)
@pytest.mark.parametrize("resolution", Resolution)
def test_the_lease_in_the_conflict_goes_on_or_ends_whatever_its_owner_does(
    resolution: Resolution, state: LeaseState
) -> None:
    about = {"caller": ADA, "lease_id": "lse_1", "resource": "doc:1", "conflict_id": "cnf_1"}
    ended = (FollowUp.END_LEASE, EndLeaseInConflict(**about))
    settled = (FollowUp.SETTLE_LEASE, SettleLease(**about))
    wanted = ended if resolution is Resolution.DISCARD else settled
    assert steps(resolution, Concerned(leases=(lease(state),))) == [wanted]


@pytest.mark.parametrize("resolution", Resolution)
def test_a_lease_that_is_over_or_in_another_conflict_is_left_alone(resolution: Resolution) -> None:
    others = (lease(conflict_id="cnf_2"), lease(conflict_id=None), lease(LeaseState.RELEASED))
    assert steps(resolution, Concerned(leases=others)) == []
    assert steps(resolution, Concerned(leases=(lease(),)), now=NOW + MINUTE) == []


def test_what_a_late_writer_brought_is_discarded_and_its_owner_is_left_alone() -> None:
    owned = Concerned(jobs=(job(JobState.RUNNING),), leases=(lease(),), effect=effect())
    assert steps(Resolution.DISCARD, owned, about=conflict(STALE)) == []


@pytest.mark.parametrize("resolution", KEEPING)
def test_keeping_a_side_lets_lease_holders_go_on_and_nothing_else(resolution: Resolution) -> None:
    owned = Concerned(jobs=(job(),), leases=(lease(),), effect=effect())
    assert [each[0] for each in steps(resolution, owned, about=conflict(PENDING_RESULT))] == [
        FollowUp.SETTLE_LEASE
    ]


def test_everything_that_is_affected_is_settled_jobs_first_and_leases_last() -> None:
    owned = Concerned(
        jobs=(job(JobState.FAILED), job(JobState.SUCCEEDED, "job_2"), job(job_id="job_3")),
        effect=effect(),
        leases=(lease(),),
    )
    assert [each[0] for each in steps(Resolution.RETRY, owned, about=conflict(PENDING_RESULT))] == [
        FollowUp.RETRY_JOB,
        FollowUp.ASK_AGAIN,
        FollowUp.RETRY_EFFECT,
        FollowUp.SETTLE_LEASE,
    ]


def test_a_conflict_whose_records_are_gone_is_only_recorded() -> None:
    assert [steps(resolution, Concerned()) for resolution in Resolution] == [[], [], [], [], []]
