"""The server itself: whether it is well, what it runs with, and what its audit says."""

from __future__ import annotations

from interlock.sdk.calls import fetch, fetch_text, path
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Page
from interlock.wire.server import Health, ServerSettings, StoreCheck


def get_settings(session: Session) -> Flow[ServerSettings]:
    """Read what the server runs with, without credentials; for its operators and admins."""
    return (yield from fetch(session, path("settings"), ServerSettings))


def check_store(session: Session) -> Flow[StoreCheck]:
    """Write a few bytes to the store; `trouble` says why it took none. For operators and admins."""
    return (yield from fetch(session, path("store", "check"), StoreCheck))


def get_metrics(session: Session) -> Flow[str]:
    """Read the server's figures in the text format of Prometheus."""
    return (yield from fetch_text(session, "/metrics"))


def audit_entries(
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


def get_health(session: Session) -> Flow[Health]:
    """Ask whether the service is ready for work; raises `Unavailable` if its store is out of reach."""
    return (yield from fetch(session, "/readyz", Health))
