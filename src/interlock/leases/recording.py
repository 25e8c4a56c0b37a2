"""What a change of a lease leaves in the audit log."""

from __future__ import annotations

from typing import Any

from interlock.audit.rules import Note, note
from interlock.identity.model import Caller
from interlock.kernel.world import World
from interlock.leases.model import Lease

_SWEEP = "interlock"


def record(
    world: World, by: Caller | None, action: str, lease: Lease, *, outcome: str = "done", **details: Any
) -> None:
    """Audit what somebody did with a lease, or time did (`by` is None), or what was refused."""
    note(
        world,
        Note(
            tenant=lease.tenant,
            actor=by.principal if by else _SWEEP,
            action=f"lease_{action}",
            subject=lease.resource,
            outcome=outcome,
            subject_version=lease.version,
            request_id=by.request_id if by else None,
            details={"lease_id": lease.id, "fence": lease.fence, "owner": lease.owner, **details},
        ),
    )
