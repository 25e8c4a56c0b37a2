"""What an owner does with a lease under its fence: renew, suspend, resume; and `check` for sinks.

A stale fence is refused in the transaction that would have written, and what it tried is recorded. The API
names the lease's resource, which it has read before; the command checks it against the lease.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.rooms.conflicts.rules import record_repeat, repeat_reads
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, require
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
    LeaseSessionMissing,
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


def record(
    world: World, by: Caller | None, action: str, lease: Lease, *, outcome: str = "done", **details: Any
) -> None:
    """Audit a change of a lease by a caller or by time (`by` is None), or a refusal."""
    note(
        world,
        by or Author(tenant=lease.tenant),
        f"lease_{action}",
        lease.resource,
        outcome=outcome,
        subject_version=lease.version,
        details={"lease_id": lease.id, "fence": lease.fence, "owner": lease.owner, **details},
    )


def find_lease(world: World, tenant: str, lease_id: str, resource: str) -> Lease:
    lease = world.get(LEASES, tenant, lease_id)
    if lease is None or lease.resource != resource:
        raise NotFound("lease", lease_id)
    return lease


def current_lease(
    world: World, caller: Caller, lease_id: str, resource: str, fence: int, *, session: str | None = None
) -> Lease:
    """The caller's lease, if it is live by the clock and this is its fence. `session` None: any of the owner's."""
    lease = find_lease(world, caller.tenant, lease_id, resource)
    if not _holds(world, caller, lease, fence):
        holder = _newest_holder(world, lease)
        raise LeaseFenceStale(
            lease.id,
            state=lease.state_at(world.now).value,
            holder=holder.owner if holder else None,
        )
    if session is None or lease.is_of(session):
        return lease
    if not session:
        raise LeaseSessionMissing(lease.id, lease.session)
    raise LeaseFenceStale(lease.id, state=lease.state.value, holder=lease.owner, session=lease.session)


def stale_lease_reads(
    world: World, caller: Caller, lease_id: str, resource: str, fence: int, *, session: str | None = None
) -> Reads:
    """What a stale fence is recorded in, if this one looks stale; an owner in good standing pays nothing."""
    lease = world.get(LEASES, caller.tenant, lease_id)
    if lease is None or lease.resource != resource:
        return NOTHING
    # A holder that names no session is told so, and nothing is recorded.
    if _holds(world, caller, lease, fence) and (not session or lease.is_of(session)):
        return NOTHING
    return stale_reads(world, caller, lease_id, resource)


def stale_reads(world: World, caller: Caller, lease_id: str, resource: str) -> Reads:
    """The group in which `record_stale_lease` counts, and the current holder of the resource."""
    newest = _newest_id(world, caller.tenant, resource)
    see = (LEASES.key(caller.tenant, newest),) if newest not in (None, lease_id) else ()
    return repeat_reads(_stale(caller, resource)) | Reads(see=see)


def _holds(world: World, caller: Caller, lease: Lease, fence: int) -> bool:
    """Whether the principal holds it under this fence, in whichever session."""
    return lease.owner == caller.principal and lease.fence == fence and lease.is_live_at(world.now)


def fence_at(world: World, lease: Lease) -> int:
    """The newest fence of the lease's resource that is known here; the lease's own is never ahead of it."""
    node = world.get(NODES, lease.tenant, path_of(lease.resource)[0])
    return max(node.fence, lease.fence) if node else lease.fence


def _newest_id(world: World, tenant: str, resource: str) -> str | None:
    node = world.get(NODES, tenant, path_of(resource)[0])
    return node.holders[-1].lease_id if node and node.holders else None


def _newest_holder(world: World, lease: Lease) -> Lease | None:
    """The live lease that took this lease's resource last; the lease itself while it is live.

    A lease that was taken after the first load is not known here, and not named.
    """
    newest = _newest_id(world, lease.tenant, lease.resource)
    if newest is None or not world.knows(LEASES.key(lease.tenant, newest)):
        return None
    found = world.get(LEASES, lease.tenant, newest)
    return found if found and found.is_live_at(world.now) else None


def record_stale_lease(
    world: World, caller: Caller, lease_id: str, resource: str, stale: LeaseFenceStale
) -> None:
    """Audit the use of a fence that is no longer current, and keep the collision for review."""
    lease = find_lease(world, caller.tenant, lease_id, resource)
    record(world, caller, "refused", lease, outcome=type(stale).__name__)
    late = Competing(actor=caller.principal, at=world.now, what="came with a fence that does not hold it")
    stands = _as_it_stands(world, lease)
    affected = Affected(lease=lease.id)
    stale.conflict_id = record_repeat(world, _stale(caller, resource), (stands, late), affected)


def _as_it_stands(world: World, lease: Lease) -> Competing:
    """Who holds the resource and since when; without a holder, how and when the lease ended."""
    holder = _newest_holder(world, lease)
    if holder is not None:
        what = f"{holder.state.value} in session {holder.session}" if holder.session else holder.state.value
        return Competing(actor=holder.owner, at=holder.since, what=what)
    what = lease.state_at(world.now).value
    return Competing(actor=lease.owner, at=lease.ended_at or lease.expires_at, what=what)


def _stale(caller: Caller, resource: str) -> Repeat:
    return Repeat(
        tenant=caller.tenant, kind=ConflictKind.STALE_FENCE, target=resource, actor=caller.principal
    )
