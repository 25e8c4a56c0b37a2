"""Why a worker cannot have, keep or finish a job."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.refusal import Refusal


class FenceStale(Refusal):
    """The caller does not hold the job under this fence, or no longer does."""

    def __init__(self, job_id: str, *, fence: int, state: str, holder: str | None) -> None:
        super().__init__(
            f"fence {fence} does not hold {job_id} (it is {state}); stop working on "
            "it: whatever you did since you lost it may be done again by somebody else"
        )
        self.job_id, self.fence = job_id, fence
        self.state, self.holder = state, holder
        self.conflict_id: str | None = None


class HeldElsewhere(Refusal):
    """Somebody holds this job right now."""

    def __init__(self, job_id: str, holder: str, expires_at: datetime) -> None:
        super().__init__(
            f"{holder} is working on {job_id}, until {expires_at:%Y-%m-%dT%H:%M:%SZ} unless it renews; "
            f"follow it with GET /api/v1/jobs/{job_id}?until=finished&wait_seconds=30"
        )
        self.state, self.holder, self.lease_expires_at = "RUNNING", holder, expires_at


class CallersOnly(Refusal):
    """The job belongs to a gated call: only whoever submitted it carries it out."""

    def __init__(self, job_id: str, submitter: str) -> None:
        super().__init__(
            f"{job_id} belongs to a call of {submitter}, so only {submitter} may carry it out; "
            "submit a job of your own, or one with executor worker"
        )
        self.job_id = job_id


class PermissionWithdrawn(Refusal):
    """What was allowed is not any more; the job is now `DENIED`."""

    def __init__(self, job_id: str, rule: str | None, why: str) -> None:
        super().__init__(f"{job_id} may no longer run: {why}; submit a new job if it is still wanted")
        self.job_id, self.state, self.rule = job_id, "DENIED", rule


class PermissionMissing(Refusal):
    """The job may not run as it stands; `state` is where it went."""

    def __init__(self, job_id: str, state: str, why: str) -> None:
        super().__init__(f"{job_id} may not run now: {why}; read it with GET /api/v1/jobs/{job_id}")
        self.job_id, self.state = job_id, state


class PermissionUnclear(Refusal):
    """Whether the job may run could not be found out, so it does not."""

    def __init__(self, job_id: str, why: str, retry_after_seconds: float) -> None:
        super().__init__(
            f"whether {job_id} may run could not be evaluated ({why}); it is offered again later"
        )
        self.job_id, self.retry_after_seconds = job_id, retry_after_seconds
