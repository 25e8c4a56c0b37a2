"""A claim is held to every pin and every limit of a grant, and a use to the task and the groups it was claimed for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.rooms.grants.conftest import Granting, Pen

LIMITS = [{"path": "cents", "total_max": 100}, {"path": "mails", "total_max": 10}]


@pytest.mark.parametrize("args", [{"env": "test", "repo": "x"}, {"env": "prod", "repo": "billing"}])
async def test_every_pin_of_a_grant_has_to_fit(granting: Granting, args: dict[str, Any]) -> None:
    await granting.grant(pins={"env": "test", "repo": "billing"})

    assert (await granting.claim(args))["claimed"] is False
    assert (await granting.claim({"env": "test", "repo": "billing"}))["claimed"]


@pytest.mark.parametrize(("cents", "mails", "path"), [(60, 1, "cents"), (1, 6, "mails")])
async def test_every_limit_of_a_grant_is_spent_and_held(
    granting: Granting, cents: int, mails: int, path: str
) -> None:
    grant = await granting.grant(uses=9, limits=LIMITS)
    spent = {"cents": cents, "mails": mails}
    assert (await granting.claim(spent))["claimed"]

    refused = await granting.claim(spent)

    assert (refused["claimed"], f"limit {path}" in refused["reason"]) == (False, True)
    assert (await granting.read(grant))["spent"] == spent


async def test_a_glob_tells_upper_case_from_lower(granting: Granting) -> None:
    await granting.grant(pins={"branch": {"glob": "fix/*"}})
    assert "pin branch" in (await granting.claim({"branch": "FIX/7"}))["reason"]


async def test_an_execution_of_one_task_is_no_permission_for_another(granting: Granting) -> None:
    await granting.grant("deploy")
    assert (await granting.claim({}, "run-7", task="deploy"))["claimed"]

    assert "no open grant for destroy" in (await granting.claim({}, "run-7", task="destroy"))["reason"]


async def test_a_task_and_an_execution_are_told_apart_however_their_names_meet(granting: Granting) -> None:
    await granting.grant("a", uses=2)
    await granting.grant("ab", uses=2)
    await granting.claim({}, "bot-1", task="a", key=await granting.api.agent("bbot"))

    other = await granting.claim({}, "bot-1", task="ab", key=await granting.api.agent("bot"))

    assert (other["claimed"], other["use"]) == (True, 1)
    grants = (await granting.api.get("grants"))["items"]
    assert {grant["task"]: grant["used"] for grant in grants} == {"a": 1, "ab": 1}


async def test_a_later_use_has_a_higher_fence(granting: Granting) -> None:
    await granting.grant(uses=3)
    assert [(await granting.claim())["fence"] for _ in range(3)] == [1, 2, 3]


async def test_a_use_claimed_for_either_of_two_groups_stands_for_neither_alone(granting: Granting) -> None:
    olga = await granting.api.person("olga", groups=("ops",))
    await granting.issue(key=olga)
    first = await granting.claim({}, "run-7", groups=["ops", "leads"])
    assert first["claimed"]

    for group in ("ops", "leads"):
        assert (await granting.claim({}, "run-7", groups=[group]))["claimed"] is False
    assert await granting.claim({}, "run-7", groups=["leads", "ops"]) == first


async def test_what_was_signed_for_one_tenant_is_not_issued_in_another(granting: Granting, pen: Pen) -> None:
    api = granting.api
    ada, root = await api.person("ada", tenant="other"), await api.person("root", "admin", tenant="other")
    key = {"public_key": pen.public_key, "person": "ada"}
    assert (await api.call("POST", "signers", root, key)).status == 201

    here = await granting.issue(key=ada, **pen.sign(api))
    there = await granting.issue(key=ada, **pen.sign(api, tenant="other"))

    assert (here.word, there.status) == ("bad_signature", 201)


async def test_a_signed_grant_takes_no_unsigned_ones_place(granting: Granting, pen: Pen) -> None:
    grant = await granting.grant(uses=5)

    seen = await granting.issue(**pen.sign(granting.api, uses=5, nonce=grant))

    assert (seen.status, seen.word) == (409, "conflict")
    assert (await granting.read(grant))["signed_by"] is None


async def test_a_grant_lasts_a_year_and_a_day_at_most(granting: Granting) -> None:
    year = granting.api.clock.now + timedelta(days=366)
    assert (await granting.issue(expires_at=year.isoformat())).status == 201
    assert (await granting.issue(expires_at=(year + timedelta(seconds=1)).isoformat())).status == 400


async def test_the_oldest_grant_is_used_first_whatever_its_name(granting: Granting, pen: Pen) -> None:
    oldest = await granting.grant()
    granting.api.clock.advance(1)
    await granting.grant(**pen.sign(granting.api, nonce="a-name-before-all-others"))

    assert (await granting.claim())["grant_id"] == oldest


async def test_revoking_a_grant_past_its_time_does_not_hide_that_it_expired(granting: Granting) -> None:
    grant = await granting.grant(expires_in="10m")
    granting.api.clock.advance(600)

    late = await granting.api.call("POST", f"grants/{grant}/revoke", granting.ada, {})

    assert (late.status, "is expired" in late.document["detail"]) == (409, True)


async def test_a_use_consumed_by_an_effect_permits_no_second_one(granting: Granting) -> None:
    grant = await granting.grant(uses=2)
    needed = {"task": "deploy", "args": {}, "execution_id": "run-7"}
    begin = {"request_hash": "h", "grant": needed}

    first = await granting.api.call("POST", "effects/a/begin", granting.bot, begin)
    second = await granting.api.call("POST", "effects/b/begin", granting.bot, begin)

    assert (first.status, second.word) == (201, "not_claimed")
    assert (await granting.read(grant))["used"] == 1


async def test_the_audit_names_the_request_of_a_claim_that_won_or_lost(granting: Granting) -> None:
    grant = await granting.grant()
    body = {"task": "deploy", "args": {}}
    for name in ("won", "lost"):
        sent = {**body, "execution_id": name, "grant_id": grant}
        await granting.api.call("POST", "grants/claim", granting.bot, sent, headers={"x-request-id": name})

    lost, won = (await granting.api.get(f"audit?subject={grant}"))["items"][:2]

    assert (won["action"], won["request_id"]) == ("grant_claim", "won")
    assert (lost["action"], lost["outcome"], lost["request_id"]) == ("grant_claim_refused", "refused", "lost")
