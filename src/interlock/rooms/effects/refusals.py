"""Why an effect may not be attempted, or can no longer be settled this way."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.refusal import Next, Refusal


def _resolution(action_id: str) -> Next:
    return Next("resolve_effect", {"action_id": action_id}, needs=("outcome", "evidence"))


class ActionIdReused(Refusal):
    def __init__(self, action_id: str, stored: str) -> None:
        super().__init__(
            f"action {action_id} was begun for another request; a new request needs an action id of its own"
        )
        self.request_hash = stored


class EffectInProgress(Refusal):
    def __init__(self, action_id: str, by: str, expires_at: datetime, retry_after_seconds: float) -> None:
        super().__init__(
            f"{by} is carrying {action_id} out until {expires_at:%Y-%m-%dT%H:%M:%SZ}; "
            f"begin again in {retry_after_seconds:.1f} s, when it has committed, failed or become ambiguous"
        )
        self.state, self.begun_by = "IN_PROGRESS", by
        self.retry_after_seconds = retry_after_seconds


class EffectAmbiguous(Refusal):
    """`job_id` is the job of the gated call that the effect belongs to, if it belongs to one."""

    def __init__(
        self,
        action_id: str,
        by: str,
        begun_at: datetime,
        fence: int,
        downstream_key: str,
        *,
        job_id: str | None = None,
    ) -> None:
        super().__init__(
            f"whether {action_id} happened is not known ({by} began it at {begun_at:%Y-%m-%dT%H:%M:%SZ}); ask the "
            f"remote side about {downstream_key}, then have a person record what happened, with the evidence"
        )
        self.next = _resolution(action_id)
        self.state, self.begun_by, self.fence, self.downstream_key = "AMBIGUOUS", by, fence, downstream_key
        self.job_id = job_id


class EffectFenceStale(Refusal):
    """This attempt is not the one that may settle the effect. `contradicts`: it reports another outcome."""

    def __init__(self, action_id: str, *, fence: int, state: str, contradicts: bool = False) -> None:
        super().__init__(
            f"attempt {fence} of {action_id} does not settle it (it is {state}); "
            "stop, and have a person record what you know"
        )
        self.next = _resolution(action_id)
        self.fence, self.state, self.contradicts = fence, state, contradicts
        self.conflict_id: str | None = None


class EffectNotActionable(Refusal):
    """`by` and `at` say who settled it, if a person did."""

    def __init__(
        self, action_id: str, state: str, verb: str, *, by: str | None = None, at: datetime | None = None
    ) -> None:
        who = f", as {by} said" if by else ""
        super().__init__(
            f"{action_id} is {state}{who}, so there is nothing to {verb}; read what became of it"
        )
        self.next = Next("get_effect", {"action_id": action_id})
        self.state, self.by, self.at = state, by, at


class EffectOfCall(Refusal):
    """The effect belongs to a gated call, and ends with the call's job."""

    def __init__(self, action_id: str, verb: str, job_id: str) -> None:
        super().__init__(
            f"{action_id} is the effect of a gated call, which begins and ends with its job {job_id}: there is nothing "
            f"to {verb} here. If it is in doubt, have a person say what happened"
        )
        self.next = _resolution(action_id)
        self.job_id = job_id


class Superseded(Refusal):
    def __init__(self, target: str, expected: str, found: str, conflict_id: str, *, is_known: bool) -> None:
        super().__init__(
            f"{target} moved from {expected} to {found}; read it again and prepare the change for {found}. "
            f"See conflict {conflict_id}"
        )
        self.next = Next("get_conflict", {"conflict_id": conflict_id})
        self.target, self.expected, self.found, self.conflict_id = target, expected, found, conflict_id
        self.is_known = is_known


class JobNotHeld(Refusal):
    """The job that permits this effect is not held in the way that the caller says."""

    def __init__(self, job_id: str, state: str, *, fence: int | None) -> None:
        super().__init__(
            f"{job_id} is {state} and not held by this caller or permit; claim it again, "
            "and begin the effect under the new fence"
        )
        self.job_id, self.state, self.fence = job_id, state, fence
        self.conflict_id: str | None = None


class GrantMissing(Refusal):
    """No grant permits this effect; none was consumed."""

    def __init__(self, task: str, reason: str, *, execution_id: str, grant_id: str | None) -> None:
        super().__init__(
            f"nothing was begun and no grant consumed, because none permits {task}: {reason}; have a person issue "
            "one that fits, then begin again"
        )
        self.next = Next("issue_grant", {"task": task})
        self.task, self.reason = task, reason
        self.execution_id, self.grant_id = execution_id, grant_id


class PermitMismatch(Refusal):
    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(
            f"the permit does not allow this effect of {job_id}: {why}; claim the job again for a new one"
        )
        self.job_id = job_id
