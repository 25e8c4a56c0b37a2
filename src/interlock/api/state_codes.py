"""Codes of the `conflict` family and its kin: what the state of things does not allow."""

from __future__ import annotations

from interlock.api.code_info import CodeInfo

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
        "Read `rule` and `reason`; `interlock policy evaluate` explains each rule. Where `expression`, `field` and "
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
        "Signature not good",
        "The grant needs a signature it lacks, or its signature does not match it and a registered key.",
        "Register the key with `interlock signer add`, and sign with `interlock grant --sign-with KEYFILE`.",
    ),
    CodeInfo(
        "not_claimed",
        403,
        "No grant",
        "No grant permits it; none was consumed and nothing was begun.",
        "Read `reason`, and have a person issue a grant that fits with `interlock grant`.",
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
        "Call `POST /approvals/{job_id}/refresh`, review again, then decide.",
    ),
    CodeInfo(
        "job_changed",
        409,
        "Job changed",
        "The stored request no longer matches its hash: it was altered behind Interlock's back.",
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
        "Nobody decided in time, or the job's own time (`expires_in`) is over.",
        "Ask again with `POST /approvals/{job_id}/refresh`. If the job's own time is over, submit it again; "
        "if a workflow asked, run the step again.",
    ),
    CodeInfo(
        "not_actionable",
        409,
        "Not actionable",
        "The state it is in does not allow this.",
        "Read `state` in the answer; the detail names the next step.",
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
        "The effect may or may not have happened, and nobody has said which.",
        "Find out, then call `POST /effects/{action_id}/resolve` with the evidence.",
    ),
)
