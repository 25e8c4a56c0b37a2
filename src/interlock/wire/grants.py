"""Grants, claims of their uses, and the keys that sign them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.wire.marks import Given, Sometimes


class GrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a grant. `action_id` is the effect that began under it, if one did.

    `fence` is told to whoever claimed it alone.
    """

    grant_id: str
    use: int
    fence: Sometimes[int] = 0
    execution_id: str = ""
    claimed_by: Given[str] = None
    claimed_at: Given[datetime] = None
    args_digest: str = ""
    action_id: str | None = None


class GrantTally(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the uses: issued = open + claimed + expired + revoked."""

    issued: int = 0
    open: int = 0
    claimed: int = 0
    expired: int = 0
    revoked: int = 0


class SpendLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one argument all uses together may add up to."""

    path: str
    total_max: int | float


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A permission: `open`, `spent`, `expired` or `revoked`, by the clock. `claims` are the newest of its uses."""

    id: str
    grant_id: str = ""
    task: str
    state: str
    pins: dict[str, Any] = {}
    limits: tuple[SpendLimit, ...] = ()
    spent: dict[str, int | float] = {}
    uses: int = 1
    used: int = 0
    standing: bool = False
    approver: Given[str] = None
    reason: str = ""
    issued_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    signed_by: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    tally: GrantTally = GrantTally()
    claims: tuple[GrantUse, ...] = ()


class GrantClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the claimant may act: by which use of which grant, or why not."""

    claimed: bool
    grant_id: Sometimes[str | None] = None
    use: Sometimes[int | None] = None
    fence: Sometimes[int | None] = None
    reason: Sometimes[str | None] = None


class GrantLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of one page of grants. `claimed` counts recorded uses; `uneven` are grants that do not add up."""

    grants: int
    issued: int
    open: int
    claimed: int
    expired: int
    revoked: int
    uneven: tuple[str, ...] = ()
    next_cursor: str | None = None


class GrantTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks need a signature, and what whoever signs a grant now writes into it."""

    signed_tasks: tuple[str, ...] = ()
    tenant: str
    approver: str
    nonce: str
    now: datetime


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """A key that grants may be signed with. `fingerprint` is as `ssh-keygen -lf` prints it."""

    fingerprint: str
    person: str
    public_key: str = ""
    added_at: Given[datetime] = None
    added_by: Given[str] = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
