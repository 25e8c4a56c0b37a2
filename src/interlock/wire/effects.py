"""Effects: actions that happen at most once, and what became of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.wire.marks import Given, Sometimes


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result that is too large to be shown here; read it at `pointer`, or with `effect_result`."""

    digest: str
    size: int
    pointer: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Who said what had become of an effect, and how they knew."""

    outcome: str
    by: Given[str] = None
    at: Given[datetime] = None
    evidence: Any = None


class GrantUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a grant that permits an effect."""

    id: str
    task: str
    use: int = 0


class LeaseUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The lease that an effect was begun under. `fence` is told to whoever began the effect alone."""

    id: str
    fence: Sometimes[int] = 0
    resource: str = ""
    session: str = ""


class TargetUsed(msgspec.Struct, frozen=True, kw_only=True):
    """What an effect changes, and the version it was begun for."""

    key: str
    version: Given[str] = None


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One action and what became of it: `IN_PROGRESS`, `COMMITTED`, `FAILED` or `AMBIGUOUS`, by the clock.

    `downstream_key` is the same for every attempt: pass it to the remote side. `replayed` says that it was
    done before, so that there is nothing to do. `fence` is told to whoever began it alone.
    """

    action_id: str
    state: str
    fence: Sometimes[int] = 0
    downstream_key: str = ""
    request_hash: str = ""
    begun_by: Given[str] = None
    first_begun_at: Given[datetime] = None
    begun_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    ended_at: datetime | None = None
    result: Any = None
    stored_result: StoredResult | None = None
    error: Any = None
    doubt: str | None = None
    job_id: str | None = None
    job_hash: str | None = None
    lease: LeaseUsed | None = None
    target: TargetUsed | None = None
    grant: GrantUsed | None = None
    resolved: Resolved | None = None
    replayed: bool = False


class EffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result of an effect."""

    digest: str | None = None
    size: int = 0
    result: Any = None
