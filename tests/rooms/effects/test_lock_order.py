"""A command that needs several records locks them in one order, so that servers never wait for each other in a ring.

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
from tests.harness.in_process_api import VirtualClock, open_api
from tests.rooms.effects.effect_client import Actors, lease_ref

SHARED = {
    "conflict",
    "grant",
    "job",
    "lease",
    "lease_node",
    "policy_bucket",
    "target",
    "unsettled_conflicts",
}
# Rates are kept in buckets that many jobs draw from, so asking for a job, and again, locks one of them.
SLOWLY = """
version: v1
rules:
  - {id: ask, when: {topic: "pay.**"}, decision: throttle, throttle: {rate: 100/s, burst: 100, key: actor},
     then: require_human, approval: {binding: semantic}}
  - {id: free, when: {topic: "free.**"}, decision: allow}
"""


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
    async with open_api(store) as api:
        yield await Actors(api).open(), store


async def test_whatever_is_shared_is_locked_in_one_order(watched: tuple[Actors, Watched]) -> None:
    actors, store = watched
    await _share_work(actors)
    await _ask_again(actors)
    seen = {pair for order in store.orders for pair in _pairs(order)}
    assert {
        ("lease", "target"),  # an effect under a lease
        ("grant", "target"),  # an effect under a grant
        ("job", "policy_bucket"),  # a request that is asked about again
        ("grant", "policy_bucket"),  # a job that a standing grant releases
        ("job", "unsettled_conflicts"),  # a decision on an old version
    } <= seen
    assert not _ring(store.orders)


async def _share_work(actors: Actors) -> None:
    """Effects, touches, leases and conflicts."""
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


async def _ask_again(actors: Actors) -> None:
    """Standing grants; requests that drift, are refreshed, edited and decided; what happens to them afterwards."""
    await actors.api.policy(SLOWLY)
    standing = {"task": "pay.b", "standing": True, "uses": 9}
    granted = (await actors.post("grants", actors.ada, standing)).document["id"]
    released = await actors.submit("v3", "pay.b")
    assert (await actors.api.get(f"jobs/{released}"))["grant_use"] is not None
    (held,) = await actors.claim("pay.b")
    await actors.begin("d", by=actors.worker, permit=held["permit"], target={"key": "doc:1", "version": "v3"})

    asked = await actors.submit("v3", "pay.a")
    await actors.touch("v4")
    drifted = await actors.post(f"approvals/{asked}/approve", actors.ada)
    assert (drifted.status, drifted.word) == (409, "target_changed")
    edit = {"payload": {"n": 1}, "reason": "less"}
    for path, by, body in (
        ("refresh", actors.ada, {}),
        ("edit", actors.bot, edit),
        ("approve", actors.bob, {"job_hash": ""}),
    ):
        if "job_hash" in body:
            body["job_hash"] = (await actors.api.job(asked))["job_hash"]
        seen = await actors.post(f"approvals/{asked}/{path}", by, body)
        assert seen.status == 200, seen.document
    late = await actors.post(f"approvals/{asked}/reject", actors.ada, {"reason": "late"})
    assert (late.status, late.word) == (409, "already_approved")
    await actors.claim("pay.a")
    await actors.post(f"grants/{granted}/revoke", actors.ada)
    await actors.post(f"jobs/{await actors.submit('v4', 'pay.a')}/cancel", actors.bot)
    await actors.pass_time(24 * 3600)


def test_a_ring_is_noticed() -> None:
    assert _ring({("lease", "target"), ("target", "conflict"), ("conflict", "lease")})
    assert not _ring({("lease", "target"), ("conflict", "lease"), ("conflict", "target")})


def _ring(orders: set[tuple[str, ...]]) -> set[tuple[str, str]]:
    """What is locked before what, without everything that is in no ring."""
    pairs = {pair for order in orders for pair in _pairs(order)}
    while free := {first for first, _ in pairs} - {second for _, second in pairs}:
        pairs = {pair for pair in pairs if pair[0] not in free}
    return pairs


def _pairs(order: tuple[str, ...]) -> set[tuple[str, str]]:
    return {
        (first, second)
        for place, first in enumerate(order)
        for second in order[place + 1 :]
        if first != second
    }
