"""What every change of a grant leaves behind: an audit entry, and whom it wakes."""

from __future__ import annotations

from typing import Any

from interlock.audit.rules import Note, note
from interlock.identity.model import Caller
from interlock.kernel.world import World

SWEEP = "interlock"


def record(world: World, by: Caller, action: str, subject: str, **details: Any) -> None:
    """Audit something that somebody did to a grant, a signer or the terms."""
    _note(world, by, action, subject, "done", details)


def record_refused(world: World, by: Caller, action: str, subject: str, why: str, **details: Any) -> None:
    """Audit that somebody tried, and which check stopped them."""
    _note(world, by, f"{action}_refused", subject, "refused", {"why": why, **details})


def record_expiry(world: World, tenant: str, grant_id: str, left: int) -> None:
    """Audit that time ended what was left of a grant."""
    note(
        world,
        Note(tenant=tenant, actor=SWEEP, action="grant_expire", subject=grant_id, details={"left": left}),
    )


def grants_topic(tenant: str) -> str:
    """What somebody who waits for a grant listens on."""
    return f"grants:{tenant}"


def _note(world: World, by: Caller, action: str, subject: str, outcome: str, details: dict[str, Any]) -> None:
    note(
        world,
        Note(
            tenant=by.tenant,
            actor=by.principal,
            action=action,
            subject=subject,
            outcome=outcome,
            request_id=by.request_id,
            details={name: value for name, value in details.items() if value},
        ),
    )
