"""Who may claim, revoke and set terms; what a repeat may name; what no batch mixes up."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from interlock.rooms.grants.claims import ClaimGrant, LookFurther, NotClaimed
from interlock.rooms.grants.model import GrantUse
from interlock.rooms.grants.rules import IssueGrant
from interlock.rooms.grants.signatures import SetGrantTerms
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import Forbidden
from tests.rooms.grants.conftest import Granting, Pen


async def statuses(granting: Granting, path: str, body: Any, method: str = "POST") -> dict[str, int]:
    """What a person with each role alone is answered."""
    answers: dict[str, int] = {}
    for role in ("submit", "work", "review", "operate", "audit", "admin"):
        key = await granting.api.person(f"only-{role}", role)
        answers[role] = (await granting.api.call(method, path, key, body)).status
    return answers


def claim_by(principal: str, tenant: str = "default") -> ClaimGrant:
    """A claim as a process that opens the store makes it, without the routes before it."""
    caller = Caller(tenant=tenant, principal=principal)
    return ClaimGrant(caller=caller, task="deploy", args=msgspec.Raw(b"{}"), execution_id="e")


async def test_a_claim_needs_a_role_that_acts(granting: Granting) -> None:
    await granting.grant(uses=9)
    body = {"task": "deploy", "args": {}, "execution_id": "e"}
    assert await statuses(granting, "grants/claim", body) == {
        "submit": 200, "work": 200, "review": 403, "operate": 200, "audit": 403, "admin": 200,
    }  # fmt: skip


async def test_a_grant_is_revoked_by_whoever_decides_or_runs_the_service(granting: Granting) -> None:
    grant = await granting.grant()
    assert await statuses(granting, f"grants/{grant}/revoke", {}) == {
        "submit": 403, "work": 403, "review": 200, "operate": 200, "audit": 403, "admin": 200,
    }  # fmt: skip


async def test_only_an_admin_says_which_tasks_need_a_signature_or_which_keys_sign(
    granting: Granting, pen: Pen
) -> None:
    fingerprint = pen.fingerprint.replace("/", "%2F").replace("+", "%2B")
    only_admin = dict.fromkeys(("submit", "work", "review", "operate", "audit"), 403) | {"admin": 200}
    assert await statuses(granting, "grants/terms", {"signed_tasks": []}, "PUT") == only_admin
    assert await statuses(granting, f"signers/{fingerprint}/revoke", {}) == only_admin
    assert await statuses(granting, "signers/SHA256:none/revoke", {}) == only_admin | {"admin": 404}


async def test_a_task_needs_a_signature_if_any_pattern_names_it(granting: Granting) -> None:
    terms = {"signed_tasks": ["wipe.*", "deploy"]}
    assert (await granting.api.call("PUT", "grants/terms", granting.api.admin, terms)).status == 200
    assert (await granting.issue("deploy")).word == "bad_signature"
    assert (await granting.issue("wipe.all")).word == "bad_signature"
    assert (await granting.issue("read")).status == 201


async def test_a_repeat_that_names_the_grant_it_used_gets_the_same_use(granting: Granting) -> None:
    grant, other = await granting.grant(), await granting.grant()
    first = await granting.claim(execution="e", grant_id=grant)
    assert await granting.claim(execution="e", grant_id=grant) == first
    assert f"used grant {grant}" in (await granting.claim(execution="e", grant_id=other))["reason"]


async def test_a_repeat_that_insists_on_the_signature_it_had_gets_the_same_use(
    granting: Granting, pen: Pen
) -> None:
    await granting.grant(**pen.sign(granting.api))
    first = await granting.claim(execution="e")
    assert first["claimed"]
    assert await granting.claim(execution="e", signed=True) == first


async def test_a_group_is_asked_of_whoever_issued_the_grant(granting: Granting) -> None:
    sam, zoe = await granting.api.person("sam", groups=("sales",)), await granting.api.person("zoe")
    await granting.issue(key=sam)
    await granting.issue(key=zoe)
    await granting.api.call("POST", f"api-keys/{zoe.split('_')[1]}/revoke", granting.api.admin, {})
    assert (await granting.api.call("DELETE", "principals/zoe", granting.api.admin)).status == 200

    refused = await granting.claim(groups=["ops"])

    assert "sam is not in ops" in refused["reason"]
    assert "zoe is not in ops" in refused["reason"]
    assert (await granting.claim(groups=["ops", "sales"]))["claimed"]


async def test_a_grant_issued_in_the_same_batch_is_for_its_own_tenant_alone(granting: Granting) -> None:
    await granting.api.agent("bot", tenant="other")
    issue = IssueGrant(caller=Caller(tenant="default", principal="ada"), grant_id="gnt_1", task="deploy")
    run = granting.api.service.kernel.run

    _, theirs, ours = await asyncio.gather(
        run(issue), run(claim_by("bot", tenant="other")), run(claim_by("bot"))
    )

    assert isinstance(theirs, NotClaimed)
    assert isinstance(ours, GrantUse)


async def test_the_commands_check_the_roles_themselves(granting: Granting) -> None:
    run, ada = granting.api.service.kernel.run, Caller(tenant="default", principal="ada")
    for command in (claim_by("ada"), SetGrantTerms(caller=ada, signed_tasks=())):
        with pytest.raises(Forbidden):
            await run(command)


async def test_what_became_of_the_uses_stays_so_when_the_time_is_up(granting: Granting) -> None:
    ends = {
        name: await granting.grant(name, uses=2, expires_in="10m") for name in ("open", "spent", "revoked")
    }
    for task in ("open", "spent", "spent", "revoked"):
        await granting.claim(task=task)
    await granting.api.call("POST", f"grants/{ends['revoked']}/revoke", granting.ada, {})

    async def tallies() -> dict[str, dict[str, int]]:
        now = granting.api.clock.now
        found = {name: (await granting.stored(grant)).tally(now) for name, grant in ends.items()}
        return {name: {what: n for what, n in tally.items() if n} for name, tally in found.items()}

    before = await tallies()
    granting.api.clock.advance(600)

    assert before == {
        "open": {"issued": 2, "open": 1, "claimed": 1},
        "spent": {"issued": 2, "claimed": 2},
        "revoked": {"issued": 2, "claimed": 1, "revoked": 1},
    }
    assert await tallies() == before | {"open": {"issued": 2, "claimed": 1, "expired": 1}}


async def test_a_look_through_grants_that_do_not_fit_comes_to_an_end(granting: Granting) -> None:
    for _ in range(8):
        await granting.grant(pins={"env": "test"})
    claim = msgspec.structs.replace(claim_by("bot"), looks_left=1)
    kernel = granting.api.service.kernel
    with pytest.raises(LookFurther) as further:
        await kernel.run(claim)
    last = msgspec.structs.replace(claim, looks_left=further.value.claim.looks_left)
    assert isinstance(await kernel.run(last), NotClaimed)
