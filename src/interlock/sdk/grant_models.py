"""Grants, claims and signers as the service answers with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class GrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a grant. `action_id` is the effect that began under it, if one did."""

    grant_id: str
    use: int
    fence: int = 0
    execution_id: str = ""
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    args_digest: str = ""
    action_id: str | None = None


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A permission: `open`, `spent`, `expired` or `revoked`. `tally` says what became of its uses."""

    id: str
    grant_id: str = ""
    task: str
    state: str
    uses: int = 1
    used: int = 0
    pins: dict[str, Any] = {}
    limits: tuple[dict[str, Any], ...] = ()
    spent: dict[str, int | float] = {}
    standing: bool = False
    approver: str | None = None
    reason: str = ""
    issued_at: datetime | None = None
    expires_at: datetime | None = None
    signed_by: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    tally: dict[str, int] = {}
    claims: tuple[GrantUse, ...] = ()


class GrantClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the claimant may act: by which use of which grant, or why not."""

    claimed: bool
    grant_id: str | None = None
    use: int | None = None
    fence: int | None = None
    reason: str | None = None


class GrantTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks need a signature, and what whoever signs now writes into the grant."""

    signed_tasks: tuple[str, ...] = ()
    tenant: str
    approver: str
    nonce: str
    now: datetime


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """A key that grants may be signed with."""

    fingerprint: str
    person: str
    public_key: str = ""
    added_at: datetime | None = None
    added_by: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


class JobGrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a standing grant that released a job. `groups`: its issuer was in one of them, as the policy asked."""

    grant_id: str
    use: int
    groups: tuple[str, ...] = ()
