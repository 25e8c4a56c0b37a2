"""What resolving a conflict does to the lease that it concerns."""

from __future__ import annotations

import msgspec

from interlock.identity.model import Caller, Role
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.leases.ending import end_lease, ending_reads
from interlock.leases.fences import find_lease
from interlock.leases.model import LEASES, TRANSITIONS, Lease
from interlock.leases.recording import record
from interlock.leases.refusals import LeaseNotActionable
from interlock.outbox.rules import announce

SETTLERS = (Role.REVIEW, Role.OPERATE, Role.ADMIN)


class _LeaseInConflict(Command[Lease], frozen=True, kw_only=True):
    """A command about somebody's lease by whoever settles its conflict: that one, and no other that names it."""

    caller: Caller
    lease_id: str
    resource: str
    conflict_id: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | ending_reads(self.caller.tenant, self.resource)

    def more(self, world: World) -> Reads:
        return Reads(own=(LEASES.key(self.caller.tenant, self.lease_id),))

    def _found(self, world: World, verb: str) -> Lease:
        require(world, self.caller, *SETTLERS)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        if not lease.is_in_conflict_at(world.now, self.conflict_id):
            raise LeaseNotActionable(lease.id, lease.state_at(world.now).value, verb)
        return lease


class SettleLease(_LeaseInConflict, frozen=True, kw_only=True):
    """The conflict is settled; the owner goes on, or still waits if it was told to."""

    def decide(self, world: World) -> Lease:
        lease = self._found(world, "be settled")
        state = TRANSITIONS[lease.state, "settle" if lease.suspended_at is None else "settle_suspended"]
        stored = world.put(LEASES, msgspec.structs.replace(lease, state=state, conflict_id=None))
        record(world, self.caller, "settle", stored)
        facts = {
            "resource": lease.resource,
            "lease_id": lease.id,
            "fence": lease.fence,
            "owner": lease.owner,
        }
        announce(world, lease.tenant, "lease.settled", lease.id, facts)
        return stored


class EndLeaseInConflict(_LeaseInConflict, frozen=True, kw_only=True):
    """The owner's work is discarded: the lease ends, and whatever they still write is refused as stale."""

    def decide(self, world: World) -> Lease:
        return end_lease(world, self._found(world, "be ended"), "release", by=self.caller)
