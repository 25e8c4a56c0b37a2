"""Whoever may ask about a candidate policy may send a large one: nobody waits for it, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import gc

import pytest

from interlock.rooms.policy.evaluation import CompiledPolicy
from tests.harness.in_process_api import ASK, Stage

RULES = 400
SERVED_MIN = 10


def large(name: str) -> str:
    rules = "".join(
        f"  - {{id: r{n}, if: 'payload.{name}{n} == {n} && has(payload.b{n})', decision: allow}}\n"
        for n in range(RULES)
    )
    return f"version: v1\nrules:\n{rules}"


@pytest.mark.parametrize("verb", ["evaluate", "simulate"])
async def test_others_are_served_while_a_large_candidate_is_read(stage: Stage, verb: str) -> None:
    await stage.policy(ASK)
    asked = {"policy": large(f"{verb}_")} | ({"topic": "pay"} if verb == "evaluate" else {})
    asking = asyncio.create_task(stage.call("POST", f"policy/{verb}", stage.admin, asked))

    served = 0
    while not asking.done():
        await stage.get("policy")
        served += 1
        await asyncio.sleep(0)

    assert served >= SERVED_MIN
    assert (await asking).status in (200, 503)


async def test_others_are_served_while_a_large_policy_is_put_in_force(stage: Stage) -> None:
    putting = asyncio.create_task(stage.policy(large("put_")))

    served = 0
    while not putting.done():
        await stage.get("jobs")
        served += 1
        await asyncio.sleep(0)

    assert served >= SERVED_MIN
    assert (await stage.get("policy"))["snapshot"] == await putting


async def test_nothing_of_a_candidate_is_kept(stage: Stage) -> None:
    await stage.policy(ASK)
    await stage.submit(await stage.agent())

    def compiled() -> int:
        gc.collect()
        return sum(isinstance(each, CompiledPolicy) for each in gc.get_objects())

    before = compiled()
    for name in ("one", "two", "three"):
        candidate = f"version: v1\nrules:\n  - {{id: {name}, decision: allow}}\n"
        await stage.call("POST", "policy/evaluate", stage.admin, {"topic": "pay", "policy": candidate})
        await stage.call("POST", "policy/simulate", stage.admin, {"policy": candidate})

    assert compiled() == before
