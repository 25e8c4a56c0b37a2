"""Why a job, a vote or a claim is refused."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.refusal import Next, Refusal


def _another_job() -> Next:
    return Next("submit_job", {}, needs=("topic", "payload"))


class FenceStale(Refusal):
    """The caller does not hold the job under this fence, or no longer does."""

    def __init__(self, job_id: str, *, fence: int, state: str, holder: str | None) -> None:
        super().__init__(
            f"fence {fence} does not hold {job_id} (it is {state}); stop working on "
            "it: whatever you did since you lost it may be done again by another worker"
        )
        self.job_id, self.fence = job_id, fence
        self.state, self.holder = state, holder
        self.conflict_id: str | None = None


class HeldElsewhere(Refusal):
    """Another worker holds this job right now."""

    def __init__(self, job_id: str, holder: str, expires_at: datetime) -> None:
        super().__init__(
            f"{holder} is working on {job_id}, until {expires_at:%Y-%m-%dT%H:%M:%SZ} unless it renews; "
            "wait until it is finished"
        )
        self.next = Next("get_job", {"job_id": job_id, "until": "finished", "wait_seconds": 30})
        self.state, self.holder, self.lease_expires_at = "RUNNING", holder, expires_at


class InGrace(Refusal):
    """People released the job and may still take that back, so no worker may take it yet."""

    def __init__(self, job_id: str, grace_until: datetime, retry_after_seconds: float) -> None:
        super().__init__(
            f"{job_id} was approved, and its reviewers may take that back until "
            f"{grace_until:%Y-%m-%dT%H:%M:%SZ}; wait until then, and claim it again"
        )
        self.next = Next("get_job", {"job_id": job_id, "until": "decided", "wait_seconds": 30})
        self.job_id, self.state, self.grace_until = job_id, "PENDING", grace_until
        self.retry_after_seconds = retry_after_seconds


class CallersOnly(Refusal):
    """The job belongs to a gated call: only its submitter carries it out."""

    def __init__(self, job_id: str, submitter: str) -> None:
        super().__init__(
            f"{job_id} belongs to a call of {submitter}, so only {submitter} may carry it out; "
            "submit a job of your own, or one with executor worker"
        )
        self.job_id = job_id


class PermissionWithdrawn(Refusal):
    """The policy no longer allows the job; it is now `DENIED`."""

    def __init__(self, job_id: str, rule: str | None, why: str) -> None:
        super().__init__(f"{job_id} may no longer run: {why}; submit a new job if it is still wanted")
        self.next = _another_job()
        self.job_id, self.state, self.rule = job_id, "DENIED", rule


class PermissionMissing(Refusal):
    """The job may not run now; `state` is its new state."""

    def __init__(self, job_id: str, state: str, why: str) -> None:
        super().__init__(f"{job_id} may not run now: {why}; read what it waits for")
        self.next = Next("get_job", {"job_id": job_id})
        self.job_id, self.state = job_id, state


class PermissionUnclear(Refusal):
    """The policy could not be evaluated, so the job does not run."""

    def __init__(self, job_id: str, why: str, retry_after_seconds: float) -> None:
        super().__init__(
            f"whether {job_id} may run could not be evaluated ({why}); it is offered again later"
        )
        self.job_id, self.retry_after_seconds = job_id, retry_after_seconds


_STOPPABLE = ("PENDING", "RUNNING")


class DecisionRefused(Refusal):
    """Any refusal of a decision; audited under its name."""


class AlreadyRejected(DecisionRefused):
    def __init__(self, job_id: str, state: str, by: str, at: datetime, decision_id: str) -> None:
        super().__init__(
            f"{job_id} was rejected by {by} at {at:%Y-%m-%dT%H:%M:%SZ}; submit a new job to ask again"
        )
        self.next = _another_job()
        self.state, self.by, self.at, self.decision_id = state, by, at, decision_id


class AlreadyApproved(DecisionRefused):
    def __init__(self, job_id: str, state: str, by: str, at: datetime, decision_id: str) -> None:
        can_stop = state in _STOPPABLE
        then = "cancel the job to stop it" if can_stop else f"it is {state} by now"
        super().__init__(f"{job_id} was approved by {by} at {at:%Y-%m-%dT%H:%M:%SZ}; {then}")
        self.next = Next("cancel_job", {"job_id": job_id}) if can_stop else None
        self.state, self.by, self.at, self.decision_id = state, by, at, decision_id


class SnapshotChanged(DecisionRefused):
    def __init__(self, job_id: str, state: str, submitted_under: str, current: str | None) -> None:
        super().__init__(f"the policy changed since {job_id} was submitted; refresh it, and look at it again")
        self.next = Next("refresh_approval", {"job_id": job_id})
        self.state, self.submitted_under, self.current = state, submitted_under, current


class JobChanged(DecisionRefused):
    def __init__(self, job_id: str, state: str, expected: str, found: str) -> None:
        super().__init__(
            f"what is stored for {job_id} no longer matches its hash; nothing will run. "
            "Find out who changed it, then refresh or cancel the job"
        )
        self.next = Next("refresh_approval", {"job_id": job_id})
        self.state, self.expected, self.found = state, expected, found


class HashMismatch(DecisionRefused):
    """`changed` names the parts of the request that differ from the version that was seen, or from an older one."""

    def __init__(
        self, job_id: str, state: str, stored: str, changed: tuple[str, ...] = (), *, is_missing: bool = False
    ) -> None:
        what = f" ({', '.join(changed)} changed)" if changed else ""
        if not is_missing:
            said = f"you saw another version of {job_id}{what}"
        elif changed:
            said = f"{job_id} was edited since it was submitted{what}, so say which version you approve"
        else:
            said = f"the rule that asks about {job_id} wants to know which version you approve"
        super().__init__(f"{said}; read it again and decide with its hash {stored}")
        self.next = Next("get_approval", {"job_id": job_id})
        self.state, self.stored, self.changed = state, stored, changed


class TargetChanged(DecisionRefused):
    def __init__(
        self, job_id: str, state: str, target: str, expected: str, found: str, conflict_id: str
    ) -> None:
        super().__init__(
            f"{target} moved from {expected} to {found} since {job_id} was submitted; "
            f"look at conflict {conflict_id}, then refresh or cancel"
        )
        self.next = Next("get_conflict", {"conflict_id": conflict_id})
        self.state, self.target, self.conflict_id = state, target, conflict_id
        self.expected, self.found = expected, found


class ApprovalExpired(DecisionRefused):
    """It was not decided in time. It can be asked again, except a workflow's question, which ended its step."""

    state = "EXPIRED"

    def __init__(self, job_id: str, at: datetime, now: datetime) -> None:
        ago = int((now - at).total_seconds())
        super().__init__(
            f"the approval of {job_id} expired {ago} s ago; refresh it to ask again, "
            "or run the step again if a workflow asked"
        )
        self.next = Next("refresh_approval", {"job_id": job_id})
        self.at = at


