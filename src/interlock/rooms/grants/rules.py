"""Issue and revoke grants, and mark expired ones. Claiming is in claims.py."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import announce
from interlock.rooms.grants.model import (
    GRANT_TERMS,
    GRANTS,
    SIGNERS,
    TERMS_ID,
    TRANSITIONS,
    BadGrantMoment,
    BadGrantTime,
    BadSignature,
    Grant,
    GrantExists,
    GrantOver,
    GrantState,
    Pin,
    Signature,
    SignatureRequired,
    SpendLimit,
)
from interlock.rooms.grants.uses import (
    OverdueGrants,
    grants_topic,
    misfit_of_signature,
    needs_signature,
    record,
    record_expiry,
    record_refused,
)
from interlock.rooms.identity.model import Caller, Principal, PrincipalKind, Role
from interlock.rooms.identity.refusals import NotFound, PeopleOnly
from interlock.rooms.identity.rules import caller_reads, identify, require

LIFE_MAX = timedelta(days=366)


class IssueGrant(Command[Grant], frozen=True, kw_only=True):
    """A person's permission for a task. With a signature, it must be a good one by a key of that person.

    The id of a signed grant is the nonce that was signed, its `grant_id`; any other is fresh. Sending the same
    signed grant again finds it; a signature is never good for a second one.
    """

    caller: Caller
    grant_id: str | None = None
    task: str
    pins: tuple[Pin, ...] = ()
    limits: tuple[SpendLimit, ...] = ()
    uses: int = 1
    expires_at: datetime | None = None
    expires_seconds: int = 3600
    standing: bool = False
    reason: str = ""
    signature: Signature | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        signer = (SIGNERS.key(tenant, self.signature.signer),) if self.signature else ()
        own = (GRANTS.key(tenant, self.grant_id),) if self.grant_id else ()
        return caller_reads(self.caller) | Reads(own=own, see=(GRANT_TERMS.key(tenant, TERMS_ID), *signer))

    def decide(self, world: World) -> Grant:
        approver = identify(world, self.caller)
        if approver.kind is not PrincipalKind.PERSON:
            raise PeopleOnly(approver.id, approver.kind.value)
        # A standing grant is its issuer's vote, and an admin alone has none.
        require(world, self.caller, *((Role.REVIEW,) if self.standing else (Role.REVIEW, Role.ADMIN)))
        grant = self._grant(world, approver)
        known = world.get(GRANTS, grant.tenant, grant.id) if self.grant_id else None
        if known is not None:
            return _same(world, known, grant)
        self._check(world, grant)
        stored = world.put(GRANTS, grant) if self.grant_id else world.add(GRANTS, grant)
        facts = {"task": stored.task, "uses": stored.uses, "standing": stored.standing}
        signer = self.signature.signer if self.signature else None
        record(world, self.caller, "grant_issue", stored.id, **facts, signer=signer, reason=self.reason)
        announce(world, stored.tenant, "grant.issued", stored.id, facts)
        world.wake(grants_topic(stored.tenant))
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, BadSignature | SignatureRequired | GrantExists | PeopleOnly):
            record_refused(world, self.caller, "grant_issue", self.task, refusal.detail)

    def _check(self, world: World, grant: Grant) -> None:
        if not world.now < grant.expires_at <= world.now + LIFE_MAX:
            refused = BadGrantTime if self.expires_at is None else BadGrantMoment
            raise refused(f"it would end {grant.expires_at.isoformat()}, and now is {world.now.isoformat()}")
        if grant.signature is None:
            if needs_signature(world.get(GRANT_TERMS, grant.tenant, TERMS_ID), grant.task):
                raise SignatureRequired(grant.task)
            return
        why = misfit_of_signature(grant, world.get(SIGNERS, grant.tenant, grant.signature.signer), None)
        if why:
            raise BadSignature(why)

    def _grant(self, world: World, approver: Principal) -> Grant:
        return Grant(
            tenant=self.caller.tenant,
            id=self.grant_id or world.new_id("gnt"),
            task=self.task,
            pins=self.pins,
            limits=self.limits,
            uses=self.uses,
            standing=self.standing,
            approver=approver.id,
            approver_person=approver.person,
            reason=self.reason,
            issued_at=world.now,
            expires_at=self.expires_at or world.now + timedelta(seconds=self.expires_seconds),
            nonce=(self.grant_id or "") if self.signature else "",
            signature=self.signature,
        )


class RevokeGrant(Command[Grant], frozen=True, kw_only=True):
    """Revoke the open uses of a grant. Claimed uses stay claimed, and visible."""

    caller: Caller
    grant_id: str
    reason: str = ""

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(GRANTS.key(self.caller.tenant, self.grant_id),))

    def decide(self, world: World) -> Grant:
        by = require(world, self.caller, Role.REVIEW, Role.OPERATE, Role.ADMIN)
        grant = world.get(GRANTS, self.caller.tenant, self.grant_id)
        if grant is None:
            raise NotFound("grant", self.grant_id)
        if grant.state is GrantState.REVOKED:
            return grant
        state = TRANSITIONS.get((grant.state_at(world.now), "revoke"))
        if state is None:
            raise GrantOver(grant.id, grant.state_at(world.now).value)
        record(world, self.caller, "grant_revoke", grant.id, reason=self.reason, claimed=grant.used)
        announce(world, grant.tenant, "grant.revoked", grant.id, {"task": grant.task})
        return world.put(
            GRANTS, msgspec.structs.replace(grant, state=state, revoked_at=world.now, revoked_by=by.id)
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, GrantOver):
            record_refused(world, self.caller, "grant_revoke", self.grant_id, refusal.detail)


class SweepOverdueGrants(Command[int], frozen=True, kw_only=True):
    """Mark up to `most` grants as expired; returns how many."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OverdueGrants(limit=self.most),))

    def decide(self, world: World) -> int:
        overdue = world.pick(OverdueGrants(limit=self.most))
        for grant in overdue:
            world.put(GRANTS, msgspec.structs.replace(grant, state=TRANSITIONS[grant.state, "expire"]))
            record_expiry(world, grant.tenant, grant.id, grant.uses - grant.used)
            announce(world, grant.tenant, "grant.expired", grant.id, {"task": grant.task})
        return len(overdue)


def _same(world: World, known: Grant, asked: Grant) -> Grant:
    """A signed grant sent again is the one there is; anything else under its id is refused."""
    if known.signature is None or known.signed_terms() != asked.signed_terms():
        raise GrantExists(known.id, known.state_at(world.now).value)
    return known
