"""Whatever happens to grants, every use is open, claimed, expired or revoked, and each is exactly one of these."""

from __future__ import annotations

import asyncio
import random

from tests.harness.soak import dose
from tests.rooms.grants.conftest import Granting


async def test_uses_are_conserved_whatever_is_done_at_once(granting: Granting) -> None:
    for seed in range(dose(3)):
        chance = random.Random(seed)
        grants = [
            await granting.grant(f"t{seed}", uses=chance.randint(1, 6), expires_in=f"{chance.randint(1, 9)}m")
            for _ in range(6)
        ]
        for _ in range(6):
            await asyncio.gather(*(_move(granting, grants, f"t{seed}", chance) for _ in range(12)))
            granting.api.clock.advance(chance.randint(0, 90))
            if chance.random() < 0.5:
                await granting.api.sweep()
            await _check(granting)


async def test_the_ledger_names_a_grant_whose_record_was_altered(granting: Granting) -> None:
    from tests.rooms.grants.test_signing import forge

    grant = await granting.grant(uses=3)
    await granting.claim()
    await forge(granting, grant, used=0)

    ledger = await granting.api.get("grants/ledger")

    assert ledger["uneven"] == [grant]
    assert ledger["issued"] != ledger["open"] + ledger["claimed"] + ledger["expired"] + ledger["revoked"]


async def _move(granting: Granting, grants: list[str], task: str, chance: random.Random) -> None:
    if chance.random() < 0.8:
        await granting.claim(task=task, execution=f"e{chance.randint(0, 40)}")
    else:
        await granting.api.call("POST", f"grants/{chance.choice(grants)}/revoke", granting.ada, {})


async def _check(granting: Granting) -> None:
    ledger = await granting.api.get("grants/ledger?limit=200")
    assert ledger["uneven"] == []
    assert ledger["issued"] == ledger["open"] + ledger["claimed"] + ledger["expired"] + ledger["revoked"]
