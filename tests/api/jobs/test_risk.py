"""A risk is one line, alone or in a list."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import ASK, Stage


@pytest.mark.parametrize("risk", ["a\nb", "end\n", "\u0000", ["fine", "a\tb"], "x" * 256])
async def test_a_risk_that_is_not_one_line_is_refused_and_nothing_is_kept(stage: Stage, risk: object) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    seen = await stage.propose(bot, risk=risk)
    assert (seen.status, seen.word) == (400, "invalid_request")
    asked = await stage.call("POST", "policy/evaluate", stage.admin, {"topic": "pay", "risk": risk})
    assert asked.status == 400
    assert (await stage.get("jobs"))["items"] == []


async def test_one_risk_is_a_list_of_one(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    alone, listed = await stage.submit(bot, risk="money"), await stage.submit(bot, risk=["money"])
    assert [(await stage.job(job))["risk"] for job in (alone, listed)] == [["money"], ["money"]]
