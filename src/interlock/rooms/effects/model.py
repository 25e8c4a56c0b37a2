"""An effect: one action on a remote system, recorded before it is attempted.

Interlock cannot make a remote system act once. It records the intent first, gives the caller a stable key and a fence
that the remote system can check, and never guesses an outcome: an effect that neither committed nor failed in time is
`AMBIGUOUS`, and is not attempted again until a person or a `reconcile` reports what happened. The refusals say why an
effect may not be attempted, or can no longer be settled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record, micros
from interlock.kernel.refusal import Next, Refusal

NULL = msgspec.Raw(b"null")
INLINE_BYTES_MAX = 64 * 1024
_CALL = re.compile(r"call:job_[0-9a-f]{32}")
TTL_SECONDS_DEFAULT = 60


class EffectState(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    COMMITTED = "COMMITTED"
    FAILED = "FAILED"
    AMBIGUOUS = "AMBIGUOUS"


TRANSITIONS: Mapping[tuple[EffectState, str], EffectState] = {
    (EffectState.IN_PROGRESS, "commit"): EffectState.COMMITTED,
    (EffectState.IN_PROGRESS, "fail"): EffectState.FAILED,
    (EffectState.IN_PROGRESS, "doubt"): EffectState.AMBIGUOUS,
    (EffectState.FAILED, "begin"): EffectState.IN_PROGRESS,
    (EffectState.FAILED, "doubt"): EffectState.AMBIGUOUS,
    (EffectState.AMBIGUOUS, "commit"): EffectState.COMMITTED,
    (EffectState.AMBIGUOUS, "fail"): EffectState.FAILED,
    (EffectState.AMBIGUOUS, "doubt"): EffectState.AMBIGUOUS,
    (EffectState.AMBIGUOUS, "resolve_committed"): EffectState.COMMITTED,
    (EffectState.AMBIGUOUS, "resolve_not_committed"): EffectState.FAILED,
}


class Outcome(StrEnum):
    """What was found out about an effect whose outcome was unknown."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not_committed"


class Doubt(StrEnum):
    """Why an outcome is unknown."""

    TIME = "time"
    REPORTED = "reported"
    CONTRADICTED = "contradicted"


class LeaseRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lease under which it is done: on which resource, and for which session of its owner."""

    id: str
    fence: int
    resource: str
    session: str = ""


class PermitClaims(msgspec.Struct, frozen=True, kw_only=True):
    """What a permit with a good signature says."""

    job_id: str
    job_hash: str
    fence: int


class GrantRef(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a grant that permits it. One use is one effect, however many attempts that takes.

    `signed` and `groups` are as the use was claimed.
    """

    id: str
    task: str
    use: int
    args_digest: str
    signed: bool = False
    groups: tuple[str, ...] = ()


class EffectTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What it changes, and the version that it was prepared for."""

    key: str
    version: str


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a result is kept that is too large to be part of the record."""

    id: str
    digest: str
    size: int


class Resolved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who said what had happened, and how they know."""

    outcome: Outcome
    by: str
    at: datetime
    evidence: msgspec.Raw = NULL


class Effect(Record, frozen=True, kw_only=True):
    """One action by its id. `fence` counts its attempts and only grows; `uid` orders effects by their first."""

    uid: str
    request_hash: str
    state: EffectState
    fence: int
    downstream_key: str
    ttl_seconds: int | float
    first_begun_at: datetime
    begun_at: datetime
    begun_by: str
    expires_at: datetime
    ended_at: datetime | None = None
    result: msgspec.Raw = NULL
    stored_result: StoredResult | None = None
    error: msgspec.Raw = NULL
    doubt: Doubt | None = None
    job_id: str | None = None
    job_hash: str | None = None
    lease: LeaseRef | None = None
    target: EffectTarget | None = None
    grant: GrantRef | None = None
    resolved: Resolved | None = None

    def state_at(self, now: datetime) -> EffectState:
        """The state by the clock: an attempt past its time is ambiguous even if no sweep has run."""
        overdue = self.state is EffectState.IN_PROGRESS and now >= self.expires_at
        return EffectState.AMBIGUOUS if overdue else self.state


class EffectResult(Record, frozen=True, kw_only=True):
    """A large result, written once."""

    action_id: str
    digest: str
    size: int
    result: msgspec.Raw


def id_of_call(job_id: str) -> str:
    """The id of a gated call's effect, from the call's job."""
    return f"call:{job_id}"


def job_of_call(action_id: str) -> str | None:
    """The job of the gated call that an effect belongs to, if its id says so: no other call begins or ends it."""
    return action_id.removeprefix("call:") if _CALL.fullmatch(action_id) else None


def downstream_key(tenant: str, action_id: str) -> str:
    """The same for every attempt of one action, so that the remote side can tell a repeat."""
    said = b"interlock:effect/v1\n" + f"{tenant}\0{action_id}".encode()
    return f"ilk_{hashlib.sha256(said).hexdigest()[:40]}"


EFFECTS = Kind(
    "effect",
    Effect,
    table="effects",
    columns=("uid", "state", "overdue_at"),
    values=lambda effect: (
        effect.uid,
        effect.state,
        micros(effect.expires_at) if effect.state is EffectState.IN_PROGRESS else None,
    ),
)
RESULTS = Kind("effect_result", EffectResult, table="effect_results")


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
