"""Who may sign grants, and which tasks need a signed one.

Only an admin registers keys: if a person's own API key were enough, whoever stole it could register a key of
theirs and sign.
"""

from __future__ import annotations

import msgspec

from interlock.grants.keys import fingerprint_of
from interlock.grants.model import GRANT_TERMS, SIGNERS, TERMS_ID, GrantTerms, Signer
from interlock.grants.recording import record
from interlock.grants.refusals import SignerTaken
from interlock.identity.model import PRINCIPALS, Caller, PrincipalKind
from interlock.identity.refusals import NotFound
from interlock.identity.rules import caller_reads, record_people_only, require_administrator
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World


class AddSigner(Command[Signer], frozen=True, kw_only=True):
    """Register a person's public key. Repeating is harmless; a revoked key stays revoked."""

    caller: Caller
    public_key: str
    person: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(SIGNERS.key(tenant, fingerprint_of(self.public_key)),),
            see=(PRINCIPALS.key(tenant, self.person),),
        )

    def decide(self, world: World) -> Signer:
        by = require_administrator(world, self.caller)
        person = world.get(PRINCIPALS, self.caller.tenant, self.person)
        if person is None or person.kind is not PrincipalKind.PERSON:
            raise NotFound("person", self.person)
        fingerprint = fingerprint_of(self.public_key)
        known = world.get(SIGNERS, self.caller.tenant, fingerprint)
        if known is not None:
            return self._same(known)
        record(world, self.caller, "signer_add", self.person, fingerprint=fingerprint)
        signer = Signer(
            tenant=self.caller.tenant,
            id=fingerprint,
            person=self.person,
            public_key=self.public_key,
            added_at=world.now,
            added_by=by.id,
        )
        return world.put(SIGNERS, signer)

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.caller, "signer_add", self.person, refusal)

    def _same(self, known: Signer) -> Signer:
        if known.person != self.person:
            raise SignerTaken(known.id, f"is registered for {known.person}")
        if known.revoked_at is not None:
            raise SignerTaken(known.id, "was revoked and stays revoked")
        return known


class RevokeSigner(Command[Signer], frozen=True, kw_only=True):
    """Stop trusting a key; what is left of grants signed with it can no longer be claimed."""

    caller: Caller
    fingerprint: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(SIGNERS.key(self.caller.tenant, self.fingerprint),))

    def decide(self, world: World) -> Signer:
        by = require_administrator(world, self.caller)
        known = world.get(SIGNERS, self.caller.tenant, self.fingerprint)
        if known is None:
            raise NotFound("signer", self.fingerprint)
        if known.revoked_at is not None:
            return known
        record(world, self.caller, "signer_revoke", known.person, fingerprint=known.id)
        return world.put(SIGNERS, msgspec.structs.replace(known, revoked_at=world.now, revoked_by=by.id))

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.caller, "signer_revoke", self.fingerprint, refusal)


class SetGrantTerms(Command[GrantTerms], frozen=True, kw_only=True):
    """Say which tasks need a signed grant."""

    caller: Caller
    signed_tasks: tuple[str, ...]

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(GRANT_TERMS.key(self.caller.tenant, TERMS_ID),))

    def decide(self, world: World) -> GrantTerms:
        require_administrator(world, self.caller)
        record(world, self.caller, "grant_terms_set", "grants", signed_tasks=list(self.signed_tasks))
        terms = GrantTerms(tenant=self.caller.tenant, id=TERMS_ID, signed_tasks=self.signed_tasks)
        return world.put(GRANT_TERMS, terms)

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.caller, "grant_terms_set", "grants", refusal)
