"""Who has a request open: seen by others, bounded, and without any effect on the request."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from interlock.store.urls import store_for
from tests.harness.in_process_api import ASK, InProcessApi, Seen, open_api
from tests.harness.postgres import PostgresServer


async def look(api: InProcessApi, job: str, key: str) -> Seen:
    return await api.call("POST", f"approvals/{job}/look", key)


async def viewers(api: InProcessApi, job: str, key: str) -> list[Any]:
    seen = await look(api, job, key)
    assert seen.status == 200, seen.document
    return seen.document["viewers"]


@pytest.fixture
async def keys(api: InProcessApi) -> dict[str, str]:
    await api.policy(ASK)
    return {"bot": await api.agent(), "ada": await api.person("ada"), "bob": await api.person("bob")}


async def test_two_people_see_each_other_and_the_request_tells_of_both(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    (alone,) = await viewers(api, job, keys["ada"])
    assert (alone["principal"], alone["here"]) == ("ada", True)
    api.clock.advance(20)

    both = await viewers(api, job, keys["bob"])

    assert [(each["principal"], each["here"]) for each in both] == [("bob", True), ("ada", True)]
    assert (await api.get(f"approvals/{job}"))["viewers"] == both


async def test_whoever_was_not_seen_for_45_seconds_is_not_here(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    await look(api, job, keys["ada"])
    api.clock.advance(44)
    assert [each["here"] for each in await viewers(api, job, keys["bob"])] == [True, True]
    api.clock.advance(1)
    assert [each["here"] for each in await viewers(api, job, keys["bob"])] == [True, False]


async def test_looks_are_written_at_most_every_15_seconds(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"])
    first = await viewers(api, job, keys["ada"])
    api.clock.advance(14)
    assert await viewers(api, job, keys["ada"]) == first
    api.clock.advance(1)
    (later,) = await viewers(api, job, keys["ada"])
    assert later["first_at"] == first[0]["first_at"]
    assert later["last_at"] > first[0]["last_at"]


async def test_others_hear_once_per_person_and_round(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"])
    for _ in range(3):
        await look(api, job, keys["ada"])
        api.clock.advance(16)
    await look(api, job, keys["bob"])
    assert (await api.events(job)).count("approval.opened") == 2

    await api.call("POST", f"approvals/{job}/refresh", keys["bot"])
    await look(api, job, keys["bob"])
    await look(api, job, keys["bob"])

    assert (await api.events(job)).count("approval.opened") == 3


async def test_a_look_changes_nothing_and_is_not_audited(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"])
    before, audited = await api.job(job), await api.audit(job)
    await look(api, job, keys["ada"])
    assert (await api.job(job), await api.audit(job)) == (before, audited)


async def test_only_people_look_and_only_at_what_people_are_asked(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    assert (await look(api, job, keys["bot"])).word == "people_only"
    worker = await api.person("wim", "work")
    assert (await look(api, job, worker)).word == "forbidden"
    allowed = await api.submit(keys["bot"], topic="read")
    assert (await look(api, allowed, keys["ada"])).status == 404


async def test_the_newest_fifty_people_are_kept(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"])
    for number in range(52):
        await look(api, job, await api.person(f"person-{number:02}"))
    names = [each["principal"] for each in (await api.get(f"approvals/{job}"))["viewers"]]
    assert names == [f"person-{number:02}" for number in range(51, 1, -1)]


async def test_a_look_takes_no_lock_of_the_job(postgres: PostgresServer) -> None:
    """While another transaction has the job to itself, a decision waits and a look does not."""
    url = postgres.create_database()
    async with open_api(store_for(url), acquire_seconds=0.2) as api:
        await api.policy(ASK)
        ada = await api.person("ada")
        job = await api.submit(await api.agent())
        other = await asyncpg.connect(url)
        async with other.transaction():
            await other.fetch("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE", job)

            assert (await look(api, job, ada)).status == 200
            assert (await api.approve(job, ada)).word == "lock_busy"
        await other.close()
    postgres.drop(url)


async def test_looks_at_the_same_moment_neither_hold_up_nor_outdate_a_decision(durable: InProcessApi) -> None:
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
