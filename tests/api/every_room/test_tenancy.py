"""Another tenant's ids behave exactly as absent ones, in every operation that takes an id."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.api.assembly import OPERATIONS
from interlock.api.operations import Operation
from tests.harness.in_process_api import ASK, InProcessApi, Seen

EVERY_ROLE = "submit,work,review,operate,audit,admin"
ABSENT = {
    "job_id": "job_01900000000070008000000000000000",
    "name": "nobody",
    "key_id": "0" * 16,
    "snapshot": "sha256:" + "f" * 64,
}
BODIES: dict[str, object] = {
    "reject_job": {"reason": "no"},
    "edit_job": {"payload": {}, "reason": "x"},
    "withdraw_vote": {"reason": "x"},
    "comment_on_approval": {"text": "x"},
    "ask_back": {"text": "x"},
    "renew_job": {"fence": 1},
    "complete_job": {"fence": 1, "result": {}},
    "fail_job": {"fence": 1, "error": "x", "retryable": True},
    "release_job": {"fence": 1},
    "claim_one_job": {},
}
# A name is the tenant's own: giving a key to a name that another tenant uses makes a new principal.
NAMES_ITS_OWN = {"issue_key"}
IDENTIFIED = [
    operation
    for operation in OPERATIONS
    if operation.path_parameters
    and set(operation.path_parameters) <= set(ABSENT)
    and operation.id not in NAMES_ITS_OWN
]


@pytest.mark.parametrize("operation", IDENTIFIED, ids=lambda operation: operation.id)
async def test_another_tenants_id_is_as_absent_as_one_that_never_was(
    api: InProcessApi, operation: Operation[Any, Any, Any, Any]
) -> None:
    snapshot = await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot)
    theirs = await api.key("stranger", "person", EVERY_ROLE, tenant="elsewhere")
    present = {"job_id": job, "name": "bot", "key_id": bot.split("_")[1], "snapshot": snapshot}
    before = await api.job(job)

    foreign = await send(api, operation, theirs, present)
    absent = await send(api, operation, theirs, ABSENT)

    assert foreign.status == 404 or (foreign.status, operation.id not in BODIES) == (400, True)
    assert told(foreign, present) == told(absent, ABSENT)
    assert await api.job(job) == before
    assert (await api.get("principals/me", bot))["name"] == "bot"


async def send(
    api: InProcessApi, operation: Operation[Any, Any, Any, Any], key: str, ids: dict[str, str]
) -> Seen:
    path = operation.path
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    body = None if operation.method == "GET" else BODIES.get(operation.id, {})
    return await api.call(operation.method, path, key, body)


def told(seen: Seen, ids: dict[str, str]) -> tuple[int, str]:
    text = seen.body.decode()
    for name, value in ids.items():
        text = text.replace(value, f"<{name}>")
    return seen.status, text


async def test_no_list_shows_another_tenants_things(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot)
    theirs = await api.key("stranger", "person", EVERY_ROLE, tenant="elsewhere")

    for path in ("jobs", "approvals", "policy/snapshots", "policy/observed", f"audit?subject={job}"):
        assert (await api.get(path, theirs))["items"] == [], path
    assert [item["name"] for item in (await api.get("principals", theirs))["items"]] == ["stranger"]
    assert len((await api.get("api-keys", theirs))["items"]) == 1
    assert (await api.get("policy", theirs))["activated_at"] is None


async def test_tenants_have_policies_of_their_own(api: InProcessApi) -> None:
    await api.policy(ASK)
    theirs = await api.key("stranger", "person", EVERY_ROLE, tenant="elsewhere")

    assert (await api.propose(theirs, topic="read")).word == "policy_denied"
    put = await api.call(
        "PUT", "policy", theirs, b"version: v1\ndefault: allow\n", headers={"content-type": "text/yaml"}
    )
    assert put.status == 200
    assert (await api.propose(theirs, topic="launch")).status == 201
    assert (await api.propose(await api.agent(), topic="launch")).word == "policy_denied"


async def test_the_same_name_in_two_tenants_is_two_people(api: InProcessApi) -> None:
    """A request of one tenant's ada is not the other ada's own, and is not hers to see either."""
    await api.policy(ASK)
    mine = await api.person("ada", "submit,review")
    theirs = await api.key("ada", "person", EVERY_ROLE, tenant="elsewhere")
    job = await api.submit(mine)

    assert (await api.approve(job, theirs)).word == "not_found"
    assert (await api.approve(job, mine)).word == "self_approval"
