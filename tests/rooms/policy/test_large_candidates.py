"""A candidate policy may be large: no other caller waits for it, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import gc

import pytest

from interlock.rooms.policy.evaluation import CompiledPolicy
from tests.harness.in_process_api import ASK, InProcessApi

RULES = 400
SERVED_MIN = 10


def large(name: str) -> str:
    rules = "".join(
        f"  - {{id: r{n}, if: 'payload.{name}{n} == {n} && has(payload.b{n})', decision: allow}}\n"
        for n in range(RULES)
    )
    return f"version: v1\nrules:\n{rules}"


@pytest.mark.parametrize("verb", ["evaluate", "simulate"])
async def test_others_are_served_while_a_large_candidate_is_read(api: InProcessApi, verb: str) -> None:
    await api.policy(ASK)
    asked = {"policy": large(f"{verb}_")} | ({"topic": "pay"} if verb == "evaluate" else {})
    asking = asyncio.create_task(api.call("POST", f"policy/{verb}", api.admin, asked))

    served = 0
    while not asking.done():
        await api.get("policy")
        served += 1
        await asyncio.sleep(0)

    assert served >= SERVED_MIN
    assert (await asking).status in (200, 503)


async def test_others_are_served_while_a_large_policy_is_put_in_force(api: InProcessApi) -> None:
    putting = asyncio.create_task(api.policy(large("put_")))

    served = 0
    while not putting.done():
        await api.get("jobs")
        served += 1
        await asyncio.sleep(0)

    assert served >= SERVED_MIN
    assert (await api.get("policy"))["snapshot"] == await putting


async def test_nothing_of_a_candidate_is_kept(api: InProcessApi) -> None:
    await api.policy(ASK)
    await api.submit(await api.agent())

    def compiled() -> int:
        gc.collect()
        return sum(isinstance(each, CompiledPolicy) for each in gc.get_objects())

    before = compiled()
    for name in ("one", "two", "three"):
        candidate = f"version: v1\nrules:\n  - {{id: {name}, decision: allow}}\n"
        await api.call("POST", "policy/evaluate", api.admin, {"topic": "pay", "policy": candidate})
        await api.call("POST", "policy/simulate", api.admin, {"policy": candidate})

    assert compiled() == before
