"""Beginning an effect: checks everything that must hold before the caller may act, in one decision.

The intent is durable before the caller learns its fence, so if the caller fails after that, there is a record. A
repeat learns what became of the first attempt instead of acting again.

The checks of jobs, leases and targets are imported with the first effect that names one, because `interlock exec`
begins effects that name none, before every action of an agent.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.effects.model import (
    EFFECTS,
    NULL,
    TRANSITIONS,
    TTL_SECONDS_DEFAULT,
    ActionIdReused,
    Effect,
    EffectAmbiguous,
    EffectInProgress,
    EffectOfCall,
    EffectState,
    EffectTarget,
    GrantMissing,
    GrantRef,
    LeaseRef,
    PermitClaims,
    downstream_key,
    job_of_call,
)
from interlock.rooms.effects.settlement import BEGINNERS, record_effect
from interlock.rooms.grants.claims import ClaimGrant, NotClaimed, asks_for_more
from interlock.rooms.grants.model import GRANTS
from interlock.rooms.grants.uses import args_digest
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.rules import caller_reads, require

if TYPE_CHECKING:
    from interlock.rooms.jobs.effect_grounds import HeldLease
    from interlock.rooms.jobs.model import Job


class BegunEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect; `replayed` if it was done before, so that there is nothing to do."""

    effect: Effect
    replayed: bool


class BeginEffect(Command[BegunEffect], frozen=True, kw_only=True):
    """Take the right to carry an action out, once, or learn what became of it.

    The shell has checked the permit's signature; here it is held against the job as it stands now. A `grant` is
    claimed here too, so that no use is consumed for an effect that does not begin.
    """

    caller: Caller
    action_id: str
    request_hash: str
    ttl_seconds: int | float = TTL_SECONDS_DEFAULT
    job_id: str | None = None
    permit: PermitClaims | None = None
    lease: LeaseRef | None = None
    target: EffectTarget | None = None
    grant: ClaimGrant | None = None

    def reads(self) -> Reads:
        own = Reads(own=(EFFECTS.key(self.caller.tenant, self.action_id),))
        claim = _claim_reads(self.grant) if self.grant else NOTHING
        return caller_reads(self.caller) | own | self._conditions() | claim

    def more(self, world: World) -> Reads:
        """The records that a refusal is written to, the target that the job names, and the grants that may fit."""
        doubts = self._doubts(world)
        return doubts | self.grant.more(world) if self.grant else doubts

    def decide(self, world: World) -> BegunEffect:
        require(world, self.caller, *BEGINNERS)
        if (job_id := job_of_call(self.action_id)) is not None:
            raise EffectOfCall(self.action_id, "begin", job_id)
        before = world.get(EFFECTS, self.caller.tenant, self.action_id)
        if before is not None:
            self._check_past(world, before)
            if before.state is EffectState.COMMITTED:
                return BegunEffect(effect=before, replayed=True)
        job, target, lease = self._checked(world)
        grant = _claim_grant(world, self.grant, before) if self.grant else None
        if lease is not None:
            lease.begin_applying(world)
        effect = self._attempt(world, before, job.job_hash if job else None, target, grant)
        stored = world.put(EFFECTS, effect)
        record_effect(world, stored, self.caller, "begin")
        return BegunEffect(effect=stored, replayed=False)

    def refused(self, world: World, refusal: Refusal) -> None:
        from interlock.rooms.jobs.effect_grounds import record_refused_begin

        record_refused_begin(world, self.caller, self.action_id, self.lease, refusal)

    @property
    def _names_nothing(self) -> bool:
        return self.job_id is None and self.lease is None and self.target is None

    def _conditions(self) -> Reads:
        if self._names_nothing:
            return NOTHING
        from interlock.rooms.jobs.effect_grounds import conditions_reads

        # The second load locks grants, then targets: the caller's, and the one that the job names.
        target = None if self.grant or self.job_id else self.target
        return conditions_reads(self.caller.tenant, self.job_id, self.lease, target)

    def _doubts(self, world: World) -> Reads:
        if self._names_nothing:
            return NOTHING
        from interlock.rooms.jobs.effect_grounds import doubts_reads

        return doubts_reads(world, self.caller, self.job_id, self.permit, self.lease, self.target)

    def _checked(self, world: World) -> tuple[Job | None, EffectTarget | None, HeldLease | None]:
        """The job, lease and target that the effect depends on, each checked."""
        if self._names_nothing:
            return None, None, None
        from interlock.rooms.jobs.effect_grounds import check_job, check_lease, check_target

        job = check_job(world, self.caller, self.job_id, self.permit) if self.job_id else None
        target = check_target(world, self.caller, job, self.target)
        return job, target, check_lease(world, self.caller, self.lease, target)

    def _check_past(self, world: World, before: Effect) -> None:
        """Raise unless the last attempt is over and known to have done nothing, or is done."""
        if before.request_hash != self.request_hash:
            raise ActionIdReused(before.id, before.request_hash)
        match before.state_at(world.now):
            case EffectState.IN_PROGRESS:
                left = (before.expires_at - world.now).total_seconds()
                raise EffectInProgress(before.id, before.begun_by, before.expires_at, left)
            case EffectState.AMBIGUOUS:
                raise EffectAmbiguous(
                    before.id, before.begun_by, before.begun_at, before.fence, before.downstream_key
                )
            case EffectState.COMMITTED | EffectState.FAILED:
                return

    def _attempt(
        self,
        world: World,
        before: Effect | None,
        job_hash: str | None,
        target: EffectTarget | None,
        grant: GrantRef | None,
    ) -> Effect:
        return Effect(
            tenant=self.caller.tenant,
            id=self.action_id,
            uid=before.uid if before else world.new_id("eff"),
            request_hash=self.request_hash,
            state=TRANSITIONS[before.state, "begin"] if before else EffectState.IN_PROGRESS,
            fence=world.next_fence(before.fence if before else 0),
            downstream_key=downstream_key(self.caller.tenant, self.action_id),
            ttl_seconds=self.ttl_seconds,
            first_begun_at=before.first_begun_at if before else world.now,
            begun_at=world.now,
            begun_by=self.caller.principal,
            expires_at=world.now + timedelta(seconds=self.ttl_seconds),
            error=before.error if before else NULL,
            job_id=self.job_id,
            job_hash=job_hash,
            lease=self.lease,
            target=target,
            grant=grant or (before.grant if before else None),
        )


def _claim_reads(claim: ClaimGrant) -> Reads:
    """The reads of a claim, grants without locks: the second load locks them, named or found alike."""
    first = claim.reads()
    named = tuple(key for key in first.own if key.kind is GRANTS)
    own = tuple(key for key in first.own if key.kind is not GRANTS)
    return Reads(own=own, see=(*first.see, *named), picks=first.picks)


def _claim_grant(world: World, claim: ClaimGrant, before: Effect | None) -> GrantRef:
    """The use that permits the effect: the one of an attempt before, or one consumed now."""
    known = before.grant if before else None
    digest = args_digest(msgspec.json.decode(claim.args))
    if (
        known is not None
        and (known.task, known.args_digest) == (claim.task, digest)
        and claim.grant_id in (None, known.id)
        and not asks_for_more(claim, known)
    ):
        return known
    use = claim.decide(world)
    if isinstance(use, NotClaimed):
        raise GrantMissing(claim.task, use.reason, execution_id=claim.execution_id, grant_id=claim.grant_id)
    return GrantRef(
        id=use.grant_id,
        task=use.task,
        use=use.use,
        args_digest=use.args_digest,
        signed=use.signed,
        groups=use.groups,
    )
