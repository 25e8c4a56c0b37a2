"""The audit log over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.api.calls import Asked
from interlock.api.operations import Call, Operation, Reply
from interlock.api.pages import PageQuery, position
from interlock.api.problems import code_named
from interlock.rooms.audit import queries
from interlock.rooms.audit.model import AuditEntry
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import events as wire
from interlock.wire.fields import Page

Word = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class AuditQuery(PageQuery, frozen=True, kw_only=True):
    subject: Word | None = None
    actor: Word | None = None
    action: Word | None = None


def entry_query(page: PageQuery, *, subject: str) -> AuditQuery:
    return AuditQuery(limit=page.limit, cursor=page.cursor, subject=subject)


async def entries_page(call: Call[Known, Service, Any, Any], query: AuditQuery) -> Reply:
    """A page of audit entries, newest first."""
    found = await queries.page_of_entries(
        call.services.store,
        call.caller.tenant,
        subject=query.subject,
        actor=query.actor,
        action=query.action,
        before=position(query.cursor),
        limit=query.limit,
    )
    items = [entry_view(n, entry) for n, entry in found.items]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def listed(call: Asked[AuditQuery, None]) -> Reply:
    return await entries_page(call, call.query)


def entry_view(n: int, entry: AuditEntry) -> wire.AuditEntry:
    """An entry as it looks from outside."""
    return wire.AuditEntry(
        n=n,
        id=entry.id,
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        outcome=code_named(entry.outcome),
        subject_version=entry.subject_version,
        rule=entry.rule,
        hash=entry.hash,
        request_id=entry.request_id,
        details=entry.details,
    )


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_audit", method="GET", path="/api/v1/audit", tag="Audit", roles=("audit", "admin"),
        summary="Who did what, newest first", query=AuditQuery, answers={200: Page[wire.AuditEntry]}, answer=listed,
    ),
)  # fmt: skip
