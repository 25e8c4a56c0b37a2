"""A rerun keeps what people said yes to: for whom it was said, for what is not done yet, and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.store import store_for
from tests.api.workflows.test_workflows import asked, work
from tests.harness.in_process_api import Stage, open_stage


async def agreed(stage: Stage, *, fail: bool) -> tuple[str, str]:
    """A run that ada said yes to and that then was done, or failed, and the key of the bot that started it."""
    run_id, question, bot = await asked(stage)
    assert (await stage.approve(question, await stage.person("ada", "review,submit"))).word == "approved"
    await stage.service.workflows.advance_all()
    await work(stage, fail=fail)
    return run_id, bot


async def rerun(stage: Stage, run_id: str, key: str, step: str = "send") -> Any:
    return await stage.call("POST", f"workflow-runs/{run_id}/rerun", key, {"from_step": step})


async def test_what_people_said_yes_to_is_not_done_twice_on_one_yes(stage: Stage) -> None:
    run_id, bot = await agreed(stage, fail=False)
    seen = await rerun(stage, run_id, bot)
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "succeeded")
    assert (await rerun(stage, run_id, stage.admin)).status == 409
    assert (await rerun(stage, run_id, bot, "agree")).status == 201


async def test_a_yes_goes_on_to_one_rerun_alone(stage: Stage) -> None:
    run_id, bot = await agreed(stage, fail=True)
    first = await rerun(stage, run_id, bot)
    assert first.status == 201
    second = await rerun(stage, run_id, bot)
    assert (second.status, first.document["run_id"] in second.document["detail"]) == (409, True)
    await stage.service.workflows.advance_all()
    await work(stage, fail=True)
    assert (await rerun(stage, first.document["run_id"], bot)).status == 201


async def dead_letter(stage: Stage) -> str:
    (job,) = (await stage.get("jobs?state=FAILED"))["items"]
    return job["id"]


async def test_a_dead_letter_does_not_come_back_beside_the_run_that_goes_on(stage: Stage) -> None:
    run_id, bot = await agreed(stage, fail=True)
    dead = await dead_letter(stage)
    assert (await rerun(stage, run_id, bot)).status == 201
    late = await stage.call("POST", f"jobs/{dead}/retry", bot, {})
    assert (late.status, late.word, late.document["state"]) == (409, "not_actionable", "CANCELLED")


async def test_a_yes_that_a_dead_letter_came_back_on_goes_on_to_no_rerun(stage: Stage) -> None:
    run_id, bot = await agreed(stage, fail=True)
    assert (await stage.call("POST", f"jobs/{await dead_letter(stage)}/retry", bot, {})).status == 200
    assert (await rerun(stage, run_id, bot)).status == 409
    await work(stage)
    assert (await rerun(stage, run_id, bot)).status == 409
    assert (await rerun(stage, run_id, bot, "agree")).status == 201


async def test_a_yes_is_for_those_who_asked(stage: Stage) -> None:
    run_id, _ = await agreed(stage, fail=True)
    other = await stage.agent("other")
    assert (await rerun(stage, run_id, other)).status == 409
    assert (await rerun(stage, run_id, other, "agree")).status == 201
    assert (await rerun(stage, run_id, stage.admin)).status == 201


@pytest.mark.parametrize("owner", [None, "ada"])
async def test_who_said_yes_cannot_start_it_nor_can_their_agent(stage: Stage, owner: str | None) -> None:
    run_id, _ = await agreed(stage, fail=True)
    name, kind = ("hers", "agent") if owner else ("ada", "person")
    key = await stage.key(name, kind, "review,submit,operate", owner=owner)
    assert (await rerun(stage, run_id, key)).status == 409
    assert (await rerun(stage, run_id, key, "agree")).status == 201


async def test_of_many_reruns_on_two_servers_one_goes_on_with_the_yes(postgres_url: str) -> None:
    async with open_stage(store_for(postgres_url)) as stage, open_stage(store_for(postgres_url)) as other:
        run_id, bot = await agreed(stage, fail=True)
        at_once = (rerun(stage if n % 2 else other, run_id, bot) for n in range(8))
        seen = [answer.status for answer in await asyncio.gather(*at_once)]
        assert sorted(seen) == [201, *[409] * 7]
