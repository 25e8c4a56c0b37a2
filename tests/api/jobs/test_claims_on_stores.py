"""Claims on durable stores: the same answers from both, by their own clocks and indexes."""

from __future__ import annotations

import asyncio
import random

from tests.harness.soak import dose
from tests.rooms.jobs.job_client import JobClient


async def test_priorities_topics_and_turns_are_the_same_on_every_store(durable_client: JobClient) -> None:
    made: dict[str, str] = {}
    for name, topic, priority in (
        ("low", "free.a", "low"),
        ("old", "free.b", "normal"),
        ("new", "free.a", "normal"),
        ("urgent", "free.b", "critical"),
        ("elsewhere", "free.c.d", "critical"),
    ):
        made[await durable_client.submit(topic, priority=priority)] = name
    jobs = await durable_client.claim("free.*", max=10)
    assert [made[job["id"]] for job in jobs] == ["urgent", "old", "new", "low"]
    assert [made[job["id"]] for job in await durable_client.claim("free.**")] == ["elsewhere"]


async def test_every_job_is_done_once_however_many_claim_at_once(durable_client: JobClient) -> None:
    count = dose(60)
    jobs = {await durable_client.submit(f"free.t{n % 3}") for n in range(count)}
    done: list[str] = []

    async def work(topics: list[str], most: int) -> None:
        while found := await durable_client.claim(*topics, max=most):
            for job in found:
                seen = await durable_client.call("complete", job["id"], job["fence"], result=1)
                assert seen.status == 200, seen.document
                done.append(job["id"])

    await asyncio.gather(*(work(["free.*"], 1 + n % 3) for n in range(4)), work(["free.t1"], 2))
    assert sorted(done) == sorted(jobs)


async def submit_large(durable_client: JobClient, topic: str = "free.a") -> str:
    return await durable_client.api.submit(durable_client.bot, {"text": "x" * 900_000}, topic)


async def test_a_claim_takes_what_one_answer_can_carry_and_leaves_the_rest(durable_client: JobClient) -> None:
    large = [await submit_large(durable_client) for _ in range(12)]
    small = await durable_client.submit()

    found = [await durable_client.claim(max=100) for _ in range(4)]

    assert [len(jobs) for jobs in found] == [5, 5, 3, 0]
    assert [job["id"] for jobs in found for job in jobs] == [*large, small]


async def test_a_claim_of_many_topics_carries_no_more_than_one_of_a_single_topic(
    durable_client: JobClient,
) -> None:
    large = [await submit_large(durable_client, f"free.t{n}") for n in range(8)]

    found = [await durable_client.claim("free.*", max=100) for _ in range(3)]

    assert [len(jobs) for jobs in found] == [5, 3, 0]
    assert [job["id"] for jobs in found for job in jobs] == large


async def test_whoever_claims_large_jobs_at_once_gets_one_while_there_are_any(
    durable_client: JobClient,
) -> None:
    large = {await submit_large(durable_client) for _ in range(16)}

    found = await asyncio.gather(*(durable_client.claim(max=1) for _ in range(16)))

    assert sorted(job["id"] for jobs in found for job in jobs) == sorted(large)


async def test_random_work_loses_nothing_and_repeats_nothing(durable_client: JobClient) -> None:
    chance = random.Random(7)
    jobs = {await durable_client.submit(max_attempts=50) for _ in range(dose(20))}
    done: list[str] = []

    async def work() -> None:
        idle = 0
        while idle < 3:
            found = await durable_client.claim(lease_seconds=30, wait_seconds=1)
            idle = 0 if found else idle + 1
            for job in found:
                verb = chance.choice(["complete", "complete", "fail", "release", "renew"])
                body = {"error": "x"} if verb == "fail" else {}
                assert (await durable_client.call(verb, job["id"], job["fence"], **body)).status == 200
                if verb == "renew":
                    assert (await durable_client.call("complete", job["id"], job["fence"])).status == 200
                if verb in ("complete", "renew"):
                    done.append(job["id"])

    await asyncio.gather(*(work() for _ in range(4)))
    assert sorted(done) == sorted(jobs)


async def test_the_plan_of_a_claim_uses_the_index_of_runnable_jobs_only(durable_client: JobClient) -> None:
    """Finished jobs are not in the index, so their number cannot matter."""
    from interlock.store.catalogue import named_sql

    store = durable_client.api.service.store
    for block in ("jobs.runnable_jobs", "jobs.lost_jobs", "jobs.unclaimed_jobs"):
        plan = await explained(store, named_sql(block))
        assert any(name in plan for name in ("jobs_runnable", "jobs_by_lease", "jobs_by_offer")), plan


async def test_who_took_a_topic_last_is_found_by_its_index(durable_client: JobClient) -> None:
    from interlock.store.catalogue import named_sql

    plan = await explained(durable_client.api.service.store, named_sql("jobs.latest_taken"))
    assert "jobs_by_topic" in plan, plan


async def explained(store: object, block: object) -> str:
    """What the store would do for a block, in its own words."""
    from typing import Any

    any_store: Any = store
    any_block: Any = block
    values = {"tenant": "default", "topic": "free.a", "now": 2**60, "limit": 10, "among": 200}
    if hasattr(any_store, "_connections"):
        async with any_store._connections.fresh(5.0) as connection:
            await connection.execute("SET enable_seqscan = off")
            sql = "EXPLAIN " + any_block.postgres
            rows = await connection.fetch(sql, *any_block.arguments(values))
            return "\n".join(row[0] for row in rows)
    import apsw

    connection = apsw.Connection(str(any_store._path))
    rows = connection.execute(
        "EXPLAIN QUERY PLAN " + any_block.sqlite, any_block.arguments(values)
    ).fetchall()
    connection.close()
    return "\n".join(str(row) for row in rows)
