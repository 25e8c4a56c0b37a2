"""Reading the audit log."""

from __future__ import annotations

import msgspec

from interlock.kernel.pages import readable
from interlock.kernel.record import Params
from interlock.kernel.storage import Row, Store, cut
from interlock.rooms.audit.model import AUDIT, AuditEntry

Numbered = tuple[int, AuditEntry]

_NEWEST = 2**62
# There is no index by actor or by action: it would cost every decision. So the log is looked
# through in stretches of this many entries, which take some twenty milliseconds each.
STRETCH = 20_000
_STRETCHES_MAX = 10


class Entries(msgspec.Struct, frozen=True):
    """One page of the log, newest first; `next_cursor` is the number to go on from, or None at the end."""

    items: list[Numbered]
    next_cursor: str | None


async def list_entries(store: Store, tenant: str, *, subject: str, limit: int) -> list[Numbered]:
    """The newest entries about one thing with their numbers, newest first."""
    return (await page_of_entries(store, tenant, subject=subject, limit=limit)).items


async def page_of_entries(
    store: Store,
    tenant: str,
    *,
    limit: int,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    before: int | None = None,
) -> Entries:
    """A page of the log, narrowed by any of the three. By actor or action alone it may be short and not the last."""
    if subject is None and (actor or action):
        narrowed: Params = {"tenant": tenant, "actor": actor, "action": action}
        return await _look_through(store, narrowed, limit, before)
    params = {"tenant": tenant, "before": _NEWEST if before is None else before, "limit": limit + 1}
    if subject is None:
        rows = await store.query("audit.list_entries", params)
    else:
        about = {**params, "subject": subject, "actor": actor, "action": action}
        rows = await store.query("audit.list_entries_of_subject", about)
    return _page(rows, limit)


async def _look_through(store: Store, params: Params, limit: int, before: int | None) -> Entries:
    before = _NEWEST if before is None else before
    rows: list[Row] = []
    for _ in range(_STRETCHES_MAX):
        since, count = await _stretch(store, params, before)
        within = {**params, "before": before, "since": since, "limit": limit + 1 - len(rows)}
        rows += await store.query("audit.list_entries_between", within)
        before = since
        if len(rows) > limit or count < STRETCH:
            return _page(rows, limit)
    return Entries(_numbered(rows), str(before))


async def _stretch(store: Store, params: Params, before: int) -> tuple[int, int]:
    """The number that the next entries reach down to, and how many they are."""
    reach = {"tenant": params["tenant"], "before": before, "limit": STRETCH}
    ((oldest, count),) = await store.query("audit.stretch_of_entries", reach)
    return int(oldest or 0), int(count)


def _page(rows: list[Row], limit: int) -> Entries:
    page, cursor = cut(rows, limit, lambda row: str(row[0]))
    return Entries(_numbered(page), cursor)


def _numbered(rows: list[Row]) -> list[Numbered]:
    return [(int(row[0]), entry) for row in rows for entry in readable(AUDIT, row[1:2])]
