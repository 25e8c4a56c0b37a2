"""Every problem code a caller may meet: one table, from which answers, OpenAPI and help pages are made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec


class CodeInfo(msgspec.Struct, frozen=True):
    """What one code means and what its reader should do next."""

    code: str
    status: int
    title: str
    meaning: str
    next_step: str
    retryable: bool = False


STATE_CODES = (
    CodeInfo(
        "key_already_issued",
        409,
        "Key already issued",
        "This request issued a key before, under the same `Idempotency-Key` but asked for with another admin key.",
        "Use the key that the first answer showed; if it is lost, revoke it and issue another under a new key.",
    ),
    CodeInfo(
        "conflict",
        409,
        "Conflict",
        "The state does not allow it.",
        "Read the state named in the answer, and decide again from there.",
    ),
    CodeInfo(
        "policy_denied",
        403,
        "Denied by policy",
        "A policy rule denies this action, or its expression fails on this request (a missing field, a wrong type); "
        "the job is kept as DENIED.",
        "Read `rule` and `reason`; `POST /api/v1/policy/evaluate` explains each rule. Where `expression`, `field` and "
        "`cause` are given, send the field as the rule expects it, or have the rule test it with `has()`.",
    ),
    CodeInfo(
        "self_approval",
        403,
        "Own request",
        "People may not decide their own requests, nor those of agents they own.",
        "Ask someone else to decide.",
    ),
    CodeInfo(
        "not_eligible",
        403,
        "Not eligible",
        "The rule asks for people of certain groups, and you are in none of them.",
        "Ask someone in one of the groups named in the answer.",
    ),
    CodeInfo(
        "bad_signature",
        403,
        "Signature not valid",
        "The grant needs a signature it lacks, or its signature does not match it and a registered key.",
        "Register the public key with `POST /api/v1/signers`, and send a signature made with its private key.",
    ),
    CodeInfo(
        "not_claimed",
        403,
        "No grant",
        "No grant permits it; none was consumed and nothing was begun.",
        "Read `reason`, and have a person issue a grant that fits with `POST /api/v1/grants`.",
    ),
    CodeInfo(
        "already_approved",
        409,
        "Already approved",
        "Someone approved this before.",
        "See `decided_by` and `decided_at`; cancel the job if it must not run.",
    ),
    CodeInfo(
        "already_rejected",
        409,
        "Already rejected",
        "Someone rejected this before.",
        "See `decided_by` and `decided_at`; submit a new job to ask again.",
    ),
    CodeInfo(
        "snapshot_changed",
        409,
        "Policy changed",
        "The policy changed after the job was submitted.",
        "Call `POST /api/v1/approvals/{job_id}/refresh`, review again, then decide.",
    ),
    CodeInfo(
        "job_changed",
        409,
        "Job changed",
        "The stored request no longer matches its hash: it was changed in the database, not through Interlock.",
        "Do not run it. Find out who wrote to the database, and submit a new job.",
    ),
    CodeInfo(
        "hash_mismatch",
        409,
        "Hash mismatch",
        "The `job_hash` you decided on is not that of the stored job, or is missing although the request was edited "
        "or its rule has `require_hash`. `changed` names what is different.",
        "Load the approval again, review what is there now, then decide with its `job_hash`.",
    ),
    CodeInfo(
        "target_changed",
        409,
        "Target changed",
        "The target's version moved after the job was submitted.",
        "See the conflict named in the answer; refresh the approval against the new version.",
    ),
    CodeInfo(
        "approval_expired",
        409,
        "Approval expired",
        "No one decided in time, or the job's own time (`expires_in`) is over.",
        "Ask again with `POST /api/v1/approvals/{job_id}/refresh`. If the job's own time is over, submit it again; "
        "if a workflow asked, run the step again.",
    ),
    CodeInfo(
        "not_actionable",
        409,
        "Not actionable",
        "Its state does not allow this.",
        "Read `state` in the answer; the detail names the next step.",
    ),
    CodeInfo(
        "in_grace",
        409,
        "Within the grace",
        "People approved the job and may still take that back, so nobody may carry it out before `grace_until`.",
        "Claim it again after `Retry-After`. It may have gone back to people by then.",
        retryable=True,
    ),
    CodeInfo(
        "fence_stale",
        409,
        "Stale fence",
        "Someone else owns this now; the fence sent belongs to an earlier owner.",
        "Stop working on it. What was done after losing it is recorded as a conflict.",
    ),
    CodeInfo(
        "action_id_reused",
        422,
        "Action id reused",
        "This action id was used before, for a different request.",
        "Use a new id for a new action.",
    ),
    CodeInfo(
        "effect_in_progress",
        409,
        "Effect in progress",
        "Another worker is carrying this effect out right now.",
        "Wait, then begin again: it will have committed, failed or become ambiguous.",
        retryable=True,
    ),
    CodeInfo(
        "superseded",
        409,
        "Superseded",
        "The target moved to another version, so this effect would overwrite newer work.",
        "Read the target, and propose the change against its new version.",
    ),
    CodeInfo(
        "effect_ambiguous",
        409,
        "Outcome unknown",
        "The effect may or may not have happened, and no one has said which.",
        "Find out what happened, then call `POST /api/v1/effects/{action_id}/resolve` with the evidence.",
    ),
)


__all__ = ["CODES", "CodeInfo", "Codes", "codes_with"]

_REQUEST = (
    CodeInfo(
        "invalid_request",
        400,
        "Invalid request",
        "The request is malformed: not strict JSON, an unknown field, a wrong type or a bad header.",
        "Read `errors`, which lists the path and reason of each fault, and send a corrected request.",
    ),
    CodeInfo(
        "unauthenticated",
        401,
        "Unknown key",
        "No key was sent, or it is unknown or revoked.",
        "Send `Authorization: Bearer <key>` or `X-API-Key: <key>`; an administrator issues keys with "
        "`POST /api/v1/principals/{name}/keys`.",
    ),
    CodeInfo(
        "forbidden",
        403,
        "Not allowed",
        "The key is known, but its principal has none of the roles that this operation needs.",
        "Ask an administrator for one of the roles named in `roles`.",
    ),
    CodeInfo(
        "cross_site",
        403,
        "From another site",
        "A form of another site, or a request that does not say where it comes from, asked the console to change "
        "something. Nothing was done.",
        "Do it in the console itself. A program uses the API with a key, not the console.",
    ),
    CodeInfo(
        "people_only",
        403,
        "People only",
        "Only a person may do this: decide a request, edit that of another caller, change principals, keys, groups, "
        "signers, webhooks or the policy. The key belongs to an agent, a worker or a service, and no role makes up "
        "for that.",
        "Have a person do it with a key of their own. A service may change them, but not decide, where the server "
        "runs with INTERLOCK_SERVICES_MAY_ADMINISTER.",
    ),
    CodeInfo(
        "not_found",
        404,
        "Not found",
        "There is no such path, or nothing with this id in your tenant.",
        "Check the id, and `/openapi.json` for the path.",
    ),
    CodeInfo(
        "method_not_allowed",
        405,
        "Method not allowed",
        "The path exists, but not with this method.",
        "Use one of the methods in the `Allow` header.",
    ),
    CodeInfo(
        "body_timeout",
        408,
        "Body too slow",
        "The body did not arrive within `limit_seconds` of its headers; nothing was decided.",
        "Send it faster or smaller; the connection is closed.",
    ),
    CodeInfo(
        "too_large",
        413,
        "Body too large",
        "The body is larger than `limit_bytes`.",
        "Send less, or keep the bulk elsewhere and send a reference and its hash.",
    ),
    CodeInfo(
        "uri_too_long",
        414,
        "Path too long",
        "The path and query together are longer than `limit_bytes`.",
        "Shorten the id or the query.",
    ),
    CodeInfo(
        "unsupported_media_type",
        415,
        "Unsupported media type",
        "The body's content type is not one that this operation reads, or the body is compressed.",
        "Send one of the content types in `supported`, not compressed.",
    ),
    CodeInfo(
        "headers_too_large",
        431,
        "Headers too large",
        "The headers together are larger than `limit_bytes`, or more than `limit_headers`.",
        "Send fewer or shorter headers.",
    ),
    CodeInfo(
        "idempotency_key_reused",
        422,
        "Idempotency key reused",
        "This `Idempotency-Key` was used before, for a different request.",
        "Use a new key for a new request; repeat a request unchanged.",
    ),
)

_RETRYABLE = (
    CodeInfo(
        "lock_busy",
        409,
        "Busy",
        "Another actor holds it, and did not let go within the acquire budget.",
        "Wait as long as `Retry-After` says, then repeat the call.",
        retryable=True,
    ),
    CodeInfo(
        "policy_throttled",
        429,
        "Throttled by policy",
        "A policy rule limits how often this may happen, and the limit is reached.",
        "Wait as long as `Retry-After` says, then repeat the call.",
        retryable=True,
    ),
    CodeInfo(
        "max_concurrent_runs",
        429,
        "All slots taken",
        "As many runs as the limit allows are active.",
        "Wait for a slot with `wait_seconds`, or repeat the call after `Retry-After`.",
        retryable=True,
    ),
    CodeInfo(
        "rate_limited",
        429,
        "Too many requests",
        "You send faster than your quota. A gateway in front of Interlock says so; Interlock itself never does.",
        "Wait as long as `Retry-After` says, then repeat the call.",
        retryable=True,
    ),
    CodeInfo(
        "store_unavailable",
        503,
        "Store unavailable",
        "The database did not answer in time; nothing was decided.",
        "Repeat the call after `Retry-After`, with the same idempotency key.",
        retryable=True,
    ),
    CodeInfo(
        "admission_unavailable",
        503,
        "Admission unavailable",
        "The admission gate could not be evaluated; nothing was admitted.",
        "Repeat the call after `Retry-After`, with the same idempotency key.",
        retryable=True,
    ),
    CodeInfo(
        "policy_unavailable",
        503,
        "Policy unavailable",
        "The policy could not be evaluated within its budget of 5 s, or could not be read; nothing was released.",
        "Repeat the call after `Retry-After`; if it keeps failing, check the rule named in the answer.",
        retryable=True,
    ),
    CodeInfo(
        "overloaded",
        503,
        "Overloaded",
        "More is asked for than can be done in time: the queue is full, every reading connection was busy, or "
        "too many unfinished bodies are held.",
        "Repeat the call after `Retry-After`.",
        retryable=True,
    ),
    CodeInfo(
        "outcome_unknown",
        503,
        "Outcome unknown",
        "The answer of the database was lost, so the decision may or may not have been made.",
        "Repeat the call with the same idempotency key: that is safe, and its answer says which.",
        retryable=True,
    ),
    CodeInfo(
        "internal_error",
        500,
        "Internal error",
        "Something unexpected broke on our side.",
        "Quote the `request_id` when you report it; the log has the rest.",
    ),
)

Codes: TypeAlias = Mapping[str, CodeInfo]

CODES: Codes = MappingProxyType({info.code: info for info in (*_REQUEST, *STATE_CODES, *_RETRYABLE)})


def codes_with(*, lock_busy_status: int) -> Codes:
    """The codes of a server that gives `lock_busy` a status of its own."""
    busy = msgspec.structs.replace(CODES["lock_busy"], status=lock_busy_status)
    return MappingProxyType({**CODES, busy.code: busy})
