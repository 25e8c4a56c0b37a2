"""Issue, revoke and claim grants; register who may sign them.

Claiming finds and consumes in one decision, after every check. A claim that does not fit consumes nothing, says
which check failed, and is audited. The oldest fitting grant wins unless one is named; a named grant that does
not fit never falls back to another.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.audit.rules import Note, note
from interlock.codec.canonical import digest
from interlock.grants.fitting import misfit_of_args, misfit_of_signature, value_at
from interlock.grants.model import (
    GRANT_TERMS,
    GRANT_USES,
    GRANTS,
    SIGNERS,
    TERMS_ID,
    TRANSITIONS,
    Grant,
    GrantState,
    GrantTerms,
    GrantUse,
    Pin,
    Signature,
    Signer,
    SpendLimit,
)
from interlock.grants.picks import OpenGrants, OverdueGrants
from interlock.grants.refusals import BadSignature, GrantOver, NotClaimed
from interlock.identity.model import Caller, PrincipalKind, Role
from interlock.identity.refusals import NotFound, PeopleOnly
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.outbox.rules import announce

CANDIDATES_MAX = 50


class IssueGrant(Command[Grant], frozen=True, kw_only=True):
    """A person's permission for a task. With a signature, it must be a good one by a key of that person."""

    caller: Caller
    grant_id: str
    task: str
    pins: tuple[Pin, ...] = ()
    limits: tuple[SpendLimit, ...] = ()
    uses: int = 1
    expires_at: datetime | None = None
    expires_seconds: int = 3600
    standing: bool = False
    reason: str = ""
    nonce: str = ""
    signature: Signature | None = None

    def reads(self) -> Reads:
        signer = (SIGNERS.key(self.caller.tenant, self.signature.signer),) if self.signature else ()
        return caller_reads(self.caller) | Reads(see=signer)

    def decide(self, world: World) -> Grant:
        approver = require(world, self.caller, Role.REVIEW, Role.ADMIN)
        if approver.kind is not PrincipalKind.PERSON:
            raise PeopleOnly(approver.id, approver.kind.value)
        grant = self._grant(world, approver.id)
        if self.signature is not None:
            why = misfit_of_signature(grant, world.get(SIGNERS, grant.tenant, self.signature.signer), None)
            if why:
                raise BadSignature(why)
        stored = world.add(GRANTS, grant)
        _audit(
            world,
            self.caller,
            "grant_issue",
            stored.id,
            task=stored.task,
            uses=stored.uses,
            reason=self.reason,
        )
        announce(world, stored.tenant, "grant.issued", stored.id, {"task": stored.task, "uses": stored.uses})
        world.wake(grants_topic(stored.tenant))
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, BadSignature | PeopleOnly):
            _audit(world, self.caller, "grant_issue_refused", self.task, why=refusal.detail)

    def _grant(self, world: World, approver: str) -> Grant:
        return Grant(
            tenant=self.caller.tenant,
            id=self.grant_id,
            task=self.task,
            pins=self.pins,
            limits=self.limits,
            uses=self.uses,
            standing=self.standing,
            approver=approver,
            reason=self.reason,
            issued_at=world.now,
            expires_at=self.expires_at or world.now + timedelta(seconds=self.expires_seconds),
            nonce=self.nonce,
            signature=self.signature,
        )


class RevokeGrant(Command[Grant], frozen=True, kw_only=True):
    """End what is left of a grant. Uses already claimed stay claimed, and visible."""

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
        _audit(world, self.caller, "grant_revoke", grant.id, reason=self.reason, claimed=grant.used)
        announce(world, grant.tenant, "grant.revoked", grant.id, {"task": grant.task})
        return world.put(
            GRANTS, msgspec.structs.replace(grant, state=state, revoked_at=world.now, revoked_by=by.id)
        )


class ClaimGrant(Command[GrantUse], frozen=True, kw_only=True):
    """Find a fitting grant and consume one use. The same execution id gets the same use again."""

    caller: Caller
    task: str
    args: msgspec.Raw
    execution_id: str
    grant_id: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        own = [GRANT_USES.key(tenant, use_id(self.task, self.execution_id))]
        if self.grant_id is not None:
            own.append(GRANTS.key(tenant, self.grant_id))
        picks = () if self.grant_id is not None else (open_grants(tenant, self.task),)
        return caller_reads(self.caller) | Reads(
            own=tuple(own), see=(GRANT_TERMS.key(tenant, TERMS_ID),), picks=picks
        )

    def more(self, world: World) -> Reads:
        """The keys that the candidates are signed with."""
        signers = {grant.signature.signer for grant in self._candidates(world) if grant.signature}
        return Reads(see=tuple(SIGNERS.key(self.caller.tenant, name) for name in sorted(signers)))

    def decide(self, world: World) -> GrantUse:
        require(world, self.caller, Role.SUBMIT, Role.WORK, Role.OPERATE, Role.ADMIN)
        known = world.get(GRANT_USES, self.caller.tenant, use_id(self.task, self.execution_id))
        if known is not None:
            return known
        args = msgspec.json.decode(self.args)
        misfits: list[str] = []
        for grant in self._candidates(world):
            why = misfit(world, grant, self.task, args)
            if why is None:
                return consume(world, self.caller, grant, args, self.execution_id)
            misfits.append(f"{grant.id}: {why}")
        raise NotClaimed(
            "; ".join(misfits[:5]) or f"no open grant for {self.task}; ask a person to issue one"
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, NotClaimed):
            _audit(
                world, self.caller, "grant_claim_refused", self.grant_id or self.task,
                why=refusal.reason, execution_id=self.execution_id,
            )  # fmt: skip

    def _candidates(self, world: World) -> tuple[Grant, ...]:
        if self.grant_id is None:
            return world.pick(open_grants(self.caller.tenant, self.task))
        named = world.get(GRANTS, self.caller.tenant, self.grant_id)
        if named is None:
            raise NotClaimed(f"there is no grant {self.grant_id}")
        return (named,)


