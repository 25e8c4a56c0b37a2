"""Buckets that are full again are forgotten, and forgetting one never gives a token that was not there."""

from __future__ import annotations

import asyncio

from interlock.rooms.policy.model import BUCKETS
from interlock.rooms.policy.rules import ForgetFullBuckets
from tests.harness.in_process_api import InProcessApi
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


async def mail(api: InProcessApi, key: str) -> int:
    return (await api.propose(key, topic="mail")).status


async def is_kept(api: InProcessApi) -> bool:
    return await api.service.store.get(BUCKETS, "default", BUCKET) is not None


async def test_a_bucket_is_kept_until_it_is_full_and_then_forgotten(api: InProcessApi) -> None:
    await api.policy(MAIL.format(rate="2/m", burst=2))
    bot = await api.agent()
    assert [await mail(api, bot) for _ in range(3)] == [201, 201, 429]

    api.clock.advance(59)
    await api.service.sweeps.forget_once()
    assert await is_kept(api)

    api.clock.advance(1)
    await api.service.sweeps.forget_once()
    assert not await is_kept(api)
    assert [await mail(api, bot) for _ in range(3)] == [201, 201, 429]


async def test_a_bucket_that_a_new_policy_fills_more_slowly_is_kept_until_that_has_filled_it(
    api: InProcessApi,
) -> None:
    await api.policy(MAIL.format(rate="2/m", burst=2))
    bot = await api.agent()
    assert [await mail(api, bot) for _ in range(2)] == [201, 201]
    await api.policy(MAIL.format(rate="2/d", burst=2))

    api.clock.advance(3600)
    await api.service.sweeps.forget_once()
    assert await is_kept(api)
    assert await mail(api, bot) == 429, "the old rate would have filled it, the new one has not"

    api.clock.advance(24 * 3600)
    await api.service.sweeps.forget_once()
    assert not await is_kept(api)


async def test_a_bucket_whose_rule_is_gone_is_forgotten_when_its_time_has_come(api: InProcessApi) -> None:
    await api.policy(MAIL.format(rate="2/m", burst=2))
    bot = await api.agent()
    assert await mail(api, bot) == 201
    await api.policy("version: v1\nrules: []\n")
    api.clock.advance(3600)
    await api.service.sweeps.forget_once()
    assert not await is_kept(api)


async def test_one_pass_is_bounded_and_the_next_goes_on(api: InProcessApi) -> None:
    await api.policy(MAIL.format(rate="1/s", burst=1))
    for n in range(7):
        assert await mail(api, await api.agent(f"bot{n}")) == 201
    api.clock.advance(10)
    passes = [await api.service.kernel.run(ForgetFullBuckets(most=3)) for _ in range(4)]
    assert passes == [3, 3, 1, 0]


async def test_forgetting_amid_takers_gives_no_token_twice(durable: InProcessApi) -> None:
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
    durable: InProcessApi,
) -> None:
    """The bucket is full, and forgotten, between most takes: every take finds a token all the same."""
    await durable.policy(MAIL.format(rate="1000/s", burst=1))
    bot = await durable.agent()
    kernel = durable.service.kernel
    for _ in range(dose(10)):
        _, status = await asyncio.gather(kernel.run(ForgetFullBuckets()), mail(durable, bot))
        assert status == 201
        await asyncio.sleep(0.002)
