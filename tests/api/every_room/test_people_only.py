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
from tests.harness.in_process_api import ASK, InProcessApi, open_api

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


async def furnished(api: InProcessApi) -> dict[str, str]:
    """The ids of another principal's things, one of each kind that an operation may name."""
    run_id = await set_up(api, [{"id": "agree", "kind": "approval"}])
    snapshot = await api.policy(ASK)
    ada = await open_with_key(api.service, await api.person("ada", ROLES))
    job = await api.submit(await api.agent("bot"))
    hook = (await api.call("POST", "webhooks", api.admin, BODIES["add_webhook"])).document
    signer = await api.call("POST", "signers", api.admin, {"public_key": PUBLIC_KEY, "person": "ada"})
    [key, *_] = (await api.get("api-keys"))["items"]
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


async def sent(api: InProcessApi, operation: str, key: str, ids: dict[str, str]) -> Any:
    known = CHANGES[operation]
    path = re.sub(r"\{(\w+)\}", lambda found: quote(ids.get(found[1], "gone"), safe=""), known.path)
    body = None if known.method == "DELETE" else SENT.get(operation, {})
    return await api.call(known.method, path, key, body)


def test_every_operation_is_for_people_or_for_anybody() -> None:
    assert set(CHANGES) == ADMINISTRATION | DECISIONS | RECONCILING | ANYBODYS
    assert not (ADMINISTRATION | DECISIONS | RECONCILING) & ANYBODYS


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_what_is_for_people_is_refused_to_all_others_whatever_their_roles(
    api: InProcessApi, kind: str
) -> None:
    ids, key = await furnished(api), await api.key("mighty", kind, ROLES)
    before = await whole(api)

    walked = ADMINISTRATION | DECISIONS | (set() if kind == "service" else RECONCILING)

    answers = {each: await sent(api, each, key, ids) for each in sorted(walked)}

    assert {each: (seen.status, seen.word) for each, seen in answers.items()} == dict.fromkeys(
        answers, (403, "people_only")
    )
    assert await whole(api) == before


@pytest.mark.parametrize("kind", ["agent", "worker"])
async def test_what_is_for_anybody_is_not_refused_for_what_the_caller_is(
    api: InProcessApi, kind: str
) -> None:
    ids, key = await furnished(api), await api.key("mighty", kind, ROLES)

    refused = [each for each in sorted(ANYBODYS) if (await sent(api, each, key, ids)).word == "people_only"]

    assert refused == []


async def test_a_refused_try_is_audited(api: InProcessApi) -> None:
    ids, key = await furnished(api), await api.key("mighty", "agent", ROLES)
    for each in sorted(ADMINISTRATION):
        await sent(api, each, key, ids)

    entries = (await api.get("audit?actor=mighty&limit=200"))["items"]

    assert [entry["outcome"] for entry in entries] == ["people_only"] * len(ADMINISTRATION)


@pytest.mark.parametrize(("kind", "may"), [("service", True), ("agent", False), ("worker", False)])
async def test_a_service_administers_where_the_setting_says_so_and_still_decides_nothing(
    kind: str, may: bool
) -> None:
    async with open_api(services_may_administer=True) as api:
        ids, key = await furnished(api), await api.key("mighty", kind, ROLES)
        decided = [
            (await sent(api, each, key, ids)).word for each in ("approve_job", "reject_job", "issue_grant")
        ]
        changed = await sent(api, "put_policy", key, ids)

    assert decided == ["people_only"] * 3
    assert changed.status == (200 if may else 403)


async def test_an_agent_edits_its_own_request_and_nobody_elses(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, mighty = await api.agent("bot"), await api.key("mighty", "agent", ROLES)
    job = await api.submit(bot)

    theirs = await api.call("POST", f"approvals/{job}/edit", mighty, BODIES["edit_job"])
    own = await api.call("POST", f"approvals/{job}/edit", bot, BODIES["edit_job"])

    assert (theirs.word, own.status) == ("people_only", 200)


async def whole(api: InProcessApi) -> list[Any]:
    """Everything that people decide by."""
    pages = ("principals", "api-keys", "signers", "webhooks", "policy", "keys", "grants")
    terms = await api.get("grants/terms")
    return [terms["signed_tasks"], *[await api.get(page) for page in pages]]
