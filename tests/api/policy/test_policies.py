"""Policies over HTTP: an altered one is never in force, and one may replace only the policy it was compared with."""

from __future__ import annotations

import asyncio

import apsw
import asyncpg

from interlock.store import store_for
from tests.harness.in_process_api import ASK, InProcessApi, Seen, open_api


def policy(rule: str) -> str:
    # A rule of its own: a policy that another test still uses is compiled already, and its text is not asked again.
    return f"version: v1\nrules:\n  - {{id: {rule}, when: {{topic: pay}}, decision: deny}}\n"


async def alter(url: str, table: str, rule: str) -> None:
    """Make the stored policy with this rule allow what it denied."""
    change = f"UPDATE {table} SET body = replace(body, 'deny', 'allow') WHERE body LIKE '%{rule}%'"
    if url.startswith("sqlite"):
        with apsw.Connection(url.removeprefix("sqlite:///")) as database:
            database.execute(change)
        return
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(change)
    finally:
        await connection.close()


async def test_an_altered_snapshot_is_not_put_back_in_force(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        old = await api.policy(policy("altered-snapshot"))
        current = await api.policy(ASK)
        await alter(durable_url, "policy_snapshots", "altered-snapshot")

        refused = await api.call("POST", "policy/rollback", api.admin, {"snapshot": old})

        assert (refused.status, refused.word) == (409, "conflict")
        assert (await api.get("policy"))["snapshot"] == current
        assert await api.submit(await api.agent())


async def test_activating_a_policy_again_mends_what_was_altered(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        rule = f"altered-head-{durable_url.partition(':')[0]}"
        snapshot = await api.policy(policy(rule))
        bot = await api.agent()
        await alter(durable_url, "policy_heads", rule)
        assert (await api.propose(bot)).word == "policy_unavailable"

        assert await api.policy(policy(rule)) == snapshot

        assert (await api.propose(bot)).word == "policy_denied"


YAML = {"content-type": "application/yaml"}
READ = "version: v1\nrules:\n  - {id: read, if: payload.amount > 5, decision: allow}\n"


async def put(api: InProcessApi, text: str, expecting: str) -> Seen:
    return await api.call("PUT", f"policy?expecting={expecting}", api.admin, text.encode(), headers=YAML)


async def test_a_policy_is_not_put_in_the_place_of_another_than_expected(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        first = await api.policy(ASK)
        second = await api.policy(READ)

        refused = await put(api, "version: v1\n", first)

        assert (refused.status, refused.word) == (409, "conflict")
        assert refused.document["expected"] == first
        assert refused.document["current_snapshot"] == second
        assert (await api.get("policy"))["snapshot"] == second
        assert (await put(api, ASK, second)).status == 200
        assert (await api.get("policy"))["snapshot"] == first


async def test_of_two_who_expect_the_same_policy_one_puts_theirs_in_force(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        first = await api.policy(ASK)

        answers = await asyncio.gather(*(put(api, text, first) for text in (READ, "version: v1\n")))

        assert sorted(answer.status for answer in answers) == [200, 409]
        (won,) = (answer for answer in answers if answer.status == 200)
        assert (await api.get("policy"))["snapshot"] == won.document["snapshot"]


async def test_a_simulation_tells_what_in_the_candidate_may_not_be_meant(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        found = await api.call("POST", "policy/simulate", api.admin, {"policy": READ, "last": 1})

        (warning,) = found.document["warnings"]
        assert warning["line"] == 3
        assert "payload.amount may be missing" in warning["reason"]
