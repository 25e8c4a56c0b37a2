"""A claim whose candidates others spend between its first look and its turn goes on to the grants behind them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from interlock.kernel.batch import Batch
from interlock.kernel.pending import Pending
from interlock.kernel.record import Key
from interlock.kernel.storage import Loaded
from interlock.rooms.grants.claims import ClaimGrant, LookFurther, NotClaimed
from interlock.rooms.grants.model import GRANTS, GrantUse
from interlock.rooms.identity.model import Caller
from tests.rooms.grants.conftest import Granting

CLAIM = ClaimGrant(
    caller=Caller(tenant="default", principal="bot"),
    task="deploy",
    args=msgspec.Raw(b"{}"),
    execution_id="overtaken",
)


async def load(granting: Granting, keys: Iterable[Key]) -> Any:
    return {key: await granting.api.service.store.get(key.kind, key.tenant, key.id) for key in keys}


async def overtaken(granting: Granting, count: int) -> Any:
    """What becomes of a claim that saw the oldest `count` grants before others spent them."""
    member = Pending(CLAIM, cast("Any", None), now=0.0, budget=1.0, weight=0)
    batch = Batch("batch_1", [member], str)
    (pick,), now = batch.reads().picks, granting.api.clock.now
    seen = [await granting.stored(await granting.grant()) for _ in range(count)]
    first = await load(granting, (*batch.reads().own, *batch.reads().see))
    wanted = batch.more(Loaded(now, first, [(pick, seen)]))
    for _ in seen:
        assert (await granting.claim())["claimed"]
    assert {GRANTS.key_of(grant) for grant in seen} <= set(wanted.own)
    batch.decide(Loaded(now, await load(granting, (*wanted.own, *wanted.see))))
    return batch.outcomes[member]


async def test_a_claim_that_saw_as_many_as_it_asked_for_looks_behind_them(granting: Granting) -> None:
    (pick,) = CLAIM.reads().picks

    further = await overtaken(granting, pick.limit)

    assert isinstance(further, LookFurther)
    behind = await granting.grant()
    use = await granting.api.service.kernel.run(further.claim)
    assert isinstance(use, GrantUse)
    assert use.grant_id == behind


async def test_a_claim_that_saw_all_there_are_is_told_that_others_were_faster(granting: Granting) -> None:
    (pick,) = CLAIM.reads().picks

    refused = await overtaken(granting, pick.limit - 1)

    assert isinstance(refused, NotClaimed)
    assert "others were faster" in refused.reason
