"""One key, one request, one answer: for ever the same bytes, or a refusal to mix two requests up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.store.sqlite import SqliteStore
from interlock.store.urls import store_for
from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, InProcessApi, VirtualClock, open_api

FRAGILE = """
version: v1
rules:
  - {id: ask, when: {topic: pay}, if: payload.amount > 5, decision: require_human}
  - {id: mail, when: {topic: mail}, decision: throttle, throttle: {rate: 1/h, burst: 1, key: tenant}, then: allow}
"""
LONG = """
version: v1
rules:
  - {id: ask, when: {topic: pay}, decision: require_human, approval: {expires_in: 100d}}
  - {id: read, when: {topic: read}, decision: allow}
"""


async def count(api: InProcessApi) -> int:
    return len((await api.get("jobs"))["items"])


async def test_a_repeat_gets_the_first_answer_byte_for_byte_and_makes_no_second_job(
    durable: InProcessApi,
) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    first = await durable.propose(bot, {"amount": 1}, idempotency_key="k")

    again = await durable.propose(bot, {"amount": 1}, idempotency_key="k")

    assert (again.status, again.body) == (202, first.body)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await count(durable) == 1


async def test_the_answer_outlives_the_server_and_what_became_of_the_job(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        first = await api.propose(bot, {"amount": 1}, idempotency_key="k")
        decided = await api.call(
            "POST", f"approvals/{first.document['id']}/approve", ada, {}, idempotency_key="a"
        )
    async with open_api(store_for(durable_url)) as api:
        again = await api.propose(bot, {"amount": 1}, idempotency_key="k")
        repeated = await api.call(
            "POST", f"approvals/{first.document['id']}/approve", ada, {}, idempotency_key="a"
        )

    assert (again.status, again.body) == (first.status, first.body)
    assert (repeated.status, repeated.body) == (decided.status, decided.body)
    assert repeated.document["outcome"] == "approved"


async def test_the_same_key_with_another_amount_is_refused(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    first = await durable.propose(bot, {"amount": 1}, idempotency_key="k")

    other = await durable.propose(bot, {"amount": 2}, idempotency_key="k")
    again = await durable.propose(bot, {"amount": 1}, idempotency_key="k")

    assert (other.status, other.word) == (422, "idempotency_key_reused")
    assert again.body == first.body
    assert await count(durable) == 1


async def test_the_same_request_in_other_words_is_the_same_request(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    first = await api.call(
        "POST", "jobs", bot, b'{"topic":"pay","payload":{"a":1,"b":2}}', idempotency_key="k"
    )

    again = await api.call(
        "POST",
        "jobs",
        bot,
        b' {"payload": {"b": 2.0, "a": 1e0},\n "topic": "p\\u0061y"}',
        idempotency_key="k",
    )

    assert again.body == first.body


async def test_another_tenant_principal_or_operation_is_independent(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    mine, other = await durable.agent(), await durable.agent("other")
    theirs = await durable.key("bot", "agent", "submit", tenant="elsewhere")
    first = await durable.propose(mine, {"amount": 1}, idempotency_key="k")
    job = first.document["id"]

    by_other = await durable.propose(other, {"amount": 2}, idempotency_key="k")
    elsewhere = await durable.propose(theirs, {"amount": 3}, idempotency_key="k")
    cancelled = await durable.call("POST", f"jobs/{job}/cancel", mine, {}, idempotency_key="k")

    assert (by_other.status, elsewhere.status, cancelled.status) == (202, 403, 200)
    assert by_other.document["id"] != job
    assert (await durable.propose(mine, {"amount": 1}, idempotency_key="k")).body == first.body


async def test_a_denied_submit_is_repeated_and_not_denied_twice(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    first = await durable.propose(bot, topic="launch", idempotency_key="k")

    again = await durable.propose(bot, topic="launch", idempotency_key="k")

    assert (again.status, again.body) == (403, first.body)
    assert again.headers["content-type"] == "application/problem+json"
    assert again.headers["idempotency-replayed"] == "true"
    assert await count(durable) == 1


INVALID = (
    b"{",
    b'{"payload":{}}',
    b'{"topic":"pay","payload":{},"x":1}',
    b'{"topic":"pay","payload":1e400}',
)


async def test_an_invalid_request_leaves_its_key_unused(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    refused = [await durable.call("POST", "jobs", bot, body, idempotency_key="k") for body in INVALID]

    accepted = await durable.propose(bot, {"amount": 1}, idempotency_key="k")

    assert {seen.status for seen in refused} == {400}
    assert accepted.status == 202
    assert "idempotency-replayed" not in accepted.headers


async def test_a_submit_that_could_not_be_evaluated_leaves_its_key_unused(durable: InProcessApi) -> None:
    await durable.policy(FRAGILE.replace("payload.amount > 5", f'"{COSTLY} || true"'))
    bot = await durable.agent()
    refused = await durable.propose(bot, TOO_MUCH, idempotency_key="k")

    accepted = await durable.propose(bot, {"amount": 9}, idempotency_key="k")

    assert (refused.status, refused.word) == (503, "policy_unavailable")
    assert accepted.status == 202


async def test_a_throttled_submit_leaves_its_key_unused(api: InProcessApi) -> None:
    await api.policy(FRAGILE)
    bot = await api.agent()
    await api.propose(bot, topic="mail")
    refused = await api.propose(bot, topic="mail", idempotency_key="k")
    api.clock.advance(3600)

    accepted = await api.propose(bot, topic="mail", idempotency_key="k")

    assert (refused.status, accepted.status) == (429, 201)


async def test_a_refused_decision_leaves_its_key_unused(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    before = await api.policy(ASK + "  - {id: more, when: {topic: x}, decision: deny}\n")
    refused = await api.call("POST", f"approvals/{job}/approve", ada, {}, idempotency_key="k")
    await api.policy(ASK)

    accepted = await api.call("POST", f"approvals/{job}/approve", ada, {}, idempotency_key="k")

    assert before
    assert (refused.word, accepted.word) == ("snapshot_changed", "approved")


async def test_a_repeat_is_answered_even_if_the_policy_can_no_longer_be_evaluated(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    first = await api.propose(bot, {"amount": 1}, idempotency_key="k")
    await api.policy(FRAGILE.replace("payload.amount", "payload.missing"))

    again = await api.propose(bot, {"amount": 1}, idempotency_key="k")

    assert again.body == first.body


async def test_a_repeat_takes_no_token_from_a_throttle(api: InProcessApi) -> None:
    await api.policy(FRAGILE.replace("burst: 1", "burst: 2"))
    bot = await api.agent()
    for _ in range(5):
        assert (await api.propose(bot, topic="mail", idempotency_key="k")).status == 201

    assert (await api.propose(bot, topic="mail")).status == 201
    assert (await api.propose(bot, topic="mail")).status == 429


async def test_many_at_once_under_one_key_make_one_job(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()

    answers = await asyncio.gather(*(durable.propose(bot, {"n": 1}, idempotency_key="k") for _ in range(50)))

    assert {answer.status for answer in answers} == {202}
    assert len({answer.body for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert await count(durable) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "a\tb", "é", "x" * 256, "a\x7f"])
async def test_a_key_that_is_not_visible_ascii_is_refused(api: InProcessApi, key: str) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    refused = await api.propose(bot, idempotency_key=key)

    assert (refused.status, refused.word) == (400, "invalid_request")
    assert await count(api) == 0


async def test_an_answer_is_kept_for_thirty_days_and_then_forgotten(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with open_api(SqliteStore(tmp_path / "a.db", clock=clock), clock=clock) as api:
        await api.policy(LONG)
        bot = await api.agent()
        first = await api.propose(bot, topic="read", idempotency_key="k")
        clock.advance(30 * 86_400 - 1)
        await api.service.store.prune()
        assert (await api.propose(bot, topic="read", idempotency_key="k")).body == first.body
        clock.advance(60)
        await api.service.store.prune()
        assert (await api.propose(bot, topic="read", idempotency_key="k")).body != first.body


async def test_an_answer_is_kept_for_as_long_as_its_approval_may_last(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with open_api(SqliteStore(tmp_path / "a.db", clock=clock), clock=clock) as api:
        await api.policy(LONG)
        bot = await api.agent()
        first = await api.propose(bot, idempotency_key="k")
        clock.advance(100 * 86_400 - 1)
        await api.service.store.prune()

        again = await api.propose(bot, idempotency_key="k")

    assert again.body == first.body


async def test_the_key_of_a_gated_call_names_its_intent_for_ever(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with open_api(SqliteStore(tmp_path / "a.db", clock=clock), clock=clock) as api:
        await api.policy(LONG)
        bot = await api.agent()
        first = await api.propose(bot, topic="read", executor="caller", idempotency_key="k")
        clock.advance(10_000 * 86_400)
        await api.service.store.prune()

        again = await api.propose(bot, topic="read", executor="caller", idempotency_key="k")

    assert again.body == first.body