class JobExpired(DecisionRefused):
    """The job's own time is up, so asking again would be of no use."""

    state = "EXPIRED"

    def __init__(self, job_id: str, at: datetime, now: datetime) -> None:
        ago = int((now - at).total_seconds())
        super().__init__(f"the time of {job_id} was over {ago} s ago; submit it again if it is still wanted")
        self.next = _another_job()
        self.at = at


class NotActionable(DecisionRefused):
    """`by` and `at` say who decided it before, if a person did."""

    def __init__(
        self, job_id: str, state: str, verb: str, *, by: str | None = None, at: datetime | None = None
    ) -> None:
        first = f": {by} was first" if by else ""
        super().__init__(f"{job_id} is {state}, so there is nothing to {verb}{first}; read what became of it")
        self.next = Next("get_job", {"job_id": job_id})
        self.state, self.by, self.at = state, by, at


class NotWithdrawable(DecisionRefused):
    """The approval can no longer be taken back; `why` says since when."""

    def __init__(self, job_id: str, state: str, why: str) -> None:
        super().__init__(f"{job_id} is {state}: {why}; cancel the job to stop it")
        self.next = Next("cancel_job", {"job_id": job_id})
        self.state = state


class NoVote(DecisionRefused):
    """The request still waits, and the caller has not approved it."""

    state = "APPROVAL"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"{job_id} waits for people, and you have no vote to withdraw; reject it to stop it")
        self.next = Next("reject_job", {"job_id": job_id}, needs=("reason",))


class NotAVoter(DecisionRefused):
    """Only its voter takes an approval back."""

    def __init__(self, job_id: str, voters: tuple[str, ...]) -> None:
        super().__init__(
            f"you did not vote for {job_id}, so there is nothing of yours to withdraw; "
            f"ask {' or '.join(voters)} to, or cancel the job"
        )
        self.state = "PENDING"


class CommentsFull(DecisionRefused):
    """The request has as many comments as are kept."""

    def __init__(self, job_id: str, state: str, most: int) -> None:
        super().__init__(
            f"{job_id} has {most} comments, and no more are kept; decide it, or submit a new job"
        )
        self.state = state


class SubmitterUnknown(DecisionRefused):
    """The policy needs the submitter to judge an action, and that principal was deleted."""

    def __init__(self, job_id: str, state: str, submitter: str) -> None:
        super().__init__(
            f"{submitter}, who submitted {job_id}, is no longer known here, so the policy cannot be asked about it; "
            "reject it, or cancel it and submit it again"
        )
        self.state = state


class EditedTooOften(DecisionRefused):
    """Every version is kept for the reviewer, and there is no room for another."""

    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(
            f"{job_id} has been edited so often, or is so large, that no other version can be kept beside those "
            "before it; cancel it and submit a new job"
        )
        self.next = Next("cancel_job", {"job_id": job_id})
        self.state = state


class AskedByWorkflow(DecisionRefused):
    """A workflow's question shows the state of its run, so its text cannot be edited."""

    def __init__(self, job_id: str, state: str, run_id: str) -> None:
        super().__init__(
            f"{job_id} is a question of {run_id} and shows what became of it, so it cannot be edited; "
            "approve or reject it, or cancel the run"
        )
        self.state = state


class SelfApproval(DecisionRefused):
    def __init__(self, job_id: str, principal: str) -> None:
        super().__init__(
            f"{principal} submitted or edited {job_id}, or owns who did; another person must decide it"
        )


class NotEligible(DecisionRefused):
    def __init__(self, job_id: str, groups: tuple[str, ...]) -> None:
        super().__init__(
            f"{job_id} is for {', '.join(groups)} to decide; ask a member of one of these groups"
        )
        self.groups = groups
