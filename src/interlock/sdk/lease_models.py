"""Leases and what their owners left, as the service answers with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far an owner got."""

    number: int
    at: datetime | None = None
    by: str | None = None
    done: Any = None
    partial: Any = None
    evidence: Any = None
    validation: Any = None
    open_questions: Any = None


class Predecessor(msgspec.Struct, frozen=True, kw_only=True):
    """Who had the resource before, how that ended, and how far they got."""

    owner: str
    ended: str
    ended_at: datetime | None = None
    lease_id: str | None = None
    checkpoint: Checkpoint | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's hold on one resource. `fence` is told to the owner; to others it is 0."""

    lease_id: str
    resource: str
    state: str
    fence: int = 0
    owner: str
    mode: str = "exclusive"
    purpose: str = ""
    session: str = ""
    ttl_seconds: int | float = 60
    since: datetime | None = None
    expires_at: datetime | None = None
    renewals: int = 0
    progress: Any = None
    suspended_for: str = ""
    suspended_at: datetime | None = None
    conflict_id: str | None = None
    checkpoint: Checkpoint | None = None
    ended_at: datetime | None = None
    handed_to: str | None = None
    predecessor: Predecessor | None = None


class CheckedFence(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a fence is current, and whose the resource is."""

    current: bool
    state: str
    fence: int = 0
    current_fence: int = 0
    owner: str | None = None
    expires_at: datetime | None = None
