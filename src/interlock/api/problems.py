"""The only map from refusals and faults to HTTP. A refusal that is not in it becomes an internal error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import msgspec

from interlock.api.problem import problem
from interlock.kernel.idempotency import IdempotencyKeyReused
from interlock.kernel.refusal import (
    Fault,
    LockBusy,
    OutcomeUnknown,
    Overloaded,
    Refusal,
    StoreUnavailable,
    Unreadable,
)
from interlock.kernel.storage import StoreDown
from interlock.rooms.admission import model as admission
from interlock.rooms.conflicts import model as conflicts
from interlock.rooms.effects import model as effects
from interlock.rooms.events import model as relays
from interlock.rooms.grants import model as grants
from interlock.rooms.identity import refusals as identity
from interlock.rooms.jobs import refusals as approvals
from interlock.rooms.jobs import refusals as jobs
from interlock.rooms.jobs.model import JOBS
from interlock.rooms.leases import model as leases
from interlock.rooms.policy import refusals as policy
from interlock.rooms.workflows import model as workflows
from interlock.service.compute_pool import TookTooLong
from interlock.service.permits import SigningUnavailable
from interlock.wire.problem import Problem

CODES_OF: Mapping[type[Exception], str] = {
    identity.Unauthenticated: "unauthenticated",
    identity.SessionOver: "unauthenticated",
    identity.LinkOver: "unauthenticated",
    identity.SignInRefused: "forbidden",
    identity.Forbidden: "forbidden",
    identity.PeopleOnly: "people_only",
    identity.NotFound: "not_found",
    identity.KindMismatch: "conflict",
    identity.KeysLive: "conflict",
    identity.NameTaken: "conflict",
    identity.NameUnreadable: "invalid_request",
    identity.OwnerRing: "conflict",
    identity.OwnersTooMany: "conflict",
    identity.OwnedTooMany: "conflict",
    relays.TooManyWebhooks: "conflict",
    relays.NotDead: "conflict",
    Unreadable: "internal_error",
    IdempotencyKeyReused: "idempotency_key_reused",
    policy.PolicyUnavailable: "policy_unavailable",
    policy.SimulationTooLong: "policy_unavailable",
    policy.PolicyMoved: "conflict",
    policy.SnapshotUnusable: "conflict",
    policy.PolicyThrottled: "policy_throttled",
    approvals.AlreadyApproved: "already_approved",
    approvals.AlreadyRejected: "already_rejected",
    approvals.SnapshotChanged: "snapshot_changed",
    approvals.JobChanged: "job_changed",
    approvals.HashMismatch: "hash_mismatch",
    approvals.TargetChanged: "target_changed",
    approvals.ApprovalExpired: "approval_expired",
    approvals.JobExpired: "approval_expired",
    approvals.NotActionable: "not_actionable",
    approvals.EditedTooOften: "not_actionable",
    approvals.NotWithdrawable: "not_actionable",
    approvals.NoVote: "not_actionable",
    approvals.CommentsFull: "not_actionable",
    approvals.NotAVoter: "not_eligible",
    approvals.SubmitterUnknown: "not_actionable",
    approvals.AskedByWorkflow: "not_actionable",
    approvals.SelfApproval: "self_approval",
    approvals.NotEligible: "not_eligible",
    jobs.FenceStale: "fence_stale",
    jobs.HeldElsewhere: "conflict",
    jobs.InGrace: "in_grace",
    jobs.CallersOnly: "forbidden",
    jobs.PermissionWithdrawn: "policy_denied",
    jobs.PermissionMissing: "not_actionable",
    jobs.PermissionUnclear: "policy_unavailable",
    SigningUnavailable: "store_unavailable",
    TookTooLong: "too_large",
    admission.GateFull: "max_concurrent_runs",
    admission.GateUnavailable: "admission_unavailable",
    admission.RunFenceStale: "fence_stale",
    admission.RunOver: "not_actionable",
    workflows.BadSteps: "invalid_request",
    workflows.StepNotRerunnable: "not_actionable",
    workflows.RunUnderWay: "not_actionable",
    workflows.StepsNotDone: "not_actionable",
    leases.LeaseHeld: "lock_busy",
    leases.LeaseFenceStale: "fence_stale",
    leases.LeaseSessionMissing: "fence_stale",
    leases.LeaseNotActionable: "not_actionable",
    leases.ProgressRequired: "not_actionable",
    leases.ResourceTooDeep: "invalid_request",
    leases.ResourceUnclear: "invalid_request",
    leases.CheckpointTooLarge: "too_large",
    grants.BadSignature: "bad_signature",
    grants.SignatureRequired: "bad_signature",
    grants.BadGrantTime: "invalid_request",
    grants.GrantExists: "conflict",
    grants.GrantOver: "not_actionable",
    grants.SignerTaken: "conflict",
    grants.NotAPublicKey: "invalid_request",
    conflicts.AlreadyResolved: "conflict",
    effects.ActionIdReused: "action_id_reused",
    effects.EffectInProgress: "effect_in_progress",
    effects.EffectAmbiguous: "effect_ambiguous",
    effects.EffectFenceStale: "fence_stale",
    effects.EffectNotActionable: "not_actionable",
    effects.EffectOfCall: "not_actionable",
    effects.Superseded: "superseded",
    effects.JobNotHeld: "fence_stale",
    effects.PermitMismatch: "forbidden",
    effects.GrantMissing: "not_claimed",
    LockBusy: "lock_busy",
    StoreUnavailable: "store_unavailable",
    StoreDown: "store_unavailable",
    OutcomeUnknown: "outcome_unknown",
    Overloaded: "overloaded",
}

_CODES_BY_NAME = {kind.__name__: code for kind, code in CODES_OF.items()}

# Where the fault is that a rule found in a request, for `errors`.
_PLACES: Mapping[type[Exception], str] = {
    workflows.BadSteps: "/steps",
    leases.ResourceTooDeep: "/resource",
    leases.ResourceUnclear: "/resource",
    grants.BadGrantTime: "/expires_in",
    grants.BadGrantMoment: "/expires_at",
    grants.NotAPublicKey: "/public_key",
}

_MEMBERS: Mapping[str, str] = {
    "by": "decided_by",
    "at": "at",
    "decision_id": "decision_id",
    "state": "state",
    "groups": "groups",
    "rule": "rule",
    "submitted_under": "submitted_under",
    "current": "current_snapshot",
    "expected": "expected",
    "found": "found",
    "stored": "job_hash",
    "changed": "changed",
    "target": "target",
    "conflict_id": "conflict_id",
    "scope": "scope",
    "active": "active",
    "limit": "limit",
    "waiting": "waiting",
    "job_id": "job_id",
    "fence": "fence",
    "holder": "holder",
    "session": "session",
    "lease_expires_at": "lease_expires_at",
    "grace_until": "grace_until",
    "request_hash": "request_hash",
    "begun_by": "begun_by",
    "downstream_key": "downstream_key",
    "limit_bytes": "limit_bytes",
    "task": "task",
    "reason": "reason",
}


def code_of(error: BaseException) -> str | None:
    """The problem code of a refusal or fault, or None if it is not an expected one."""
    if isinstance(error, Unreadable) and error.kind == JOBS.name:
        return "job_changed"
    return next((code for kind, code in CODES_OF.items() if isinstance(error, kind)), None)


def code_named(outcome: str) -> str:
    """What an audit entry's outcome is called outside: a refusal by its problem code, all else as it is."""
    return _CODES_BY_NAME.get(outcome, outcome)


