"""Checkpoints: how far an owner got, for whoever comes after.

A checkpoint is bounded in size and numbered. The last one lies in the lease, and moves on to the next lease of
the resource; the last few of each lease are kept besides. No lease that ends, however it ends, erases any.
"""

from __future__ import annotations

import msgspec

from interlock.kernel.record import NOTHING, Key, Reads
from interlock.kernel.world import World
from interlock.leases.model import CHECKPOINTS, LEASES, NULL, Checkpoint, Lease, SavedCheckpoint
from interlock.leases.refusals import CheckpointTooLarge
from interlock.leases.rules import OwnLease
from interlock.outbox.rules import announce

CHECKPOINTS_KEPT = 20
CHECKPOINT_BYTES_MAX = 64 * 1024


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner writes down: what is done, what is half done, and what a successor should know."""

    done: msgspec.Raw
    partial: msgspec.Raw = NULL
    evidence: msgspec.Raw = NULL
    validation: msgspec.Raw = NULL
    open_questions: msgspec.Raw = NULL

    @property
    def size(self) -> int:
        fields = (self.done, self.partial, self.evidence, self.validation, self.open_questions)
        return sum(len(bytes(field)) for field in fields)


class SaveCheckpoint(OwnLease[Lease], frozen=True, kw_only=True):
    """Record how far the work has come; a successor receives the last one whole. Counts as progress."""

    content: Content

    def more(self, world: World) -> Reads:
        lease = world.get(LEASES, self.caller.tenant, self.lease_id)
        return super().more(world) | (Reads(own=(_next_slot(lease),)) if lease else NOTHING)

    def decide(self, world: World) -> Lease:
        lease = self.current(world)
        saved = save(world, lease, self.content, self.caller.principal, _next_slot(lease))
        facts = {"resource": lease.resource, "number": saved.number, "fence": lease.fence}
        announce(world, lease.tenant, "lease.checkpoint", lease.id, facts)
        return world.put(
            LEASES, msgspec.structs.replace(lease, checkpoint=saved, renewals_without_progress=0)
        )


def last_slot(tenant: str, lease_id: str) -> Key:
    """Where the checkpoint of a hand-off goes, which is known before the lease is."""
    return CHECKPOINTS.key(tenant, f"{lease_id}.last")


def save(world: World, lease: Lease, content: Content, by: str, slot: Key) -> Checkpoint:
    """Keep one more checkpoint of a lease in a slot, which must be owned."""
    if content.size > CHECKPOINT_BYTES_MAX:
        raise CheckpointTooLarge(content.size, CHECKPOINT_BYTES_MAX)
    saved = Checkpoint(
        number=_next_number(lease),
        at=world.now,
        by=by,
        done=content.done,
        partial=content.partial,
        evidence=content.evidence,
        validation=content.validation,
        open_questions=content.open_questions,
    )
    world.put(
        CHECKPOINTS, SavedCheckpoint(tenant=lease.tenant, id=slot.id, lease_id=lease.id, checkpoint=saved)
    )
    return saved


def _next_number(lease: Lease) -> int:
    return lease.checkpoint.number + 1 if lease.checkpoint else 1


def _next_slot(lease: Lease) -> Key:
    """The next checkpoint replaces the oldest that is kept."""
    return CHECKPOINTS.key(lease.tenant, f"{lease.id}.{_next_number(lease) % CHECKPOINTS_KEPT:02d}")
