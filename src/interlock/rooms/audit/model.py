"""Audit entries: plain, append-only rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.kernel.record import Kind, Record, micros


class AuditEntry(Record, frozen=True, kw_only=True):
    """One thing that happened, or was refused."""

    at: datetime
    actor: str
    action: str
    subject: str
    outcome: str = "done"
    subject_version: int | None = None
    rule: str | None = None
    hash: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = {}


AUDIT = Kind(
    "audit",
    AuditEntry,
    table="audit_entries",
    columns=("at", "actor", "action", "subject"),
    values=lambda entry: (micros(entry.at), entry.actor, entry.action, entry.subject),
)


class StoreNote(Record, frozen=True, kw_only=True):
    """Up to which raise of the epoch and which repair of the clock there are audit entries."""

    epoch: int = 0
    clock_repairs: int = 0


STORE_NOTES = Kind("store_note", StoreNote, table="store_notes")
