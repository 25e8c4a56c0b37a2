"""How rooms leave an audit entry: in the deciding transaction, so that one cannot exist without the other."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.audit.model import AUDIT, AuditEntry
from interlock.kernel.world import World


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a room wants remembered. `outcome` is `done`, or the name of the refusal."""

    tenant: str
    actor: str
    action: str
    subject: str
    outcome: str = "done"
    subject_version: int | None = None
    rule: str | None = None
    hash: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = {}


# Whoever is told a fence could act under it, so only its holder is: never in what others read.
_FENCES = frozenset({"fence", "current_fence"})


def without_fences(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as the audit, the events and the webhooks tell them."""
    return {name: fact for name, fact in facts.items() if name not in _FENCES}


def note(world: World, noted: Note) -> None:
    """Write an audit entry with the batch's clock."""
    entry = AuditEntry(
        tenant=noted.tenant,
        id=world.new_id("aud"),
        version=1,
        at=world.now,
        actor=noted.actor,
        action=noted.action,
        subject=noted.subject,
        outcome=noted.outcome,
        subject_version=noted.subject_version,
        rule=noted.rule,
        hash=noted.hash,
        request_id=noted.request_id,
        details=without_fences(noted.details),
    )
    world.add(AUDIT, entry)
