"""One permission, one winner: who gets a use, and who is told no and why."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from interlock.rooms.grants.claims import ClaimGrant, NotClaimed
from interlock.rooms.identity.model import Caller
from tests.rooms.grants.conftest import Granting


async def test_of_many_claimants_as_many_win_as_there_are_uses(granting: Granting) -> None:
    for uses in (1, 3, 8):
        grant = await granting.grant(uses=uses)

        answers = await asyncio.gather(*(granting.claim() for _ in range(20)))

        won = [answer for answer in answers if answer["claimed"]]
        assert sorted(answer["use"] for answer in won) == list(range(1, uses + 1))
        assert {answer["grant_id"] for answer in won} == {grant}
        assert all("no open grant" in answer["reason"] for answer in answers if not answer["claimed"])
        assert await granting.state(grant) == "spent"


async def test_two_claimants_on_two_grants_both_win_with_different_grants(granting: Granting) -> None:
    first, second = await granting.grant(), await granting.grant()

    answers = await asyncio.gather(granting.claim(), granting.claim())

    assert {answer["grant_id"] for answer in answers} == {first, second}


async def test_a_crowd_with_a_grant_for_each_shares_its_commits(granting: Granting) -> None:
    grants = {await granting.grant() for _ in range(60)}
    commits = await granting.api.metric("interlock_batch_commands_count")

    answers = await asyncio.gather(*(granting.claim() for _ in range(60)))

    assert {answer["grant_id"] for answer in answers} == grants
    assert await granting.api.metric("interlock_batch_commands_count") - commits <= 4


async def test_the_oldest_fitting_grant_is_used_first(granting: Granting) -> None:
    narrow = await granting.grant(pins={"env": "test"})
    oldest = await granting.grant()
    granting.api.clock.advance(1)
    await granting.grant()

    assert (await granting.claim({"env": "production"}))["grant_id"] == oldest
    assert (await granting.claim({"env": "test"}))["grant_id"] == narrow


async def test_a_named_grant_that_does_not_fit_never_falls_back_to_another(granting: Granting) -> None:
    named = await granting.grant(pins={"env": "test"})
    other = await granting.grant()

    answer = await granting.claim({"env": "production"}, grant_id=named)

    assert (answer["claimed"], answer["reason"]) == (False, f'{named}: pin env: must be exactly "test"')
    assert [await granting.state(grant) for grant in (named, other)] == ["open", "open"]


async def test_the_same_execution_gets_the_same_use_again(granting: Granting) -> None:
    grant = await granting.grant(uses=5)
    first = await granting.claim({"n": 1}, "run-7")

    again = [await granting.claim({"n": 1}, "run-7") for _ in range(3)]

    assert again == [first] * 3
    assert (await granting.read(grant))["used"] == 1


async def test_the_same_execution_wins_once_however_often_it_asks_at_once(granting: Granting) -> None:
    grant = await granting.grant(uses=5)

    answers = await asyncio.gather(*(granting.claim({}, "run-7") for _ in range(30)))

    assert {(answer["claimed"], answer["use"]) for answer in answers} == {(True, 1)}
    assert (await granting.read(grant))["used"] == 1


async def test_a_claimed_execution_is_not_a_permission_for_other_arguments(granting: Granting) -> None:
    grant = await granting.grant(uses=5)
    await granting.claim({"amount": 1}, "run-7")

    answer = await granting.claim({"amount": 1000}, "run-7")

    assert not answer["claimed"]
    assert "other arguments" in answer["reason"]
    assert (await granting.read(grant))["used"] == 1


async def test_nobody_wins_by_naming_somebody_elses_execution(granting: Granting) -> None:
    grant = await granting.grant()
    await granting.claim({}, "run-7")
    thief = await granting.api.agent("thief")

    answer = await granting.claim({}, "run-7", key=thief)

    assert not answer["claimed"]
    assert (await granting.read(grant))["used"] == 1


async def test_a_no_is_not_remembered_for_nothing_happened(granting: Granting) -> None:
    assert not (await granting.claim({}, "run-7"))["claimed"]
    await granting.grant()

    assert (await granting.claim({}, "run-7"))["claimed"]


MISFITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"repo": "billing"}, {"repo": "other"}, "pin repo"),
    ({"repo": "billing"}, {}, "pin repo: the argument is missing"),
    ({"repo": "billing"}, {"repo": ["billing"]}, "pin repo"),
    ({"cents": {"max": 500}}, {"cents": 501}, "pin cents"),
    ({"cents": {"max": 500}}, {"cents": "5"}, "pin cents"),
    ({"cents": {"max": 500}}, {"cents": True}, "pin cents"),
    ({"branch": {"glob": "fix/*"}}, {"branch": "main"}, "pin branch"),
    ({"branch": {"glob": "fix/*"}}, {"branch": 7}, "pin branch"),
    ({"a.b": 1}, {"a": {"c": 1}}, "pin a.b"),
    ({"args.1": "x"}, {"args": ["x"]}, "pin args.1"),
    ({"flag": True}, {"flag": 1}, "pin flag"),
]


@pytest.mark.parametrize(("pins", "args", "why"), MISFITS)
async def test_what_a_pin_excludes_consumes_nothing_and_is_audited(
    granting: Granting, pins: dict[str, Any], args: dict[str, Any], why: str
) -> None:
    grant = await granting.grant(pins=pins)

    answer = await granting.claim(args)

    assert not answer["claimed"]
    assert why in answer["reason"]
    assert await granting.state(grant) == "open"
    assert await granting.refusals("deploy") == [answer["reason"]]


FITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"repo": "billing"}, {"repo": "billing", "more": 1}),
    ({"n": 1}, {"n": 1.0}),
    ({"cents": {"max": 500}}, {"cents": 500}),
    ({"branch": {"glob": "fix/*"}}, {"branch": "fix/7"}),
    ({"a.b": {"exact": {"x": [1, 2]}}}, {"a": {"b": {"x": [1, 2]}}}),
    ({"args.0": "prod"}, {"args": ["prod", "now"]}),
]


@pytest.mark.parametrize(("pins", "args"), FITS)
async def test_what_is_within_the_pins_is_permitted(
    granting: Granting, pins: dict[str, Any], args: dict[str, Any]
) -> None:
    await granting.grant(pins=pins)
    assert (await granting.claim(args))["claimed"]


async def test_a_no_names_numbers_in_full(granting: Granting) -> None:
    await granting.grant("pay", pins={"cents": {"max": 12345678}})
    await granting.grant("refund", uses=2, limits=[{"path": "cents", "total_max": 5000000}])
    assert (await granting.claim({"cents": 4999999}, task="refund"))["claimed"]

    pinned = await granting.claim({"cents": 12345679}, task="pay")
    limited = await granting.claim({"cents": 1234567}, task="refund")

    assert pinned["reason"].endswith("must be a number of at most 12345678")
    assert limited["reason"].endswith("1234567 is too much, 4999999 of 5000000 is spent already")


async def test_a_grant_for_another_task_is_not_found(granting: Granting) -> None:
    grant = await granting.grant("deploy")

    assert not (await granting.claim(task="destroy"))["claimed"]
    named = await granting.claim(task="destroy", grant_id=grant)

    assert named["reason"] == f"{grant}: task: it is for deploy"
    assert await granting.state(grant) == "open"


async def test_a_fitting_grant_is_found_behind_any_number_that_do_not_fit(granting: Granting) -> None:
    for number in range(40):
        await granting.grant(pins={"n": number})
    wanted = await granting.grant(pins={"n": 99})

    answer = await granting.claim({"n": 99})

    assert (answer["claimed"], answer["grant_id"]) == (True, wanted)
    assert await granting.refusals("deploy") == []


async def test_a_claim_that_has_looked_at_as_many_as_it_may_says_that_there_are_more(
    granting: Granting,
) -> None:
    for number in range(9):
        await granting.grant(pins={"n": number})
    claim = ClaimGrant(
        caller=Caller(tenant="default", principal="bot"),
        task="deploy",
        args=msgspec.Raw(b'{"n":8}'),
        execution_id="e",
        looks_left=0,
    )

    answer = await granting.api.service.kernel.run(claim)

    assert isinstance(answer, NotClaimed)
    assert answer.reason.count("must be exactly") == 5
    assert answer.reason.endswith("than a claim looks at; name one that fits as grant_id")


async def test_a_claim_that_asks_for_a_group_takes_no_grant_of_somebody_outside_it(
    granting: Granting,
) -> None:
    olga = await granting.api.person("olga", groups=("ops", "finance"))
    outside = await granting.grant()

    refused = await granting.claim(groups=["ops"])
    granted = (await granting.issue(key=olga)).document["id"]
    claimed = await granting.claim(groups=["leads", "ops"])

    assert refused["reason"] == f"{outside}: approver: ada is not in ops"
    assert (claimed["claimed"], claimed["grant_id"]) == (True, granted)
    assert await granting.state(outside) == "open"


async def test_a_claimed_execution_stands_for_no_signature_and_no_group_that_its_claim_did_not_ask_for(
    granting: Granting,
) -> None:
    olga = await granting.api.person("olga", groups=("ops",))
    await granting.issue(key=olga, uses=3)
    await granting.claim({}, "plain")
    narrow = await granting.claim({}, "narrow", groups=["ops"])

    signed = await granting.claim({}, "plain", signed=True)
    other = await granting.claim({}, "narrow", groups=["leads"])
    same = [await granting.claim({}, "narrow", groups=groups) for groups in (["ops"], ["ops", "leads"], [])]

    assert (signed["claimed"], "was claimed without the signature" in signed["reason"]) == (False, True)
    assert (await granting.claim({}, "plain", groups=["ops"]))["claimed"] is False
    assert other["claimed"] is False
    assert same == [narrow] * 3


async def test_what_only_a_claim_made_before_permits_consumes_no_other_use(granting: Granting) -> None:
    grant = await granting.grant(uses=2)
    asked = {"task": "deploy", "args": {}, "execution_id": "run-7", "claimed_before": True}
    begun = {"request_hash": "h", "grant": asked}

    early = await granting.api.call("POST", "effects/a/begin", granting.bot, begun)
    await granting.claim({}, "run-7")
    late = await granting.api.call("POST", "effects/a/begin", granting.bot, begun)

    assert (early.status, early.document["reason"]) == (403, "execution_id run-7 has claimed nothing")
    assert late.status == 201
    assert (await granting.read(grant))["used"] == 1


async def test_another_tenants_grant_is_as_absent_as_none(granting: Granting) -> None:
    grant = await granting.grant()
    stranger = await granting.api.agent("stranger", tenant="other")

    answer = await granting.claim(key=stranger, grant_id=grant)

    assert answer == {"claimed": False, "reason": f"there is no grant {grant}"}
    assert await granting.state(grant) == "open"


async def test_a_kept_answer_is_given_again_under_its_idempotency_key(granting: Granting) -> None:
    await granting.grant()
    body = {"task": "deploy", "execution_id": "run-7"}
    call = granting.api.call
    first = await call("POST", "grants/claim", granting.bot, body, idempotency_key="k")
    again = await call("POST", "grants/claim", granting.bot, body, idempotency_key="k")

    assert first.document["claimed"]
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
