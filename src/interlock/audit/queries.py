"""Reading the audit log."""

from __future__ import annotations

from interlock.audit.model import AUDIT, AuditEntry
from interlock.store.contract import Store

_NEWEST = 2**62


async def list_entries(
    store: Store,
    tenant: str,
    *,
    limit: int,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    before: int | None = None,
) -> list[tuple[int, AuditEntry]]:
    """Entries with their numbers, newest first."""
    params = {"tenant": tenant, "limit": limit, "before": _NEWEST if before is None else before}
    if subject is not None and actor is None and action is None:
        rows = await store.query("audit.list_entries_of_subject", {**params, "subject": subject})
    else:
        rows = await store.query(
            "audit.list_entries", {**params, "subject": subject, "actor": actor, "action": action}
        )
    return [(int(row[0]), AUDIT.decode(row[1])) for row in rows]
