"""A policy that is put in force only in the place of the one that its author compared it with."""

from __future__ import annotations

import asyncio

from interlock.store.urls import store_for
from tests.harness.in_process_api import ASK, InProcessApi, Seen, open_api

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
