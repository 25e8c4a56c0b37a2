"""The audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.wire.marks import Given


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, or was refused (`outcome` names the refusal)."""

    n: Given[int] = None
    id: Given[str] = None
    at: Given[datetime] = None
    actor: Given[str] = None
    action: str
    subject: Given[str] = None
    outcome: Given[str] = None
    subject_version: int | None = None
    rule: str | None = None
    hash: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = {}
