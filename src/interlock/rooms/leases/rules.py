"""What an owner does with a lease: renew, suspend, resume; and `check` for sinks.

A stale fence is refused in the transaction that would have written. The API names the lease's resource, which it has
read before; the command checks it against the lease.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.leases.fences import (
    current_lease,
    fence_at,
    find_lease,
    record,
    record_stale_lease,
    stale_lease_reads,
)
from interlock.rooms.leases.model import (
    LEASES,
    NODES,
    NULL,
    TERMS,
    TERMS_ID,
    TRANSITIONS,
    CheckpointTooLarge,
    Lease,
    LeaseFenceStale,
    LeaseNotActionable,
    LeaseState,
    LeaseTerms,
    ProgressRequired,
    path_of,
)

T = TypeVar("T")

PROGRESS_BYTES_MAX = 16 * 1024


class OwnLease(Command[T], frozen=True, kw_only=True):
    """A command by the owner of a lease under its fence. A lease of a session is that session's alone."""

    caller: Caller
    lease_id: str
    resource: str
    fence: int
    session: str = ""

    def reads(self) -> Reads:
        # The node is only read, for the message: an owner must not wait for callers that want its lease.
        tenant = self.caller.tenant
        node, terms = NODES.key(tenant, path_of(self.resource)[0]), TERMS.key(tenant, TERMS_ID)
        own = (LEASES.key(tenant, self.lease_id),)
        return caller_reads(self.caller) | Reads(own=own, see=(node, terms))

    def more(self, world: World) -> Reads:
        return stale_lease_reads(
            world, self.caller, self.lease_id, self.resource, self.fence, session=self.session
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        """A stale fence leaves a record: a holder went on working after losing the lease."""
        if isinstance(refusal, LeaseFenceStale):
            record_stale_lease(world, self.caller, self.lease_id, self.resource, refusal)

    def current(self, world: World) -> Lease:
        """The lease, if the caller holds it."""
        require(world, self.caller)
        return current_lease(
            world, self.caller, self.lease_id, self.resource, self.fence, session=self.session
        )

    def terms(self, world: World) -> LeaseTerms:
        tenant = self.caller.tenant
        return world.get(TERMS, tenant, TERMS_ID) or LeaseTerms(tenant=tenant, id=TERMS_ID)


class RenewLease(OwnLease[Lease], frozen=True, kw_only=True):
    """Keep the resource for another period. The answer shows a conflict that was found meanwhile.

    Repeating the same progress is no progress.
    """

    progress: msgspec.Raw = NULL

    def decide(self, world: World) -> Lease:
        lease = self.current(world)
        if len(bytes(self.progress)) > PROGRESS_BYTES_MAX:
            raise CheckpointTooLarge(len(bytes(self.progress)), PROGRESS_BYTES_MAX)
        state = _next_state(lease, "renew")
        until = world.now + timedelta(seconds=lease.ttl_seconds)
        if lease.state is LeaseState.WAITING_ON_REVIEW:
            return _still_waiting(lease, until)
        idle = 0 if self._is_progress(lease) else lease.renewals_without_progress + 1
        patience = self.terms(world).progress_after
        if patience is not None and idle > patience:
            raise ProgressRequired(lease.id, idle - 1)
        renewed = msgspec.structs.replace(
            lease,
            state=state,
            expires_at=until,
            renewals=lease.renewals + 1,
            renewals_without_progress=idle,
            progress=self.progress if self.progress != NULL else lease.progress,
        )
        return world.put(LEASES, _awake(renewed, world.now))

    def _is_progress(self, lease: Lease) -> bool:
        return self.progress not in (NULL, lease.progress)


class SuspendLease(OwnLease[Lease], frozen=True, kw_only=True):
    """Wait for a person without renewing, in total up to the tenant's maximum. Waiting is not progress."""

    reason: str

    def decide(self, world: World) -> Lease:
        # The resource may have been touched meanwhile; the wait before that counts too.
        lease = _awake(self.current(world), world.now)
        state = _next_state(lease, "suspend")
        left = self.terms(world).suspend_seconds_max - lease.suspended_seconds
        if left <= 0:
            raise LeaseNotActionable(lease.id, "suspended for as long as it may be", "suspend again")
        stored = world.put(
            LEASES,
            msgspec.structs.replace(
                lease,
                state=state,
                suspended_for=self.reason,
                suspended_at=world.now,
                expires_at=world.now + timedelta(seconds=left),
            ),
        )
        record(world, self.caller, "suspend", stored, reason=self.reason)
        return stored


class ResumeLease(OwnLease[Lease], frozen=True, kw_only=True):
    """Go on after a suspension."""

    def decide(self, world: World) -> Lease:
        lease = self.current(world)
        state = TRANSITIONS.get((lease.state, "resume_in_conflict" if lease.conflict_id else "resume"))
        if state is None or lease.suspended_at is None:
            raise LeaseNotActionable(lease.id, lease.state.value, "resume")
        stored = world.put(LEASES, going_on(msgspec.structs.replace(lease, state=state), world.now))
        record(world, self.caller, "resume", stored)
        return stored


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a fence is current, for a sink that is about to write."""

    current: bool
    state: LeaseState
    lease: Lease
    current_fence: int


class CheckLease(Command[Checked], frozen=True, kw_only=True):
    """Tell a sink whether a fence is current, by the store's clock and in order with every other decision."""

    caller: Caller
    lease_id: str
    resource: str
    fence: int

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        node = NODES.key(tenant, path_of(self.resource)[0])
        return caller_reads(self.caller) | Reads(own=(LEASES.key(tenant, self.lease_id),), see=(node,))

    def decide(self, world: World) -> Checked:
        require(world, self.caller)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        return Checked(
            current=lease.is_live_at(world.now) and lease.fence == self.fence,
            state=lease.state_at(world.now),
            lease=lease,
            current_fence=fence_at(world, lease),
        )


def _next_state(lease: Lease, verb: str) -> LeaseState:
    state = TRANSITIONS.get((lease.state, verb))
    if state is None:
        raise LeaseNotActionable(lease.id, lease.state.value, verb)
    return state


def _still_waiting(lease: Lease, until: datetime) -> Lease:
    """A holder that renews while it waits for review keeps the lease; it gains no time by it."""
    if lease.expires_at < until:
        raise LeaseNotActionable(
            lease.id, "at the end of the time it may wait", "renew; resume or release it"
        )
    return lease


def going_on(lease: Lease, now: datetime) -> Lease:
    """A lease whose owner acts again: if it was suspended, it gets its ordinary length back."""
    if lease.suspended_at is None:
        return lease
    until = now + timedelta(seconds=lease.ttl_seconds)
    return msgspec.structs.replace(_awake(lease, now), expires_at=until)


def _awake(lease: Lease, now: datetime) -> Lease:
    if lease.suspended_at is None:
        return lease
    waited = (now - lease.suspended_at).total_seconds()
    return msgspec.structs.replace(
        lease,
        suspended_for="",
        suspended_at=None,
        suspended_seconds=lease.suspended_seconds + max(0.0, waited),
    )
