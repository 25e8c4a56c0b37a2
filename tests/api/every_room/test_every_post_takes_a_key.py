"""Every POST looks for what it answered before under its key, even if what it is about is no longer there."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.api.assembly import OPERATIONS
from interlock.kernel.command import Command
from interlock.kernel.idempotency import KEPT_ANSWERS, KeptAnswer
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from tests.harness.in_process_api import ASK, InProcessApi

POSTS = {each.id: each.path for each in OPERATIONS if each.method == "POST" and not each.public}
ROLES = "submit,work,review,operate,audit,admin"
PUBLIC_KEY = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
FENCE = {"fence": 1}
BODIES: dict[str, Any] = {
    "submit_job": {"topic": "pay", "payload": {}},
    "evaluate_policy": {"topic": "pay"},
    "simulate_policy": {"policy": "version: v1\n"},
    "roll_back_policy": {"snapshot": "sha256:0"},
    "reject_job": {"reason": "no"},
    "edit_job": {"payload": {}, "reason": "less"},
    "withdraw_vote": {"reason": "too soon"},
    "comment_on_approval": {"text": "look again"},
    "ask_back": {"text": "why?"},
    "claim_jobs": {"topics": ["pay"]},
    "renew_job": FENCE,
    "complete_job": {**FENCE, "result": 1},
    "fail_job": {**FENCE, "error": "no"},
    "release_job": FENCE,
    "issue_grant": {"task": "deploy"},
    "claim_grant": {"task": "deploy", "execution_id": "e"},
    "issue_key": {"kind": "agent", "roles": []},
    "add_signer": {"public_key": PUBLIC_KEY},
    "acquire_lease": {"resource": "doc"},
    "renew_lease": FENCE,
    "checkpoint_lease": {**FENCE, "done": ["a"]},
    "suspend_lease": {**FENCE, "reason": "waiting_on_review"},
    "resume_lease": FENCE,
    "handoff_lease": {**FENCE, "checkpoint": {"done": ["a"]}},
    "release_lease": FENCE,
    "check_lease": FENCE,
    "begin_effect": {"request_hash": "sha256:0"},
    "commit_effect": {**FENCE, "result": 1},
    "fail_effect": {**FENCE, "error": "no"},
    "resolve_effect": {"outcome": "committed", "evidence": "seen"},
    "reconcile_job": {"outcome": "committed", "evidence": "seen"},
    "touch_target": {"version": "1"},
    "touch_targets": {"changes": [{"key": "doc", "version": "1"}]},
    "resolve_conflict": {"resolution": "keep_second", "note": "newer"},
    "renew_run": FENCE,
    "complete_run": FENCE,
    "fail_run": {**FENCE, "error": "no"},
    "cancel_run": FENCE,
    "rerun_run": {"from_step": "one"},
    "add_webhook": {"url": "https://example.com/hook"},
}


class Answered(Command[None], frozen=True, kw_only=True):
    """Something else was answered under the key `k` before."""

    answer_id: str

    def reads(self) -> Reads:
        return Reads(own=(KEPT_ANSWERS.key("default", self.answer_id),))

    def decide(self, world: World) -> None:
        kept = KeptAnswer(
            tenant="default",
            id=self.answer_id,
            request_digest="sha256:another",
            status=200,
            body="{}",
            expires_at=world.now.replace(year=world.now.year + 1),
        )
        world.put(KEPT_ANSWERS, kept)


async def lasting(api: InProcessApi, key: str) -> dict[str, str]:
    """The ids of what is never removed; all else may be gone."""
    await api.policy(ASK)
    job = await api.submit(key)
    lease = (await api.call("POST", "leases", key, {"resource": "doc"})).document
    await api.call("POST", "targets/doc/touch", await api.person("bob"), {"version": "2"})
    [conflict] = (await api.get("conflicts"))["items"]
    return {"job_id": job, "lease_id": lease["lease_id"], "conflict_id": conflict["id"]}


@pytest.mark.parametrize("operation", POSTS)
async def test_another_request_under_a_key_that_was_used_is_refused(
    api: InProcessApi, operation: str
) -> None:
    ada = await api.person("ada", ROLES)
    ids = await lasting(api, ada)
    await api.service.kernel.run(
        Answered(answer_id=hashlib.sha256(f"ada\0{operation}\0k".encode()).hexdigest())
    )
    path = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], "gone"), POSTS[operation])

    seen = await api.call("POST", path, ada, BODIES.get(operation, {}), idempotency_key="k")

    assert (seen.status, seen.word) == (422, "idempotency_key_reused"), seen.body
