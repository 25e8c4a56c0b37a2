"""What work on a job leaves behind beside its changes."""

from __future__ import annotations

from interlock.audit.rules import Note, note
from interlock.identity.model import Caller
from interlock.jobs.refusals import FenceStale
from interlock.kernel.world import World


def record_stale_fence(world: World, by: Caller, verb: str, stale: FenceStale) -> None:
    """Audit that somebody came with a fence that no longer holds. Nothing of what it wanted is kept."""
    note(
        world,
        Note(
            tenant=by.tenant,
            actor=by.principal,
            action=f"{verb}_refused",
            subject=stale.job_id,
            outcome="FenceStale",
            request_id=by.request_id,
            details={
                "fence": stale.fence,
                "current_fence": stale.current_fence,
                "state": stale.state,
                "holder": stale.holder,
            },
        ),
    )
