"""Whoever needs several records takes them in one order, so that two servers wait for each other and never in a ring.

A store locks the kinds of each load by their names, the second load after the first. A command that holds one
record in its first load and wants another in its second makes an order of its own; here all of them are compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from interlock.kernel.record import Reads
from interlock.kernel.storage import Loaded, Transaction
from interlock.store.memory import MemoryStore
from tests.api.rooms.stage import VirtualClock, open_stage
from tests.rules.effects.actors import Actors, lease_ref

SHARED = {"conflict", "grant", "job", "lease", "lease_node", "target", "unsettled_conflicts"}


class Watched(MemoryStore):
    """Remembers in which order each batch would have locked the records that others want too."""

    def __init__(self, *, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.orders: set[tuple[str, ...]] = set()

    async def transact(self, transaction: Transaction) -> None:
        def more(loaded: Loaded) -> Reads:
            found = transaction.more(loaded)
            self.orders.add((*_kinds(transaction.reads), *_kinds(found)))
            return found

        await super().transact(msgspec.structs.replace(transaction, more=more))


def _kinds(reads: Reads) -> list[str]:
    return sorted({key.kind.name for key in reads.own} & SHARED)


@pytest.fixture
async def watched() -> AsyncIterator[tuple[Actors, Watched]]:
    store = Watched(clock=VirtualClock())
    async with open_stage(store) as stage:
        yield await Actors(stage).open(), store


async def test_effects_touches_leases_and_conflicts_lock_in_one_order(
    watched: tuple[Actors, Watched],
) -> None:
    actors, store = watched
    lease = await actors.lease()
    await actors.post("grants", actors.ada, {"task": "refund", "uses": 9})
    grant = {"task": "refund", "args": {}}
    await actors.touch("v1", by=actors.bot)
    await actors.submit("v1", "free.a")
    (held,) = await actors.claim()
    target = {"key": "doc:1", "version": "v1"}
    await actors.begin("a", lease=lease_ref(lease), target=target, grant=grant)
    await actors.commit("a")
    await actors.begin("b", permit=held["permit"], lease=lease_ref(lease), grant=grant)
    edited = await actors.touch("v2")
    await actors.touch("v3")
    await actors.begin("c", lease=lease_ref(lease), target=target, grant=grant)
    await actors.renew({**lease, "fence": 1})
    await actors.post(f"leases/{lease['lease_id']}/release", actors.bot, {"fence": 1})
    await actors.settle(edited["conflict_id"], "discard")
    (stale,) = await actors.conflicts(kind="stale_fence", state="open")
    await actors.settle(stale["id"], "keep_second")
    assert {"lease", "target"} <= {kind for order in store.orders for kind in order}
    assert not _ring(store.orders)


def test_a_ring_is_noticed() -> None:
    assert _ring({("lease", "target"), ("target", "conflict"), ("conflict", "lease")})
    assert not _ring({("lease", "target"), ("conflict", "lease"), ("conflict", "target")})


def _ring(orders: set[tuple[str, ...]]) -> set[tuple[str, str]]:
    """What is locked before what, without everything that is in no ring."""
    pairs = {
        (first, second)
        for order in orders
        for place, first in enumerate(order)
        for second in order[place + 1 :]
        if first != second
    }
    while free := {first for first, _ in pairs} - {second for _, second in pairs}:
        pairs = {pair for pair in pairs if pair[0] not in free}
    return pairs
