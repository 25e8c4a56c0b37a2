"""Grants, their uses and their signers as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from interlock.rooms.grants.model import Grant, GrantUse, Signer, SpendLimit
from interlock.rooms.grants.pins import written_pins
from interlock.rooms.grants.queries import Ledger


class TallyView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the uses: issued = open + claimed + expired + revoked."""

    issued: int
    open: int
    claimed: int
    expired: int
    revoked: int


class UseView(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a grant. `action_id` is the effect that began under it, if one did.

    `fence` is shown to whoever claimed it alone.
    """

    grant_id: str
    use: int
    execution_id: str
    claimed_by: str
    claimed_at: datetime
    args_digest: str
    action_id: str | None
    fence: int | UnsetType = UNSET


class GrantView(msgspec.Struct, frozen=True, kw_only=True):
    """A grant. `state` is by the clock: past `expires_at` it is expired. `claims` are the newest of its uses."""

    id: str
    grant_id: str
    task: str
    state: str
    pins: dict[str, Any]
    limits: list[SpendLimit]
    spent: dict[str, int | float]
    uses: int
    used: int
    standing: bool
    approver: str
    reason: str
    issued_at: datetime
    expires_at: datetime
    signed_by: str | None
    revoked_at: datetime | None
    revoked_by: str | None
    tally: TallyView
    claims: list[UseView] = []


class ClaimView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the caller may act: if so by which use of which grant, if not why."""

    claimed: bool
    grant_id: str | UnsetType = UNSET
    use: int | UnsetType = UNSET
    fence: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of one page of grants. `claimed` counts recorded uses; `uneven` are grants that do not add up."""

    grants: int
    issued: int
    open: int
    claimed: int
    expired: int
    revoked: int
    uneven: list[str]
    next_cursor: str | None


class SignerView(msgspec.Struct, frozen=True, kw_only=True):
    """A key that grants may be signed with. `fingerprint` is as `ssh-keygen -lf` prints it."""

    fingerprint: str
    person: str
    public_key: str
    added_at: datetime
    added_by: str
    revoked_at: datetime | None
    revoked_by: str | None


class TermsView(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks need a signature, and what whoever signs a grant now has to write into it."""

    signed_tasks: list[str]
    tenant: str
    approver: str
    nonce: str
    now: datetime


def grant_view(
    grant: Grant, now: datetime, claims: Sequence[GrantUse] = (), *, seen_by: str = ""
) -> GrantView:
    return GrantView(
        id=grant.id,
        grant_id=grant.id,
        task=grant.task,
        state=grant.state_at(now).value,
        pins=written_pins(grant.pins),
        limits=list(grant.limits),
        spent=grant.spent,
        uses=grant.uses,
        used=grant.used,
        standing=grant.standing,
        approver=grant.approver,
        reason=grant.reason,
        issued_at=grant.issued_at,
        expires_at=grant.expires_at,
        signed_by=grant.signature.signer if grant.signature else None,
        revoked_at=grant.revoked_at,
        revoked_by=grant.revoked_by,
        tally=TallyView(**grant.tally(now)),
        claims=[use_view(use, seen_by) for use in claims],
    )


def use_view(use: GrantUse, seen_by: str) -> UseView:
    return UseView(
        grant_id=use.grant_id,
        use=use.use,
        fence=use.fence if use.claimed_by == seen_by else UNSET,
        execution_id=use.execution_id,
        claimed_by=use.claimed_by,
        claimed_at=use.claimed_at,
        args_digest=use.args_digest,
        action_id=use.action_id,
    )


def signer_view(signer: Signer) -> SignerView:
    return SignerView(
        fingerprint=signer.id,
        person=signer.person,
        public_key=signer.public_key,
        added_at=signer.added_at,
        added_by=signer.added_by,
        revoked_at=signer.revoked_at,
        revoked_by=signer.revoked_by,
    )


def ledger_view(ledger: Ledger) -> LedgerView:
    return LedgerView(
        grants=ledger.grants,
        issued=ledger.issued,
        open=ledger.open,
        claimed=ledger.claimed,
        expired=ledger.expired,
        revoked=ledger.revoked,
        uneven=list(ledger.uneven),
        next_cursor=ledger.next_cursor,
    )
