"""Tenants' principals and their keys.

A principal is a person, an agent, a worker or a service of one tenant. It may have several keys; the
principal, not the key, carries roles and groups. A key is kept only as a digest of its secret.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record


class PrincipalKind(StrEnum):
    PERSON = "person"
    AGENT = "agent"
    WORKER = "worker"
    SERVICE = "service"


class Role(StrEnum):
    SUBMIT = "submit"
    WORK = "work"
    REVIEW = "review"
    OPERATE = "operate"
    AUDIT = "audit"
    ADMIN = "admin"


EVERY_ROLE = tuple(Role)


class Principal(Record, frozen=True, kw_only=True):
    """Who may act. `owner` is the person whom an agent or worker acts for."""

    kind: PrincipalKind
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()
    owner: str | None = None
    created_at: datetime
    keys_live: int = 0
    is_local: bool = False

    @property
    def can_act(self) -> bool:
        """False once the last key is revoked: whoever left no longer counts."""
        return self.is_local or self.keys_live > 0

    @property
    def person(self) -> str:
        """Who this is as a person: two principals of one owner are one person."""
        return self.owner or self.id

    @property
    def people(self) -> frozenset[str]:
        """The names that count as this principal: its own and its owner's."""
        return frozenset({self.id, self.person})


class ApiKey(Record, frozen=True, kw_only=True):
    """One key. Its id is the public part; `digest` is of the secret part."""

    principal: str
    digest: str
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a command. Without a key id it is the embedded store's own user, trusted by the file."""

    tenant: str
    principal: str
    key_id: str | None = None
    key_digest: str = ""
    request_id: str = ""


PRINCIPALS = Kind(
    "principal", Principal, table="principals", columns=("kind",), values=lambda principal: (principal.kind,)
)
API_KEYS = Kind(
    "api_key", ApiKey, table="api_keys", columns=("principal",), values=lambda key: (key.principal,)
)