def misfit(world: World, grant: Grant, task: str, args: Any) -> str | None:
    """Which check this grant fails for this task and these arguments; None if it fits."""
    if grant.task != task:
        return f"task: it is for {grant.task}"
    state = grant.state_at(world.now)
    if state is not GrantState.OPEN:
        return f"state: it is {state.value}"
    signer = world.get(SIGNERS, grant.tenant, grant.signature.signer) if grant.signature else None
    unsigned = misfit_of_signature(grant, signer, world.get(GRANT_TERMS, grant.tenant, TERMS_ID))
    return unsigned or misfit_of_args(grant, args)


def consume(world: World, by: Caller, grant: Grant, args: Any, execution_id: str) -> GrantUse:
    """Take one use of a grant that fits."""
    used = grant.used + 1
    verb = "spend" if used == grant.uses else "claim"
    spent = dict(grant.spent)
    for limit in grant.limits:
        spent[limit.path] = spent.get(limit.path, 0) + value_at(args, limit.path)
    world.put(
        GRANTS,
        msgspec.structs.replace(grant, used=used, spent=spent, state=TRANSITIONS[grant.state, verb]),
    )
    use = GrantUse(
        tenant=grant.tenant,
        id=use_id(grant.task, execution_id),
        grant_id=grant.id,
        task=grant.task,
        execution_id=execution_id,
        use=used,
        fence=used,
        claimed_by=by.principal,
        claimed_at=world.now,
        args_digest=digest("grant-args/v1", args),
    )
    _audit(world, by, "grant_claim", grant.id, use=used, execution_id=execution_id)
    announce(world, grant.tenant, "grant.claimed", grant.id, {"task": grant.task, "use": used})
    return world.put(GRANT_USES, use)


class AddSigner(Command[Signer], frozen=True, kw_only=True):
    """Register a person's public key. A person adds their own; an admin may add anyone's."""

    caller: Caller
    fingerprint: str
    public_key: str
    person: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(SIGNERS.key(self.caller.tenant, self.fingerprint),))

    def decide(self, world: World) -> Signer:
        by = require(world, self.caller, Role.ADMIN)
        known = world.get(SIGNERS, self.caller.tenant, self.fingerprint)
        if known is not None:
            return known
        _audit(world, self.caller, "signer_add", self.person, fingerprint=self.fingerprint)
        return world.put(
            SIGNERS,
            Signer(
                tenant=self.caller.tenant,
                id=self.fingerprint,
                person=self.person,
                public_key=self.public_key,
                added_at=world.now,
                added_by=by.id,
            ),
        )


class RevokeSigner(Command[Signer], frozen=True, kw_only=True):
    """Stop trusting a key; grants signed with it can no longer be claimed."""

    caller: Caller
    fingerprint: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(SIGNERS.key(self.caller.tenant, self.fingerprint),))

    def decide(self, world: World) -> Signer:
        require(world, self.caller, Role.ADMIN)
        known = world.get(SIGNERS, self.caller.tenant, self.fingerprint)
        if known is None:
            raise NotFound("signer", self.fingerprint)
        if known.revoked_at is not None:
            return known
        _audit(world, self.caller, "signer_revoke", known.person, fingerprint=known.id)
        return world.put(SIGNERS, msgspec.structs.replace(known, revoked_at=world.now))


class SetGrantTerms(Command[GrantTerms], frozen=True, kw_only=True):
    """Say which tasks need a signed grant."""

    caller: Caller
    signed_tasks: tuple[str, ...]

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(GRANT_TERMS.key(self.caller.tenant, TERMS_ID),))

    def decide(self, world: World) -> GrantTerms:
        require(world, self.caller, Role.ADMIN)
        _audit(world, self.caller, "grant_terms_set", "grants", signed_tasks=list(self.signed_tasks))
        terms = GrantTerms(tenant=self.caller.tenant, id=TERMS_ID, signed_tasks=self.signed_tasks)
        return world.put(GRANT_TERMS, terms)


class SweepOverdueGrants(Command[int], frozen=True, kw_only=True):
    """Mark up to `most` grants as expired; returns how many."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OverdueGrants(limit=self.most),))

    def decide(self, world: World) -> int:
        overdue = world.pick(OverdueGrants(limit=self.most))
        for grant in overdue:
            world.put(GRANTS, msgspec.structs.replace(grant, state=TRANSITIONS[grant.state, "expire"]))
            announce(world, grant.tenant, "grant.expired", grant.id, {"task": grant.task})
        return len(overdue)


def use_id(task: str, execution_id: str) -> str:
    """Where the answer to an execution id is kept."""
    return hashlib.sha256(f"{task}\0{execution_id}".encode()).hexdigest()


def open_grants(tenant: str, task: str, *, standing: bool = False) -> OpenGrants:
    return OpenGrants(tenant=tenant, task=task, standing=standing, limit=CANDIDATES_MAX)


def grants_topic(tenant: str) -> str:
    """What somebody who waits for a grant listens on."""
    return f"grants:{tenant}"


def _audit(world: World, by: Caller, action: str, subject: str, **details: Any) -> None:
    note(
        world,
        Note(
            tenant=by.tenant,
            actor=by.principal,
            action=action,
            subject=subject,
            outcome="refused" if action.endswith("_refused") else "done",
            request_id=by.request_id,
            details={name: value for name, value in details.items() if value},
        ),
    )
