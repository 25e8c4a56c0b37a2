"""A rerun keeps what people said yes to: for whom it was said, for what is not done yet, and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.store.urls import store_for
from tests.api.workflows.test_workflows import asked, work
from tests.harness.in_process_api import InProcessApi, open_api


async def agreed(api: InProcessApi, *, fail: bool) -> tuple[str, str]:
    """A run that ada said yes to and that then was done, or failed, and the key of the bot that started it."""
    run_id, question, bot = await asked(api)
    assert (await api.approve(question, await api.person("ada", "review,submit"))).word == "approved"
    await api.service.workflows.advance_all()
    await work(api, fail=fail)
    return run_id, bot


async def rerun(api: InProcessApi, run_id: str, key: str, step: str = "send") -> Any:
    return await api.call("POST", f"workflow-runs/{run_id}/rerun", key, {"from_step": step})


async def test_what_people_said_yes_to_is_not_done_twice_on_one_yes(api: InProcessApi) -> None:
    run_id, bot = await agreed(api, fail=False)
    seen = await rerun(api, run_id, bot)
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "succeeded")
    assert (await rerun(api, run_id, api.admin)).status == 409
    assert (await rerun(api, run_id, bot, "agree")).status == 201


async def test_a_yes_goes_on_to_one_rerun_alone(api: InProcessApi) -> None:
    run_id, bot = await agreed(api, fail=True)
    first = await rerun(api, run_id, bot)
    assert first.status == 201
    second = await rerun(api, run_id, bot)
    assert (second.status, first.document["run_id"] in second.document["detail"]) == (409, True)
    await api.service.workflows.advance_all()
    await work(api, fail=True)
    assert (await rerun(api, first.document["run_id"], bot)).status == 201


async def dead_letter(api: InProcessApi) -> str:
    (job,) = (await api.get("jobs?state=FAILED"))["items"]
    return job["id"]


async def test_a_dead_letter_does_not_come_back_beside_the_run_that_goes_on(api: InProcessApi) -> None:
    run_id, bot = await agreed(api, fail=True)
    dead = await dead_letter(api)
    assert (await rerun(api, run_id, bot)).status == 201
    late = await api.call("POST", f"jobs/{dead}/retry", bot, {})
    assert (late.status, late.word, late.document["state"]) == (409, "not_actionable", "CANCELLED")


async def test_a_yes_that_a_dead_letter_came_back_on_goes_on_to_no_rerun(api: InProcessApi) -> None:
    run_id, bot = await agreed(api, fail=True)
    assert (await api.call("POST", f"jobs/{await dead_letter(api)}/retry", bot, {})).status == 200
    assert (await rerun(api, run_id, bot)).status == 409
    await work(api)
    assert (await rerun(api, run_id, bot)).status == 409
    assert (await rerun(api, run_id, bot, "agree")).status == 201


async def test_a_yes_is_for_those_who_asked(api: InProcessApi) -> None:
    run_id, _ = await agreed(api, fail=True)
    other = await api.agent("other")
    assert (await rerun(api, run_id, other)).status == 409
    assert (await rerun(api, run_id, other, "agree")).status == 201
    assert (await rerun(api, run_id, api.admin)).status == 201


@pytest.mark.parametrize("owner", [None, "ada"])
async def test_who_said_yes_cannot_start_it_nor_can_their_agent(api: InProcessApi, owner: str | None) -> None:
    run_id, _ = await agreed(api, fail=True)
    name, kind = ("hers", "agent") if owner else ("ada", "person")
    key = await api.key(name, kind, "review,submit,operate", owner=owner)
    assert (await rerun(api, run_id, key)).status == 409
    assert (await rerun(api, run_id, key, "agree")).status == 201


async def test_of_many_reruns_on_two_servers_one_goes_on_with_the_yes(postgres_url: str) -> None:
    async with open_api(store_for(postgres_url)) as api, open_api(store_for(postgres_url)) as other:
        run_id, bot = await agreed(api, fail=True)
        at_once = (rerun(api if n % 2 else other, run_id, bot) for n in range(8))
        seen = [answer.status for answer in await asyncio.gather(*at_once)]
        assert sorted(seen) == [201, *[409] * 7]
