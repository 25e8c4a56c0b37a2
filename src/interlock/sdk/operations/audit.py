"""Audit and health: what happened, and whether the service is there."""

from __future__ import annotations

from interlock.sdk.calls import fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.models import AuditEntry, Health, Page
from interlock.sdk.session import Session


def audit(
    session: Session,
    *,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[AuditEntry]]:
    """List audit entries, newest first."""
    query = {"subject": subject, "actor": actor, "action": action, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("audit"), Page[AuditEntry], query))


def health(session: Session) -> Flow[Health]:
    """Ask whether the service is ready for work; raises `Unavailable` if its store is out of reach."""
    return (yield from fetch(session, "/readyz", Health))
