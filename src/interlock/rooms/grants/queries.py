"""Reading grants, their uses and their signers."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.kernel.pages import NEWEST, Records, page_of, readable
from interlock.kernel.record import micros
from interlock.kernel.storage import Store, cut
from interlock.rooms.grants.model import (
    GRANT_TERMS,
    GRANT_USES,
    GRANTS,
    SIGNERS,
    TERMS_ID,
    Grant,
    GrantState,
    GrantTerms,
    GrantUse,
    Signer,
)

_LAST = 2**62  # more than any use's number, and after any moment


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of some grants, by state. `claimed` counts recorded uses, not the grants' own counters.

    Conserved: issued = open + claimed + expired + revoked. `uneven` are grants for which that does not hold.
    """

    grants: int
    issued: int
    open: int
    claimed: int
    expired: int
    revoked: int
    uneven: tuple[str, ...]
    next_cursor: str | None


async def read_grant(store: Store, tenant: str, grant_id: str) -> Grant | None:
    return await store.get(GRANTS, tenant, grant_id)


async def read_terms(store: Store, tenant: str) -> GrantTerms:
    kept = await store.get(GRANT_TERMS, tenant, TERMS_ID)
    return kept or GrantTerms(tenant=tenant, id=TERMS_ID)


async def list_grants(
    store: Store,
    tenant: str,
    *,
    task: str | None,
    state: GrantState | None,
    now: datetime,
    before: str | None,
    limit: int,
) -> Records[Grant]:
    """Grants, newest first, narrowed by task and by state as of `now`."""
    by = [name for name, value in (("task", task), ("state", state)) if value is not None]
    name = f"grants.list_grants{'_by_' if by else ''}{'_and_'.join(by)}"
    params: dict[str, str | int | None] = {"tenant": tenant}
    if task is not None:
        params["task"] = task
    if state is not None:
        params |= {"state": state.value, "now": micros(now)}
    return await page_of(store, GRANTS, name, params, before, limit)


async def list_uses(
    store: Store, tenant: str, grant_id: str, *, before: int | None, limit: int
) -> Records[GrantUse]:
    """Uses of one grant, newest first; the cursor is the number to go on from."""
    params = {
        "tenant": tenant,
        "grant_id": grant_id,
        "before": _LAST if before is None else before,
        "limit": limit + 1,
    }
    page, cursor = cut(await store.query("grants.list_uses", params), limit, lambda row: str(row[0]))
    return Records(readable(GRANT_USES, (row[1] for row in page)), cursor)


async def list_signers(
    store: Store, tenant: str, *, before: tuple[int, str] | None, limit: int
) -> Records[Signer]:
    """Signers, newest first; the cursor is the moment and the fingerprint to go on from."""
    moment, fingerprint = before or (_LAST, NEWEST)
    params = {"tenant": tenant, "before_at": moment, "before_id": fingerprint, "limit": limit + 1}
    rows = await store.query("grants.list_signers", params)
    page, cursor = cut(rows, limit, lambda row: f"{row[0]}-{row[1]}")
    return Records(readable(SIGNERS, (row[2] for row in page)), cursor)


async def read_ledger(store: Store, tenant: str, *, now: datetime, before: str | None, limit: int) -> Ledger:
    """The law of conservation over one page of grants, newest first."""
    params = {"tenant": tenant, "before": before or NEWEST, "limit": limit + 1}
    rows = await store.query("grants.account_grants", params)
    found = [(grant, int(recorded)) for body, recorded in rows for grant in readable(GRANTS, (body,))]
    counted, cursor = cut(found, limit, lambda row: row[0].id, rows=len(rows))
    tallies = [(grant.tally(now), recorded) for grant, recorded in counted]
    return Ledger(
        grants=len(counted),
        issued=sum(tally["issued"] for tally, _ in tallies),
        open=sum(tally["open"] for tally, _ in tallies),
        claimed=sum(recorded for _, recorded in tallies),
        expired=sum(tally["expired"] for tally, _ in tallies),
        revoked=sum(tally["revoked"] for tally, _ in tallies),
        uneven=tuple(grant.id for grant, recorded in counted if not _is_even(grant, recorded, now)),
        next_cursor=cursor,
    )


def _is_even(grant: Grant, recorded: int, now: datetime) -> bool:
    tally = grant.tally(now)
    left = tally["open"] + tally["expired"] + tally["revoked"]
    return recorded == grant.used and grant.uses == left + recorded and min(left, recorded) >= 0
