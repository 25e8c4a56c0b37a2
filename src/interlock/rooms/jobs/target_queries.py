"""Reading targets: their version, who holds them, and what waits for them."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.pages import Records, readable
from interlock.kernel.storage import Store, cut
from interlock.rooms.jobs.model import JOBS, Job
from interlock.rooms.leases.model import LEASES, NODES, Lease, ancestors_of
from interlock.rooms.targets.model import TARGETS, Target

# Sort before and after every character that a key may have.
_BEFORE_ALL = "\x01"
_AFTER_ALL = "\U0010ffff"


async def read_target(store: Store, tenant: str, key: str) -> Target | None:
    return await store.get(TARGETS, tenant, key)


async def list_targets(
    store: Store, tenant: str, *, prefix: str | None, after: str | None, limit: int
) -> Records[Target]:
    """Targets by key; with `prefix`, those whose keys begin with it."""
    params = {"tenant": tenant, "limit": limit + 1}
    if prefix:
        low = prefix if after is None or after < prefix else after + _BEFORE_ALL
        bounds = {"low": low, "high": prefix + _AFTER_ALL}
        rows = await store.query("targets.list_targets_under", {**params, **bounds})
    else:
        rows = await store.query("targets.list_targets", {**params, "after": after or ""})
    found = readable(TARGETS, (row[0] for row in rows))
    return Records(*cut(found, limit, lambda target: target.id, rows=len(rows)))


async def list_waiting_on(store: Store, tenant: str, key: str, *, limit: int) -> list[Job]:
    """Jobs that have not run yet and would change a target, newest first."""
    params = {"tenant": tenant, "target": key, "limit": limit}
    return readable(JOBS, (row[0] for row in await store.query("targets.list_jobs_waiting_on", params)))


async def count_waiting_on(store: Store, tenant: str, key: str, *, limit: int) -> int:
    """How many jobs that have not run yet would change a target, counted up to `limit`."""
    params = {"tenant": tenant, "target": key, "limit": limit}
    return int((await store.query("targets.count_jobs_waiting_on", params))[0][0])


async def list_holders(store: Store, tenant: str, key: str, now: datetime) -> list[Lease]:
    """The live leases that cover a target: on it, or on everything above it."""
    found: list[Lease] = []
    for path in (*ancestors_of(key), key):
        node = await store.get(NODES, tenant, path)
        for holder in node.holders if node else ():
            lease = await store.get(LEASES, tenant, holder.lease_id)
            if lease and lease.is_live_at(now) and (holder.tree or path == key):
                found.append(lease)
    return found
