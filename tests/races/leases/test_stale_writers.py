"""A holder that lost its lease writes nothing any more, however often and wherever it tries.

A hundred thousand attempts a store: INTERLOCK_SOAK=50 python -m pytest tests/races/leases/test_stale_writers.py
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from interlock.rooms.effects.model import EFFECTS
from interlock.rooms.leases.model import LEASES
from interlock.service.service import Service
from tests.harness.load import Request, post
from tests.harness.soak import dose
from tests.races.deployment import Deployment, read_store

ATTEMPTS = 2000
# One burst must fit into the patience of the load; this many do on any machine, and fill batch after batch.
BURST = 2000
_WRITES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("renew", {"progress": "late"}),
    ("checkpoint", {"done": "late"}),
    ("handoff", {"checkpoint": "late"}),
    ("suspend", {"reason": "waiting_on_review"}),
    ("resume", {}),
)
_numbers = iter(range(1_000_000))


async def test_no_stale_write_is_ever_accepted(deployment: Deployment) -> None:
    lost = await _lost_leases(deployment)
    live = await _take(deployment, "live")
    before = await _stored(deployment, [*lost, live])
    chance = random.Random(3)
    for _ in range(max(1, dose(ATTEMPTS) // BURST)):
        writes = [_stale_write(deployment, chance, lost, live) for _ in range(min(BURST, dose(ATTEMPTS)))]
        answers = await deployment.ask(*writes)
        counts = Counter((answer.status, answer.word) for answer in answers)
        assert counts == {(409, "fence_stale"): len(writes)}
    assert await _stored(deployment, [*lost, live]) == before
    assert not await _begun(deployment, [f"stale-{number}" for number in range(200)])


async def test_a_lease_that_ran_out_is_not_renewed_although_nobody_has_taken_it(
    deployment: Deployment,
) -> None:
    for _ in range(dose(2)):
        lease = await _take(deployment, f"lapsed/{next(_numbers)}", ttl_seconds=1)
        while (await _write(deployment, lease, "check"))["current"]:
            await asyncio.sleep(0.05)
        assert (await _write(deployment, lease, "renew"))["code"] == "fence_stale"


async def _lost_leases(place: Deployment) -> list[Any]:
    """One that ran out and was taken over, one that was given back, one that was handed on."""
    expired = await _take(place, "stale/expired", ttl_seconds=1)
    await _take(place, "stale/expired", ttl_seconds=3600, wait_seconds=60)
    released, handed = await _take(place, "stale/released"), await _take(place, "stale/handed")
    await _write(place, released, "release")
    await _write(place, handed, "handoff")
    return [expired, released, handed]


def _stale_write(place: Deployment, chance: random.Random, lost: list[Any], live: Any) -> Request:
    """Any way to write: under a lease that is lost, or with an old, a guessed or a future fence under a live one."""
    fence = live["fence"]
    wrong = [lost[0]["fence"], fence - 1, fence + 1, 0, 2**53 - 1]
    lease = chance.choice(lost) if chance.random() < 0.6 else {**live, "fence": chance.choice(wrong)}
    headers = place.keys["bot"].headers
    if chance.random() < 0.2:
        ref = {"id": lease["lease_id"], "fence": lease["fence"]}
        body = {"request_hash": "sha256:late", "lease": ref}
        return post(f"/api/v1/effects/stale-{next(_numbers)}/begin", body, headers=headers)
    verb, fields = chance.choice(_WRITES)
    body = {"fence": lease["fence"], **fields}
    return post(f"/api/v1/leases/{lease['lease_id']}/{verb}", body, headers=headers)


async def _take(place: Deployment, resource: str, **fields: Any) -> Any:
    body = {"resource": f"writers/{resource}", "ttl_seconds": 3600, **fields}
    (got,) = await place.ask(post("/api/v1/leases", body, headers=place.keys["bot"].headers))
    assert got.status == 201, got.body
    return got.json()


async def _write(place: Deployment, lease: Any, verb: str) -> Any:
    path = f"/api/v1/leases/{lease['lease_id']}/{verb}"
    (answer,) = await place.ask(post(path, {"fence": lease["fence"]}, headers=place.keys["bot"].headers))
    return answer.json()


async def _stored(place: Deployment, leases: list[Any]) -> list[Any]:
    async def read(service: Service) -> list[Any]:
        return [await service.store.get(LEASES, "default", lease["lease_id"]) for lease in leases]

    return await read_store(place.store, read)


async def _begun(place: Deployment, actions: list[str]) -> list[str]:
    """Which of these actions the store knows of."""

    async def read(service: Service) -> list[str]:
        return [action for action in actions if await service.store.get(EFFECTS, "default", action)]

    return await read_store(place.store, read)
