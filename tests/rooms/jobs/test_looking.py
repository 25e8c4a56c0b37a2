"""Who has a request open: seen by others, bounded, and without any effect on the request."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from interlock.store import store_for
from tests.harness.in_process_api import ASK, Seen, Stage, open_stage
from tests.harness.postgres import PostgresServer


async def look(stage: Stage, job: str, key: str) -> Seen:
    return await stage.call("POST", f"approvals/{job}/look", key)


async def viewers(stage: Stage, job: str, key: str) -> list[Any]:
    seen = await look(stage, job, key)
    assert seen.status == 200, seen.document
    return seen.document["viewers"]


@pytest.fixture
async def keys(stage: Stage) -> dict[str, str]:
    await stage.policy(ASK)
    return {"bot": await stage.agent(), "ada": await stage.person("ada"), "bob": await stage.person("bob")}


async def test_two_people_see_each_other_and_the_request_tells_of_both(
    stage: Stage, keys: dict[str, str]
) -> None:
    job = await stage.submit(keys["bot"])
    (alone,) = await viewers(stage, job, keys["ada"])
    assert (alone["principal"], alone["here"]) == ("ada", True)
    stage.clock.advance(20)

    both = await viewers(stage, job, keys["bob"])

    assert [(each["principal"], each["here"]) for each in both] == [("bob", True), ("ada", True)]
    assert (await stage.get(f"approvals/{job}"))["viewers"] == both


async def test_whoever_was_not_seen_for_45_seconds_is_not_here(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    await look(stage, job, keys["ada"])
    stage.clock.advance(44)
    assert [each["here"] for each in await viewers(stage, job, keys["bob"])] == [True, True]
    stage.clock.advance(1)
    assert [each["here"] for each in await viewers(stage, job, keys["bob"])] == [True, False]


async def test_looks_are_written_at_most_every_15_seconds(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    first = await viewers(stage, job, keys["ada"])
    stage.clock.advance(14)
    assert await viewers(stage, job, keys["ada"]) == first
    stage.clock.advance(1)
    (later,) = await viewers(stage, job, keys["ada"])
    assert later["first_at"] == first[0]["first_at"]
    assert later["last_at"] > first[0]["last_at"]


async def test_others_hear_once_per_person_and_round(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    for _ in range(3):
        await look(stage, job, keys["ada"])
        stage.clock.advance(16)
    await look(stage, job, keys["bob"])
    assert (await stage.events(job)).count("approval.opened") == 2

    await stage.call("POST", f"approvals/{job}/refresh", keys["bot"])
    await look(stage, job, keys["bob"])
    await look(stage, job, keys["bob"])

    assert (await stage.events(job)).count("approval.opened") == 3


async def test_a_look_changes_nothing_and_is_not_audited(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    before, audited = await stage.job(job), await stage.audit(job)
    await look(stage, job, keys["ada"])
    assert (await stage.job(job), await stage.audit(job)) == (before, audited)


async def test_only_people_look_and_only_at_what_people_are_asked(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    assert (await look(stage, job, keys["bot"])).word == "people_only"
    worker = await stage.person("wim", "work")
    assert (await look(stage, job, worker)).word == "forbidden"
    allowed = await stage.submit(keys["bot"], topic="read")
    assert (await look(stage, allowed, keys["ada"])).status == 404


async def test_the_newest_fifty_people_are_kept(stage: Stage, keys: dict[str, str]) -> None:
    job = await stage.submit(keys["bot"])
    for number in range(52):
        await look(stage, job, await stage.person(f"person-{number:02}"))
    names = [each["principal"] for each in (await stage.get(f"approvals/{job}"))["viewers"]]
    assert names == [f"person-{number:02}" for number in range(51, 1, -1)]


async def test_a_look_takes_no_lock_of_the_job(postgres: PostgresServer) -> None:
    """While another transaction has the job to itself, a decision waits and a look does not."""
    url = postgres.create_database()
    async with open_stage(store_for(url), acquire_seconds=0.2) as stage:
        await stage.policy(ASK)
        ada = await stage.person("ada")
        job = await stage.submit(await stage.agent())
        other = await asyncpg.connect(url)
        async with other.transaction():
            await other.fetch("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", job)

            assert (await look(stage, job, ada)).status == 200
            assert (await stage.approve(job, ada)).word == "lock_busy"
        await other.close()
    postgres.drop(url)


async def test_looks_at_the_same_moment_neither_hold_up_nor_outdate_a_decision(durable: Stage) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    people = [await durable.person(f"p{number}") for number in range(8)]
    for _ in range(5):
        job = await durable.submit(bot)
        version = (await durable.job(job))["version"]

        decided, *looks = await asyncio.gather(
            durable.approve(job, people[0]), *(look(durable, job, key) for key in people)
        )

        assert decided.word == "approved"
        assert {each.status for each in looks} == {200}
        assert (await durable.job(job))["version"] == version + 1
        shown = (await durable.get(f"approvals/{job}"))["viewers"]
        assert sorted(each["principal"] for each in shown) == [f"p{number}" for number in range(8)]
