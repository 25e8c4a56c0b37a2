"""The keys that sign permits: one ring for the whole deployment, stored as one record, and how it is rotated.

A key is published before it signs, and stays published until the last permit it signed has expired. So a tool that
refreshes the keys now and then can check every valid permit.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Kind, Reads, Record
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.rules import caller_reads, record_people_only, require_administrator

# Keys belong to no tenant. No tenant's name is empty.
DEPLOYMENT = ""
RING_ID = "permits"


class SigningKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Ed25519 key. `private` is sealed under the deployment's secret if `sealed`, else plain.

    It signs from `signs_from` until the next key does, and is published until `published_until`.
    """

    kid: str
    public: str
    private: str
    sealed: bool = False
    created_at: datetime
    signs_from: datetime
    published_until: datetime | None = None

    def is_published(self, now: datetime) -> bool:
        return self.published_until is None or now < self.published_until


class KeyRing(Record, frozen=True, kw_only=True):
    """Every key that may still be needed, the oldest first."""

    keys: tuple[SigningKey, ...] = ()

    def signing(self, now: datetime) -> SigningKey | None:
        """The key that signs now: the newest that has begun."""
        begun = [key for key in self.keys if key.signs_from <= now and key.is_published(now)]
        return max(begun, key=lambda key: key.signs_from, default=None)

    def published(self, now: datetime) -> tuple[SigningKey, ...]:
        """The keys that a permit in circulation may be signed with, now or soon."""
        return tuple(key for key in self.keys if key.is_published(now))


KEY_RINGS = Kind("permit_keys", KeyRing, table="permit_keys")


# How long after its last signature a key stays published: longer than any lease.
OVERLAP = timedelta(hours=2)
OPERATOR = "operator"
TOPIC = "permit-keys"
_KEYS_MAX = 16

_RING = KEY_RINGS.key(DEPLOYMENT, RING_ID)


class NewSigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key pair just made, outside the rules."""

    kid: str
    public: str
    private: str
    sealed: bool


class EnsureKey(Command[KeyRing], frozen=True, kw_only=True):
    """The ring, with a first key in it if there was none. Of several servers that offer one, one wins."""

    offered: NewSigningKey

    def reads(self) -> Reads:
        return Reads(own=(_RING,))

    def decide(self, world: World) -> KeyRing:
        ring = world.get(KEY_RINGS, DEPLOYMENT, RING_ID)
        if ring is not None and ring.signing(world.now) is not None:
            return ring
        base = ring or KeyRing(tenant=DEPLOYMENT, id=RING_ID)
        return _store(world, base, _key(self.offered, world.now, world.now), None, "permit_key_create")


class RotateKeys(Command[KeyRing], frozen=True, kw_only=True):
    """Publish a new key that signs after `lead_seconds`; old ones stay published while they are needed.

    `revoke` is for a stolen key: the new one signs at once, and all others are no longer published. `by` is
    None for the operator of the store.
    """

    offered: NewSigningKey
    lead_seconds: int = 300
    revoke: bool = False
    tenant: str
    by: Caller | None = None

    def reads(self) -> Reads:
        return Reads(own=(_RING,)) | (caller_reads(self.by) if self.by else Reads())

    def decide(self, world: World) -> KeyRing:
        if self.by:
            require_administrator(world, self.by)
        ring = world.get(KEY_RINGS, DEPLOYMENT, RING_ID) or KeyRing(tenant=DEPLOYMENT, id=RING_ID)
        lead = timedelta(seconds=0 if self.revoke or not ring.keys else self.lead_seconds)
        begins = world.now + lead
        ends = world.now if self.revoke else begins + OVERLAP
        retired = tuple(
            msgspec.structs.replace(key, published_until=min(key.published_until or ends, ends))
            for key in ring.keys
        )
        kept = msgspec.structs.replace(
            ring, keys=tuple(key for key in retired if key.is_published(world.now))
        )
        return _store(world, kept, _key(self.offered, world.now, begins), self, "permit_key_rotate")

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "permit_key_rotate", self.offered.kid, refusal)


def _key(made: NewSigningKey, now: datetime, begins: datetime) -> SigningKey:
    return SigningKey(
        kid=made.kid,
        public=made.public,
        private=made.private,
        sealed=made.sealed,
        created_at=now,
        signs_from=begins,
    )


def _store(world: World, ring: KeyRing, key: SigningKey, rotation: RotateKeys | None, action: str) -> KeyRing:
    keys = (*ring.published(world.now), key)[-_KEYS_MAX:]
    by = rotation.by if rotation else None
    note(
        world,
        Author(
            tenant=rotation.tenant if rotation else DEPLOYMENT,
            principal=by.principal if by else OPERATOR,
            request_id=by.request_id if by else None,
        ),
        action,
        key.kid,
        details={"revoke": rotation.revoke if rotation else False},
    )
    world.wake(TOPIC)
    return world.put(KEY_RINGS, msgspec.structs.replace(ring, keys=keys))
