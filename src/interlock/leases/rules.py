"""What an owner does with a lease: renew, checkpoint, suspend, resume, hand off, release; and `check` for sinks.

A stale fence is refused in the transaction that would have written. The shell names the lease's resource, which
it has read; it is checked against the lease.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import msgspec

from interlock.audit.rules import Note, note
from interlock.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.conflicts.rules import record_repeat, repeat_reads
from interlock.identity.model import Caller, Role
from interlock.identity.refusals import NotFound
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.leases.ending import end_lease
from interlock.leases.model import (
    LEASES,
    NODES,
    NULL,
    TERMS,
    TERMS_ID,
    TRANSITIONS,
    Checkpoint,
    Lease,
    LeaseState,
    LeaseTerms,
    Reservation,
    path_of,
)
from interlock.leases.picks import OverdueLeases
from interlock.leases.refusals import LeaseFenceStale, LeaseNotActionable, ProgressRequired
from interlock.outbox.rules import announce

T = TypeVar("T")

RESERVED_SECONDS = 60


class _OwnLease(Command[T], frozen=True, kw_only=True):
    """A command by the owner of a lease under its fence."""

    caller: Caller
    lease_id: str
    resource: str
    fence: int

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        own = (LEASES.key(tenant, self.lease_id), NODES.key(tenant, path_of(self.resource)[0]))
        return caller_reads(self.caller) | Reads(own=own, see=(TERMS.key(tenant, TERMS_ID),))

    def more(self, world: World) -> Reads:
        return stale_lease_reads(world, self.caller, self.lease_id, self.resource, self.fence)

    def refused(self, world: World, refusal: Refusal) -> None:
        """A stale fence leaves a record: somebody went on working after losing the lease."""
        if isinstance(refusal, LeaseFenceStale):
            record_stale_lease(world, self.caller, self.lease_id, self.resource, self.fence, refusal)

    def _current(self, world: World) -> Lease:
        require(world, self.caller)
        return current_lease(world, self.caller, self.lease_id, self.resource, self.fence)

    def _terms(self, world: World) -> LeaseTerms:
        tenant = self.caller.tenant
        return world.get(TERMS, tenant, TERMS_ID) or LeaseTerms(tenant=tenant, id=TERMS_ID)


class RenewLease(_OwnLease[Lease], frozen=True, kw_only=True):
    """Keep the resource for another period. A conflict found meanwhile is told here."""

    progress: msgspec.Raw = NULL

    def decide(self, world: World) -> Lease:
        lease = self._current(world)
        state = TRANSITIONS.get((lease.state, "renew"))
        if state is None:
            raise LeaseNotActionable(lease.id, lease.state.value, "renew")
        idle = 0 if self.progress != NULL else lease.renewals_without_progress + 1
        patience = self._terms(world).progress_after
        if patience is not None and idle > patience:
            raise ProgressRequired(lease.id, idle - 1)
        renewed = msgspec.structs.replace(
            lease,
            state=state,
            expires_at=world.now + timedelta(seconds=lease.ttl_seconds),
            renewals=lease.renewals + 1,
            renewals_without_progress=idle,
            progress=self.progress if self.progress != NULL else lease.progress,
        )
        return world.put(LEASES, renewed)


class SaveCheckpoint(_OwnLease[Lease], frozen=True, kw_only=True):
    """Record how far the work has come; a successor receives the last one whole. Counts as progress."""

    done: msgspec.Raw
    partial: msgspec.Raw = NULL
    evidence: msgspec.Raw = NULL
    validation: msgspec.Raw = NULL
    open_questions: msgspec.Raw = NULL

    def decide(self, world: World) -> Lease:
        lease = self._current(world)
        saved = Checkpoint(
            number=lease.checkpoint.number + 1 if lease.checkpoint else 1,
            at=world.now,
            by=self.caller.principal,
            done=self.done,
            partial=self.partial,
            evidence=self.evidence,
            validation=self.validation,
            open_questions=self.open_questions,
        )
        facts = {"resource": lease.resource, "number": saved.number, "fence": lease.fence}
        announce(world, lease.tenant, "lease.checkpoint", lease.id, facts)
        return world.put(
            LEASES, msgspec.structs.replace(lease, checkpoint=saved, renewals_without_progress=0)
        )


class SuspendLease(_OwnLease[Lease], frozen=True, kw_only=True):
    """Wait for a person without renewing, up to the tenant's maximum. Waiting is not progress."""

    reason: str

    def decide(self, world: World) -> Lease:
        lease = self._current(world)
        state = TRANSITIONS.get((lease.state, "suspend"))
        if state is None:
            raise LeaseNotActionable(lease.id, lease.state.value, "suspend")
        until = world.now + timedelta(seconds=self._terms(world).suspend_seconds_max)
        return world.put(
            LEASES,
            msgspec.structs.replace(lease, state=state, suspended_for=self.reason, expires_at=until),
        )


class ResumeLease(_OwnLease[Lease], frozen=True, kw_only=True):
    """Go on after a suspension."""

    def decide(self, world: World) -> Lease:
        lease = self._current(world)
        state = TRANSITIONS.get((lease.state, "resume"))
        if state is None:
            raise LeaseNotActionable(lease.id, lease.state.value, "resume")
        if lease.conflict_id is not None:
            state = LeaseState.CONFLICT_DETECTED
        until = world.now + timedelta(seconds=lease.ttl_seconds)
        return world.put(
            LEASES, msgspec.structs.replace(lease, state=state, suspended_for="", expires_at=until)
        )


