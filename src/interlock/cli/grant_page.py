"""Grants and signers as people read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlock.cli.output import Cell, Column, say, say_fields, say_table
from interlock.cli.wording import exactly, safe, when

if TYPE_CHECKING:
    from interlock.sdk.grant_models import Grant, Signer

_STYLES = {"open": "green", "spent": "dim", "expired": "dim", "revoked": "red"}


def say_grants(grants: Sequence[Grant]) -> None:
    """One line a grant."""
    columns = (
        Column("ID"),
        Column("TASK", flexible=True),
        Column("STATE"),
        Column("USED"),
        Column("ENDS", optional=True),
        Column("BY", optional=True),
        Column("PINS", flexible=True, optional=True),
    )
    say_table(
        columns,
        [
            (
                grant.id,
                grant.task,
                _state(grant),
                f"{grant.used}/{grant.uses}",
                when(grant.expires_at),
                grant.approver or "-",
                _pins(grant) or "-",
            )
            for grant in grants
        ],
    )


def say_grant(grant: Grant) -> None:
    """One grant, and who used it."""
    say_fields(
        [
            ("grant", grant.id),
            ("task", grant.task),
            ("state", _state(grant)),
            ("uses", f"{grant.used} of {grant.uses}"),
            ("pins", _pins(grant)),
            ("limits", ", ".join(_limit(grant, limit) for limit in grant.limits)),
            ("standing", "honoured where jobs are submitted" if grant.standing else ""),
            ("by", grant.approver or ""),
            ("signed by", grant.signed_by or ""),
            ("reason", grant.reason),
            ("ends", exactly(grant.expires_at) if grant.expires_at else ""),
            ("revoked", f"by {grant.revoked_by}" if grant.revoked_by else ""),
        ]
    )
    for use in grant.claims:
        at = exactly(use.claimed_at) if use.claimed_at else ""
        say(f"use {use.use}  {safe(use.claimed_by or '-')}  {at}  {safe(use.execution_id)}")


def say_signers(signers: Sequence[Signer]) -> None:
    """One line a key."""
    columns = (Column("FINGERPRINT"), Column("PERSON"), Column("STATE"), Column("ADDED BY", optional=True))
    say_table(
        columns,
        [
            (
                signer.fingerprint,
                signer.person,
                Cell("revoked", "red") if signer.revoked_at else Cell("trusted", "green"),
                signer.added_by or "-",
            )
            for signer in signers
        ],
    )


def _state(grant: Grant) -> Cell:
    return Cell(grant.state, _STYLES.get(grant.state, ""))


def _pins(grant: Grant) -> str:
    return ", ".join(_pin(path, value) for path, value in grant.pins.items())


def _pin(path: str, value: Any) -> str:
    if isinstance(value, dict):
        if "max" in value:
            return f"{path}<={value['max']}"
        if "glob" in value:
            return f"{path}~{value['glob']}"
    return f"{path}={json.dumps(value, ensure_ascii=False)}"


def _limit(grant: Grant, limit: dict[str, Any]) -> str:
    path = str(limit["path"])
    return f"{path}<={limit['total_max']} in all ({grant.spent.get(path, 0)} spent)"
