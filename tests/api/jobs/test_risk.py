"""A risk is one line, alone or in a list."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import ASK, InProcessApi


@pytest.mark.parametrize("risk", ["a\nb", "end\n", "\u0000", ["fine", "a\tb"], "x" * 256])
async def test_a_risk_that_is_not_one_line_is_refused_and_nothing_is_kept(
    api: InProcessApi, risk: object
) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    seen = await api.propose(bot, risk=risk)
    assert (seen.status, seen.word) == (400, "invalid_request")
    asked = await api.call("POST", "policy/evaluate", api.admin, {"topic": "pay", "risk": risk})
    assert asked.status == 400
    assert (await api.get("jobs"))["items"] == []


async def test_one_risk_is_a_list_of_one(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    alone, listed = await api.submit(bot, risk="money"), await api.submit(bot, risk=["money"])
    assert [(await api.job(job))["risk"] for job in (alone, listed)] == [["money"], ["money"]]