class HandOffLease(_OwnLease[Lease], frozen=True, kw_only=True):
    """Give the resource up to a named principal, or to whoever comes next, with a checkpoint."""

    to: str | None = None
    done: msgspec.Raw = NULL
    open_questions: msgspec.Raw = NULL

    def decide(self, world: World) -> Lease:
        lease = self._current(world)
        kept = None
        if self.to is not None:
            kept = Reservation(principal=self.to, expires_at=world.now + timedelta(seconds=RESERVED_SECONDS))
        checkpoint = self._checkpoint(world, lease)
        return end_lease(
            world,
            lease,
            "hand_off",
            by=self.caller.principal,
            reserved=kept,
            handed_to=self.to,
            checkpoint=checkpoint,
        )

    def _checkpoint(self, world: World, lease: Lease) -> Checkpoint | None:
        if self.done == NULL:
            return lease.checkpoint
        return Checkpoint(
            number=lease.checkpoint.number + 1 if lease.checkpoint else 1,
            at=world.now,
            by=self.caller.principal,
            done=self.done,
            open_questions=self.open_questions,
        )


class ReleaseLease(_OwnLease[Lease], frozen=True, kw_only=True):
    """Give the resource back. Repeating it changes nothing."""

    def decide(self, world: World) -> Lease:
        require(world, self.caller)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        if lease.state is LeaseState.RELEASED and lease.fence == self.fence:
            return lease
        return end_lease(world, self._current(world), "release", by=self.caller.principal)


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
        own = (LEASES.key(tenant, self.lease_id), NODES.key(tenant, path_of(self.resource)[0]))
        return caller_reads(self.caller) | Reads(own=own)

    def decide(self, world: World) -> Checked:
        require(world, self.caller)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        node = world.get(NODES, self.caller.tenant, path_of(self.resource)[0])
        return Checked(
            current=lease.is_live_at(world.now) and lease.fence == self.fence,
            state=lease.state_at(world.now),
            lease=lease,
            current_fence=node.fence if node else lease.fence,
        )


class SetLeaseTerms(Command[LeaseTerms], frozen=True, kw_only=True):
    """Change what a tenant asks of lease holders."""

    caller: Caller
    ttl_seconds_max: int
    suspend_seconds_max: int
    progress_after: int | None

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(TERMS.key(self.caller.tenant, TERMS_ID),))

    def decide(self, world: World) -> LeaseTerms:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        terms = LeaseTerms(
            tenant=self.caller.tenant,
            id=TERMS_ID,
            ttl_seconds_max=self.ttl_seconds_max,
            suspend_seconds_max=self.suspend_seconds_max,
            progress_after=self.progress_after,
        )
        note(world, Note(tenant=terms.tenant, actor=by.id, action="lease_terms_set", subject="leases"))
        return world.put(TERMS, terms)


class SweepOverdueLeases(Command[int], frozen=True, kw_only=True):
    """End up to `most` leases whose time has run out; returns how many."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OverdueLeases(limit=self.most),))

    def more(self, world: World) -> Reads:
        overdue = world.pick(OverdueLeases(limit=self.most))
        keys = {NODES.key(lease.tenant, path_of(lease.resource)[0]) for lease in overdue}
        return Reads(own=tuple(sorted(keys, key=lambda key: key.rank)))

    def decide(self, world: World) -> int:
        overdue = world.pick(OverdueLeases(limit=self.most))
        for lease in overdue:
            end_lease(world, lease, "expire")
        return len(overdue)


def find_lease(world: World, tenant: str, lease_id: str, resource: str) -> Lease:
    lease = world.get(LEASES, tenant, lease_id)
    if lease is None or lease.resource != resource:
        raise NotFound("lease", lease_id)
    return lease


def current_lease(world: World, caller: Caller, lease_id: str, resource: str, fence: int) -> Lease:
    """The caller's lease, if it is live by the clock and this is its fence."""
    lease = find_lease(world, caller.tenant, lease_id, resource)
    node = world.get(NODES, caller.tenant, path_of(resource)[0])
    if lease.fence != fence or lease.owner != caller.principal or not lease.is_live_at(world.now):
        raise LeaseFenceStale(lease.id, lease.state_at(world.now).value, node.fence if node else lease.fence)
    return lease


def stale_lease_reads(world: World, caller: Caller, lease_id: str, resource: str, fence: int) -> Reads:
    """What a stale fence is recorded in, if this one looks stale; an owner in good standing pays nothing."""
    lease = world.get(LEASES, caller.tenant, lease_id)
    if lease is None or lease.resource != resource:
        return NOTHING
    holds = lease.fence == fence and lease.owner == caller.principal and lease.is_live_at(world.now)
    return NOTHING if holds else repeat_reads(_stale(caller, resource))


def record_stale_lease(
    world: World, caller: Caller, lease_id: str, resource: str, fence: int, stale: LeaseFenceStale
) -> None:
    """Audit that a fence was used after it had lost its meaning, and keep the collision for review."""
    note(
        world,
        Note(
            tenant=caller.tenant,
            actor=caller.principal,
            action="lease_refused",
            subject=resource,
            outcome="LeaseFenceStale",
            request_id=caller.request_id,
            details={"lease_id": lease_id, "fence": fence},
        ),
    )
    lease = find_lease(world, caller.tenant, lease_id, resource)
    late = Competing(actor=caller.principal, at=world.now, what=f"came with fence {fence}")
    stands = Competing(
        actor=lease.owner,
        at=lease.ended_at or lease.expires_at,
        what=f"{lease.state.value}, fence {lease.fence}",
    )
    affected = Affected(lease=lease.id)
    stale.conflict_id = record_repeat(world, _stale(caller, resource), (stands, late), affected)


def _stale(caller: Caller, resource: str) -> Repeat:
    return Repeat(
        tenant=caller.tenant, kind=ConflictKind.STALE_FENCE, target=resource, actor=caller.principal
    )
