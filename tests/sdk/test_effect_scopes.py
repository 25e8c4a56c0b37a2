"""A block and a decorator say of each attempt what it did, and nothing of what another one did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Conflict, NotDone
from tests.sdk.approval_team import ApprovalTeam


def test_a_block_that_is_entered_again_forgets_what_it_said_before(team: ApprovalTeam) -> None:
    scope = team.il.effect_scope("pay", request=1)

    def say_both() -> None:
        with scope:
            team.il.fail_effect("pay", scope.fence, error="no", safe_to_retry=True)
            scope.commit("paid")

    with pytest.raises(Conflict):
        say_both()
    team.il.resolve_effect("pay", "not_committed", evidence="the bank says so")
    with pytest.raises(NotDone), scope:
        raise NotDone("the till is closed")
    assert team.il.get_effect("pay").state == "FAILED"


def test_an_async_block_that_is_entered_again_forgets_too(team: ApprovalTeam) -> None:
    il = team.ail
    scope = il.effect_scope("pay", request=1)

    async def say_both() -> None:
        async with scope:
            await il.fail_effect("pay", scope.fence, error="no", safe_to_retry=True)
            scope.commit("paid")

    async def do_nothing() -> None:
        async with scope:
            raise NotDone("the till is closed")

    async def twice() -> str:
        with pytest.raises(Conflict):
            await say_both()
        await il.resolve_effect("pay", "not_committed", evidence="the bank says so")
        with pytest.raises(NotDone):
            await do_nothing()
        return (await il.get_effect("pay")).state

    assert asyncio.run(twice()) == "FAILED"


@pytest.mark.parametrize("word", ["target", "lease", "job", "ttl", "grant", "reconcile"])
def test_a_decorated_function_may_call_its_parameters_as_it_likes(team: ApprovalTeam, word: str) -> None:
    ran: list[Any] = []

    @team.il.effect(key=lambda **named: f"do:{word}")
    def publish(
        target: str = "", lease: str = "", job: str = "", ttl: str = "", grant: str = "", reconcile: str = ""
    ) -> str:
        ran.append((target, lease, job, ttl, grant, reconcile))
        return "".join(ran[-1])

    assert [publish(**{word: "x"}), publish(**{word: "x"})] == ["x", "x"]
    assert len(ran) == 1
