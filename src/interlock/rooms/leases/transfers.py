"""Handing a lease to another holder: offers, takeovers, and the checkpoint that goes with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import msgspec

from interlock.kernel.record import NOTHING, Key, Reads
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import PRINCIPALS
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.leases.acquisition import OWNERS
from interlock.rooms.leases.lines import OverdueLeases, end_lease, ending_reads
from interlock.rooms.leases.model import (
    CHECKPOINTS,
    LEASES,
    NULL,
    Checkpoint,
    CheckpointTooLarge,
    Lease,
    LeaseNotActionable,
    LeaseState,
    Place,
    SavedCheckpoint,
)
from interlock.rooms.leases.rules import OwnLease, find_lease, stale_reads

CHECKPOINTS_KEPT = 20
CHECKPOINT_BYTES_MAX = 64 * 1024


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's report: finished work, unfinished work, and what a successor should know."""

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
    """Record the progress of the work; a successor receives the last record. Counts as progress."""

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
    """The slot for the checkpoint of a hand-off, which is known before the lease is loaded."""
    return CHECKPOINTS.key(tenant, f"{lease_id}.last")


def save(world: World, lease: Lease, content: Content, by: str, slot: Key) -> Checkpoint:
    """Keep one more checkpoint of a lease in a slot, which must be locked."""
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


T = TypeVar("T")

KEPT_SECONDS = 60


class _EndLease(OwnLease[T], frozen=True, kw_only=True):
    """Locks the nodes first and the lease after them, in the same order as callers that wait for it."""

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        lease = Reads(see=(LEASES.key(tenant, self.lease_id),))
        return caller_reads(self.caller) | lease | ending_reads(tenant, self.resource)

    def more(self, world: World) -> Reads:
        # The lease may have changed before it was locked, so a stale fence cannot be foreseen here.
        lease = Reads(own=(LEASES.key(self.caller.tenant, self.lease_id),))
        return lease | stale_reads(world, self.caller, self.lease_id, self.resource)


class ReleaseLease(_EndLease[Lease], frozen=True, kw_only=True):
    """Give the resource back. Repeating it, or releasing after one's own hand-off, changes nothing."""

    def decide(self, world: World) -> Lease:
        require(world, self.caller)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        mine = lease.is_of(self.session) and (lease.owner, lease.fence) == (self.caller.principal, self.fence)
        if mine and lease.state in (LeaseState.RELEASED, LeaseState.HANDED_OFF):
            return lease
        return end_lease(world, self.current(world), "release", by=self.caller)


class HandOffLease(_EndLease[Lease], frozen=True, kw_only=True):
    """Give the resource up to a named principal, or to the next caller, with a checkpoint."""

    to: str | None = None
    content: Content | None = None

    def reads(self) -> Reads:
        named = (PRINCIPALS.key(self.caller.tenant, self.to),) if self.to is not None else ()
        return super().reads() | Reads(see=named)

    def more(self, world: World) -> Reads:
        slot = Reads(own=(last_slot(self.caller.tenant, self.lease_id),)) if self.content else NOTHING
        return super().more(world) | slot

    def decide(self, world: World) -> Lease:
        lease = self.current(world)
        saved = lease.checkpoint
        if self.content is not None:
            slot = last_slot(lease.tenant, lease.id)
            saved = save(world, lease, self.content, self.caller.principal, slot)
        return end_lease(
            world,
            lease,
            "hand_off",
            by=self.caller,
            kept=self._kept(world, lease),
            handed_to=self.to,
            checkpoint=saved,
        )

    def _kept(self, world: World, lease: Lease) -> Place | None:
        if self.to is None:
            return None
        named = world.get(PRINCIPALS, lease.tenant, self.to)
        if named is None or not named.can_act:
            raise NotFound("principal", self.to)
        if not set(OWNERS) & set(named.roles):
            verb = f"be handed to {named.id}, who has no role that may hold one"
            raise LeaseNotActionable(lease.id, lease.state.value, verb)
        return Place(
            principal=self.to,
            resource=lease.resource,
            mode=lease.mode,
            since=world.now,
            expires_at=world.now + timedelta(seconds=KEPT_SECONDS),
            kept=True,
        )


class SweepOverdueLeases(Command[int], frozen=True, kw_only=True):
    """End up to `most` leases whose time has run out; returns how many."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OverdueLeases(limit=self.most),))

    def more(self, world: World) -> Reads:
        reads = NOTHING
        for lease in world.pick(OverdueLeases(limit=self.most)):
            reads |= ending_reads(lease.tenant, lease.resource)
        return reads

    def decide(self, world: World) -> int:
        overdue = world.pick(OverdueLeases(limit=self.most))
        for lease in overdue:
            end_lease(world, lease, "expire")
        return len(overdue)
