"""A policy altered in the database: never in force, and mended by whoever activates it again."""

from __future__ import annotations

import apsw
import asyncpg

from interlock.store.urls import store_for
from tests.harness.in_process_api import ASK, open_api


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
