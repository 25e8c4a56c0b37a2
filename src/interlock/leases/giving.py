"""Giving a lease up: release it, hand it on, or lose it to the clock."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from interlock.identity.model import PRINCIPALS
from interlock.identity.refusals import NotFound
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World
from interlock.leases.acquiring import OWNERS
from interlock.leases.checkpoints import Content, last_slot, save
from interlock.leases.ending import end_lease, ending_reads
from interlock.leases.fences import find_lease, stale_reads
from interlock.leases.model import LEASES, Lease, LeaseState, Place
from interlock.leases.picks import OverdueLeases
from interlock.leases.refusals import LeaseNotActionable
from interlock.leases.rules import OwnLease

T = TypeVar("T")

KEPT_SECONDS = 60


class _EndLease(OwnLease[T], frozen=True, kw_only=True):
    """Nodes are owned first and the lease after them, as by everybody who waits for it."""

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        lease = Reads(see=(LEASES.key(tenant, self.lease_id),))
        return caller_reads(self.caller) | lease | ending_reads(tenant, self.resource)

    def more(self, world: World) -> Reads:
        # What was seen may have changed before it is owned, so a stale fence cannot be foreseen here.
        lease = Reads(own=(LEASES.key(self.caller.tenant, self.lease_id),))
        return lease | stale_reads(world, self.caller, self.lease_id, self.resource)


class ReleaseLease(_EndLease[Lease], frozen=True, kw_only=True):
    """Give the resource back. Repeating it changes nothing, nor does it after one's own hand-off."""

    def decide(self, world: World) -> Lease:
        require(world, self.caller)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        mine = (self.caller.principal, self.session, self.fence)
        given_up = lease.state in (LeaseState.RELEASED, LeaseState.HANDED_OFF)
        if given_up and (lease.owner, lease.session, lease.fence) == mine:
            return lease
        return end_lease(world, self.current(world), "release", by=self.caller)


class HandOffLease(_EndLease[Lease], frozen=True, kw_only=True):
    """Give the resource up to a named principal, or to whoever comes next, with a checkpoint."""

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
