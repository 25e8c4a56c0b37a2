"""A claim that finds nothing open says what became of what there was, and reads no more than a claim that wins."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.rooms.grants.claims import ClaimGrant
from interlock.rooms.grants.model import Grant
from interlock.rooms.grants.uses import LatestGrants
from interlock.rooms.identity.model import Caller
from tests.rooms.grants.conftest import Granting

ASK = "; ask a person to issue one"
NOW = datetime(2026, 11, 16, tzinfo=UTC)


async def test_an_expired_grant_is_said_to_have_expired_and_when(granting: Granting) -> None:
    grant = await granting.grant(expires_in="1m")
    ended = (await granting.stored(grant)).expires_at
    granting.api.clock.advance(61)

    answer = await granting.claim()

    expected = f"no open grant for deploy: {grant} expired at {ended:%Y-%m-%dT%H:%M:%SZ}{ASK}"
    assert (answer["claimed"], answer["reason"]) == (False, expected)
    assert await granting.refusals("deploy") == [expected]


async def test_spent_and_revoked_grants_are_told_apart_newest_first(granting: Granting) -> None:
    spent = await granting.grant()
    await granting.claim()
    revoked = await granting.grant()
    await granting.api.call("POST", f"grants/{revoked}/revoke", granting.ada, {})

    reason = (await granting.claim())["reason"]

    assert reason == f"no open grant for deploy: {revoked} was revoked by ada, {spent} is spent{ASK}"


async def test_a_standing_grant_is_said_to_be_for_jobs(granting: Granting) -> None:
    standing = await granting.grant(standing=True)
    reason = (await granting.claim())["reason"]
    assert reason == f"no open grant for deploy: {standing} is standing, for jobs that are submitted{ASK}"


async def test_a_task_that_nobody_ever_permitted_has_nothing_to_explain(granting: Granting) -> None:
    await granting.grant("other")
    assert (await granting.claim())["reason"] == f"no open grant for deploy{ASK}"


async def test_however_many_there_were_three_are_named(granting: Granting) -> None:
    grants = [await granting.grant(expires_in="1m") for _ in range(9)]
    granting.api.clock.advance(61)
    reason = (await granting.claim())["reason"]
    assert [grant for grant in grants if grant in reason] == sorted(grants)[-3:]


async def test_those_who_lose_at_once_are_told_that_others_were_faster_or_that_it_is_spent(
    granting: Granting,
) -> None:
    grant = await granting.grant()
    answers = await asyncio.gather(*(granting.claim() for _ in range(20)))
    reasons = {answer["reason"] for answer in answers if not answer["claimed"]}
    told = {f"no open grant for deploy: {why}{ASK}" for why in ("others were faster", f"{grant} is spent")}
    assert reasons
    assert reasons <= told


async def test_grants_that_do_not_fit_are_named_though_the_look_went_further(granting: Granting) -> None:
    """A full first page sends the claim to a second look, which finds nothing."""
    grants = [await granting.grant(pins={"env": "test"}) for _ in range(16)]
    answer = await granting.claim({"env": "production"})
    assert answer["reason"].startswith(f'{grants[0]}: pin env: must be exactly "test"; {grants[1]}: pin')
    assert await granting.refusals("deploy") == [answer["reason"]]


def test_only_a_claim_that_finds_none_open_reads_what_became_of_others() -> None:
    assert _second_reads(_grant()).picks == ()
    assert [type(pick) for pick in _second_reads().picks] == [LatestGrants]


def _grant() -> Grant:
    return Grant(
        tenant="t",
        id="gnt_1",
        version=1,
        task="deploy",
        approver="ada",
        issued_at=NOW,
        expires_at=datetime(2027, 1, 1, tzinfo=UTC),
    )


def _second_reads(*found: Grant) -> Reads:
    caller = Caller(tenant="t", principal="bot")
    claim = ClaimGrant(caller=caller, task="deploy", args=msgspec.Raw(b"{}"), execution_id="e")
    world = World(NOW, lambda prefix: prefix)
    (pick,) = claim.reads().picks
    world.admit_pick(pick, found)
    return claim.more(world)
