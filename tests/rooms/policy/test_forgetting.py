"""Buckets that are full again are forgotten, and forgetting one never gives a token that was not there."""

from __future__ import annotations

import asyncio

from interlock.rooms.policy.model import BUCKETS
from interlock.rooms.policy.rules import ForgetFullBuckets
from tests.harness.in_process_api import Stage
from tests.harness.soak import dose

MAIL = """
version: v1
rules:
  - id: mail
    when: {{topic: mail}}
    decision: throttle
    throttle: {{rate: {rate}, burst: {burst}, key: actor}}
    then: allow
"""
BUCKET = "mail/actor=bot"


async def mail(stage: Stage, key: str) -> int:
    return (await stage.propose(key, topic="mail")).status


async def is_kept(stage: Stage) -> bool:
    return await stage.service.store.get(BUCKETS, "default", BUCKET) is not None


async def test_a_bucket_is_kept_until_it_is_full_and_then_forgotten(stage: Stage) -> None:
    await stage.policy(MAIL.format(rate="2/m", burst=2))
    bot = await stage.agent()
    assert [await mail(stage, bot) for _ in range(3)] == [201, 201, 429]

    stage.clock.advance(59)
    await stage.service.sweeps.forget_once()
    assert await is_kept(stage)

    stage.clock.advance(1)
    await stage.service.sweeps.forget_once()
    assert not await is_kept(stage)
    assert [await mail(stage, bot) for _ in range(3)] == [201, 201, 429]


async def test_a_bucket_that_a_new_policy_fills_more_slowly_is_kept_until_that_has_filled_it(
    stage: Stage,
) -> None:
    await stage.policy(MAIL.format(rate="2/m", burst=2))
    bot = await stage.agent()
    assert [await mail(stage, bot) for _ in range(2)] == [201, 201]
    await stage.policy(MAIL.format(rate="2/d", burst=2))

    stage.clock.advance(3600)
    await stage.service.sweeps.forget_once()
    assert await is_kept(stage)
    assert await mail(stage, bot) == 429, "the old rate would have filled it, the new one has not"

    stage.clock.advance(24 * 3600)
    await stage.service.sweeps.forget_once()
    assert not await is_kept(stage)


async def test_a_bucket_whose_rule_is_gone_is_forgotten_when_its_time_has_come(stage: Stage) -> None:
    await stage.policy(MAIL.format(rate="2/m", burst=2))
    bot = await stage.agent()
    assert await mail(stage, bot) == 201
    await stage.policy("version: v1\nrules: []\n")
    stage.clock.advance(3600)
    await stage.service.sweeps.forget_once()
    assert not await is_kept(stage)


async def test_one_pass_is_bounded_and_the_next_goes_on(stage: Stage) -> None:
    await stage.policy(MAIL.format(rate="1/s", burst=1))
    for n in range(7):
        assert await mail(stage, await stage.agent(f"bot{n}")) == 201
    stage.clock.advance(10)
    passes = [await stage.service.kernel.run(ForgetFullBuckets(most=3)) for _ in range(4)]
    assert passes == [3, 3, 1, 0]


async def test_forgetting_amid_takers_gives_no_token_twice(durable: Stage) -> None:
    burst = 5
    await durable.policy(MAIL.format(rate="1/d", burst=burst))
    bot = await durable.agent()
    kernel = durable.service.kernel

    async def forget() -> None:
        for _ in range(dose(20)):
            await kernel.run(ForgetFullBuckets())

    statuses, _ = await asyncio.gather(
        asyncio.gather(*(mail(durable, bot) for _ in range(dose(40)))), forget()
    )
    assert sorted(statuses) == [201] * burst + [429] * (len(statuses) - burst)


async def test_a_bucket_that_fills_as_fast_as_it_is_taken_survives_being_forgotten_all_the_time(
    durable: Stage,
) -> None:
    """The bucket is full, and forgotten, between most takes: every take finds a token all the same."""
    await durable.policy(MAIL.format(rate="1000/s", burst=1))
    bot = await durable.agent()
    kernel = durable.service.kernel
    for _ in range(dose(10)):
        _, status = await asyncio.gather(kernel.run(ForgetFullBuckets()), mail(durable, bot))
        assert status == 201
        await asyncio.sleep(0.002)
