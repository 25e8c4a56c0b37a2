"""A POST that changes nothing accepts an idempotency key as well."""

from __future__ import annotations

import pytest

from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, InProcessApi

FRAGILE = """
version: v1
rules:
  - {id: ask, when: {topic: pay}, if: "%s", decision: require_human}
"""
CANDIDATE = "version: v1\ndefault: allow\n"
QUESTIONS = {
    "policy/evaluate": ({"topic": "pay"}, {"topic": "read"}),
    "policy/simulate": ({"policy": CANDIDATE}, {"policy": CANDIDATE, "last": 1}),
    "leases/{lease}/check": ({"fence": 1}, {"fence": 2}),
}


@pytest.mark.parametrize("path", QUESTIONS)
async def test_a_question_is_answered_once_under_its_key_and_as_it_is_without_one(
    durable: InProcessApi, path: str
) -> None:
    await durable.policy(ASK)
    bot = await durable.agent(roles="submit,review")
    held = (await durable.call("POST", "leases", bot, {"resource": "doc"})).document
    lease = held["lease_id"]
    same, other = QUESTIONS[path]
    path = path.format(lease=lease)
    first = await durable.call("POST", path, bot, same, idempotency_key="k")
    await durable.policy(CANDIDATE)
    await durable.submit(bot)
    await durable.call("POST", f"leases/{lease}/release", bot, {"fence": held["fence"]})

    again = await durable.call("POST", path, bot, same, idempotency_key="k")
    reused = await durable.call("POST", path, bot, other, idempotency_key="k")
    now = await durable.call("POST", path, bot, same)

    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers.keys() | now.headers.keys()
    assert (reused.status, reused.word) == (422, "idempotency_key_reused")
    assert now.body != first.body


async def test_a_question_that_could_not_be_answered_leaves_its_key_unused(durable: InProcessApi) -> None:
    await durable.policy(FRAGILE % COSTLY)
    bot = await durable.agent()
    asked = {"topic": "pay", "payload": TOO_MUCH}
    refused = await durable.call("POST", "policy/evaluate", bot, asked, idempotency_key="k")
    await durable.policy(ASK)

    answered = await durable.call("POST", "policy/evaluate", bot, asked, idempotency_key="k")

    assert (refused.status, answered.status) == (503, 200)
    assert "idempotency-replayed" not in answered.headers