def translator(lock_busy_status: int) -> Callable[[Exception], Problem | None]:
    """The translation, with the status that this server gives `lock_busy`."""

    def translate(error: Exception) -> Problem | None:
        code = code_of(error)
        if code is None:
            return None
        return problem(
            code,
            error.detail if isinstance(error, Refusal | Fault) else str(error),
            status=lock_busy_status if code == "lock_busy" else None,
            retry_after_ms=_retry_after_ms(error),
            then=error.next if isinstance(error, Refusal) else None,
            members=_members(error),
        )

    return translate


def _retry_after_ms(error: Exception) -> int | None:
    seconds: float | None = getattr(error, "retry_after_seconds", None)
    return None if seconds is None else max(1, ceil(seconds * 1000))


def _members(error: Exception) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for attribute, member in _MEMBERS.items():
        value = getattr(error, attribute, None)
        if value is not None:
            members[member] = value
    if "at" in members and "decided_by" in members:
        members["decided_at"] = members.pop("at")
    if type(error) in _PLACES:
        members["errors"] = [{"path": _PLACES[type(error)], "reason": str(error)}]
    return {name: _plain(value) for name, value in members.items()}


def _plain(value: Any) -> Any:
    """A member as JSON spells it; msgspec writes moments and tuples as every other answer has them."""
    return msgspec.to_builtins(value)
