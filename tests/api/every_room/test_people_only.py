"""Whatever roles an agent or a worker has, it changes nothing that people decide by: every operation is walked."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest

from interlock.api.assembly import OPERATIONS
from interlock.service.sessions import open_with_key
from tests.api.every_room.test_every_post_takes_a_key import BODIES, PUBLIC_KEY, ROLES
from tests.api.workflows.test_workflows import set_up
from tests.harness.in_process_api import ASK, Stage, open_stage

CHANGES = {each.id: each for each in OPERATIONS if each.method != "GET" and not each.public}
# A new operation belongs into one of these two sets: may something that is not a person do it?
ADMINISTRATION = {
    "add_signer", "add_webhook", "end_session", "issue_key", "make_sign_in_link", "put_policy", "remove_principal",
    "remove_webhook", "revoke_api_key", "revoke_signer", "roll_back_policy", "rotate_permit_keys",
    "rotate_webhook_secret", "set_grant_terms", "set_principal",
}  # fmt: skip
DECISIONS = {
    "approve_job", "approve_step", "ask_back", "comment_on_approval", "edit_job", "issue_grant", "look_at_approval",
    "reject_job", "withdraw_vote",
}  # fmt: skip
# Besides people, a service may that knows what the other side says.
RECONCILING = {"resolve_effect"}
ANYBODYS = {
    "acquire_lease", "begin_effect", "cancel_job", "cancel_run", "check_lease",
    "checkpoint_lease", "claim_grant",
    "claim_job", "claim_jobs", "clear_limit", "commit_effect", "complete_job", "complete_run", "define_workflow",
    "delete_run", "delete_workflow", "evaluate_policy", "fail_effect", "fail_job", "fail_run", "handoff_lease",
    "reconcile_job", "redeliver_dead_letter", "refresh_approval", "release_job", "release_lease", "renew_job",
    "renew_lease", "renew_run", "rerun_run", "resolve_conflict", "resume_lease", "retry_job", "revoke_grant",
    "set_lease_terms", "set_limit", "simulate_policy", "start_run", "submit_job", "suspend_lease", "test_webhook",
    "touch_target", "touch_targets",
}  # fmt: skip
SENT: dict[str, Any] = BODIES | {
    "add_signer": {"public_key": PUBLIC_KEY, "person": "ada"},
    "issue_key": {"kind": "person", "roles": ["review"]},
    "put_policy": {"version": "v1", "default": "allow"},
    "set_principal": {"roles": ["review"]},
    "set_grant_terms": {"signed_tasks": []},
    "set_limit": {"max_concurrent_runs": 1},
}  # fmt: skip


async def furnished(stage: Stage) -> dict[str, str]:
    """The ids of somebody else's things, one of each kind that an operation may name."""
    run_id = await set_up(stage, [{"id": "agree", "kind": "approval"}])
    snapshot = await stage.policy(ASK)
    ada = await open_with_key(stage.service, await stage.person("ada", ROLES))
    job = await stage.submit(await stage.agent("bot"))
    hook = (await stage.call("POST", "webhooks", stage.admin, BODIES["add_webhook"])).document
    signer = await stage.call("POST", "signers", stage.admin, {"public_key": PUBLIC_KEY, "person": "ada"})
    [key, *_] = (await stage.get("api-keys"))["items"]
    SENT["roll_back_policy"] = {"snapshot": snapshot}
    return {
        "job_id": job,
        "name": "ada",
        "session_id": ada.session.id,
        "key_id": key["key_id"],
        "webhook_id": hook.get("webhook_id") or hook["id"],
        "fingerprint": signer.document["fingerprint"],
        "scope": "tenant",
        "run_id": run_id,
        "step": "agree",
    }


async def sent(stage: Stage, operation: str, key: str, ids: dict[str, str]) -> Any:
    known = CHANGES[operation]
    path = re.sub(r"\{(\w+)\}", lambda found: quote(ids.get(found[1], "gone"), safe=""), known.path)
    body = None if known.method == "DELETE" else SENT.get(operation, {})
    return await stage.call(known.method, path, key, body)


def test_every_operation_is_for_people_or_for_anybody() -> None:
    assert set(CHANGES) == ADMINISTRATION | DECISIONS | RECONCILING | ANYBODYS
    assert not (ADMINISTRATION | DECISIONS | RECONCILING) & ANYBODYS


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_what_is_for_people_is_refused_to_all_others_whatever_their_roles(
    stage: Stage, kind: str
) -> None:
    ids, key = await furnished(stage), await stage.key("mighty", kind, ROLES)
    before = await whole(stage)

    walked = ADMINISTRATION | DECISIONS | (set() if kind == "service" else RECONCILING)

    answers = {each: await sent(stage, each, key, ids) for each in sorted(walked)}

    assert {each: (seen.status, seen.word) for each, seen in answers.items()} == dict.fromkeys(
        answers, (403, "people_only")
    )
    assert await whole(stage) == before


@pytest.mark.parametrize("kind", ["agent", "worker"])
async def test_what_is_for_anybody_is_not_refused_for_what_the_caller_is(stage: Stage, kind: str) -> None:
    ids, key = await furnished(stage), await stage.key("mighty", kind, ROLES)

    refused = [each for each in sorted(ANYBODYS) if (await sent(stage, each, key, ids)).word == "people_only"]

    assert refused == []


async def test_a_refused_try_is_audited(stage: Stage) -> None:
    ids, key = await furnished(stage), await stage.key("mighty", "agent", ROLES)
    for each in sorted(ADMINISTRATION):
        await sent(stage, each, key, ids)

    entries = (await stage.get("audit?actor=mighty&limit=200"))["items"]

    assert [entry["outcome"] for entry in entries] == ["people_only"] * len(ADMINISTRATION)


@pytest.mark.parametrize(("kind", "may"), [("service", True), ("agent", False), ("worker", False)])
async def test_a_service_administers_where_the_setting_says_so_and_still_decides_nothing(
    kind: str, may: bool
) -> None:
    async with open_stage(services_may_administer=True) as stage:
        ids, key = await furnished(stage), await stage.key("mighty", kind, ROLES)
        decided = [
            (await sent(stage, each, key, ids)).word for each in ("approve_job", "reject_job", "issue_grant")
        ]
        changed = await sent(stage, "put_policy", key, ids)

    assert decided == ["people_only"] * 3
    assert changed.status == (200 if may else 403)


async def test_an_agent_edits_its_own_request_and_nobody_elses(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, mighty = await stage.agent("bot"), await stage.key("mighty", "agent", ROLES)
    job = await stage.submit(bot)

    theirs = await stage.call("POST", f"approvals/{job}/edit", mighty, BODIES["edit_job"])
    own = await stage.call("POST", f"approvals/{job}/edit", bot, BODIES["edit_job"])

    assert (theirs.word, own.status) == ("people_only", 200)


async def whole(stage: Stage) -> list[Any]:
    """Everything that people decide by."""
    pages = ("principals", "api-keys", "signers", "webhooks", "policy", "keys", "grants")
    terms = await stage.get("grants/terms")
    return [terms["signed_tasks"], *[await stage.get(page) for page in pages]]
