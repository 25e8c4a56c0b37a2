"""The keys that sign permits: one ring for the whole deployment, stored as one record.

A key is published before it signs, and stays published until the last permit it signed has expired. So a tool that
refreshes the keys now and then can check every valid permit.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.kernel.record import Kind, Record

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
