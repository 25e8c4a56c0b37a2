"""Signatures on grants, and the keys that make them."""

from __future__ import annotations

import base64
import binascii
import hashlib

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.grants.model import (
    GRANT_TERMS,
    SIGNERS,
    TERMS_ID,
    GrantTerms,
    NotAPublicKey,
    Signer,
    SignerTaken,
)
from interlock.rooms.grants.uses import record
from interlock.rooms.identity.model import PRINCIPALS, Caller, PrincipalKind
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, record_people_only, require_administrator

_ALGORITHM = b"ssh-ed25519"
_KEY_BYTES = 32
# What an Ed25519 SubjectPublicKeyInfo (RFC 8410) begins with; the 32 bytes of the key follow.
_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")


def read_public_key(text: str) -> str:
    """The 32 bytes of a key in base64, from an OpenSSH line, a PEM block or base64. Raises `NotAPublicKey`."""
    words = text.split()
    if text.lstrip().startswith("-----BEGIN PUBLIC KEY-----"):
        return _from_spki(_decoded("".join(line for line in text.split("\n") if "-----" not in line)))
    if len(words) > 1 and words[0] != "ssh-ed25519":
        raise NotAPublicKey(f"it begins with {words[0][:40]!r}")
    if not words:
        raise NotAPublicKey("it is empty")
    raw = _decoded(words[1] if len(words) > 1 else words[0])
    if len(raw) == _KEY_BYTES:
        return base64.b64encode(raw).decode()
    return _from_spki(raw) if raw.startswith(_SPKI_PREFIX) else _from_ssh(raw)


def fingerprint_of(public_key: str) -> str:
    """The name of a key, the same as `ssh-keygen -lf` prints."""
    digest = hashlib.sha256(_ssh_blob(base64.b64decode(public_key))).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _ssh_blob(raw: bytes) -> bytes:
    return _field(_ALGORITHM) + _field(raw)


def _field(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _from_ssh(blob: bytes) -> str:
    head = _field(_ALGORITHM) + _KEY_BYTES.to_bytes(4, "big")
    if not blob.startswith(head) or len(blob) != len(head) + _KEY_BYTES:
        raise NotAPublicKey("it is a key of another kind, or cut short")
    return base64.b64encode(blob[len(head) :]).decode()


def _from_spki(der: bytes) -> str:
    if not der.startswith(_SPKI_PREFIX) or len(der) != len(_SPKI_PREFIX) + _KEY_BYTES:
        raise NotAPublicKey("it is a key of another kind, or cut short")
    return base64.b64encode(der[len(_SPKI_PREFIX) :]).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise NotAPublicKey("it is not base64") from None


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
    """Stop trusting a key; open uses of grants signed with it can no longer be claimed."""

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
