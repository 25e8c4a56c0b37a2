"""Principals of tenants, their keys, and the sessions and sign-in links of people.

A principal is a person, an agent, a worker or a service of one tenant. It may have several keys; roles and groups
belong to the principal, not to the key. Keys and the secrets of sessions and links are stored only as digests.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

import msgspec

from interlock.kernel.record import Kind, Reads, Record, micros
from interlock.kernel.world import World
from interlock.rooms.identity.refusals import NameTaken, NameUnreadable


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
# How many owners a principal has at most: its own, that one's, and so on to the end.
OWNERS_MAX = 8


class Principal(Record, frozen=True, kw_only=True):
    """Who may act. `owner` is whom it acts for; `owners` is everybody above it, the nearest first.

    `owners` is kept up to date by commands that change an owner further up (`rooms/identity/principals.py`), so that
    one record says which person a principal is. `provider` is the identity provider that vouches for a person, and
    `subject` is how that provider names them: the two belong to this principal for good.
    """

    kind: PrincipalKind
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()
    owner: str | None = None
    owners: tuple[str, ...] = ()
    created_at: datetime
    keys_live: int = 0
    is_local: bool = False
    provider: str | None = None
    subject: str | None = None

    @property
    def can_act(self) -> bool:
        """False once the last key is revoked: a person who left no longer counts.

        The embedded store's own person and those whom an identity provider vouches for need no key.
        """
        return self.is_local or self.keys_live > 0 or self.provider is not None

    @property
    def person(self) -> str:
        """Who this is as a person: the end of its chain of owners, all of which is one person."""
        return self.owners[-1] if self.owners else self.id

    @property
    def people(self) -> frozenset[str]:
        """The names that count as this principal: its own and those of all its owners."""
        return frozenset((self.id, *self.owners))


class PrincipalName(Record, frozen=True, kw_only=True):
    """How a name is spelled in a tenant, for ever. The id is what all its spellings have in common (`folded`).

    The account of an identity provider has a record too (`account_id`): which principal it is, whatever name the
    provider gives it later. Otherwise a person who changes their name there would be two people here.
    """

    name: str


class OwnerTree(Record, frozen=True, kw_only=True):
    """A command that changes an owner locks this record first, so two changes cannot make a cycle together."""

    changes: int = 0


class OwnerLink(Record, frozen=True, kw_only=True):
    """That `owner` is somewhere above `owned`: how all principals below an owner are found."""

    owned: str
    owner: str


class ApiKey(Record, frozen=True, kw_only=True):
    """One key. Its id is the public part; `digest` is of the secret part."""

    principal: str
    digest: str
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None


class Session(Record, frozen=True, kw_only=True):
    """A person who signed in to the console, until they sign out or are idle or signed in for too long.

    `by` is how they signed in: "key", "link" or "oidc:<provider>". `key_id` is the API key behind it, if there is one:
    once that is revoked, the session has ended. `roles` are those that the person had at sign-in.
    """

    principal: str
    digest: str
    by: str
    roles: tuple[Role, ...] = ()
    key_id: str | None = None
    client: str | None = None
    user_agent: str = ""
    opened_at: datetime
    seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None


class SignInLink(Record, frozen=True, kw_only=True):
    """A link with which a person signs in once. `key_id` is the API key with which it was made, if there is one."""

    principal: str
    digest: str
    key_id: str | None = None
    made_at: datetime
    expires_at: datetime
    used_at: datetime | None = None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a command. Without a key or a session it is the embedded store's own user, trusted by the file.

    With a session, `key_digest` is of the session's secret, and `key_id` is the API key behind the session, if any.
    `services_may_administer` is the setting of the server that was asked. `via` is where they said it: in a program
    of theirs, on a command line, or in the console.
    """

    tenant: str
    principal: str
    key_id: str | None = None
    key_digest: str = ""
    session_id: str | None = None
    request_id: str = ""
    services_may_administer: bool = False
    via: str = "api"


PRINCIPALS = Kind(
    "principal", Principal, table="principals", columns=("kind",), values=lambda principal: (principal.kind,)
)
PRINCIPAL_NAMES = Kind("principal_name", PrincipalName, table="principal_names")
# Called so because a store locks by the names of kinds: before any principal.
OWNER_TREES = Kind("owner_tree", OwnerTree, table="owner_trees")
OWNER_LINKS = Kind(
    "owner_link", OwnerLink, table="owner_links", columns=("owner",), values=lambda link: (link.owner,)
)
API_KEYS = Kind(
    "api_key", ApiKey, table="api_keys", columns=("principal",), values=lambda key: (key.principal,)
)
SESSIONS = Kind(
    "session",
    Session,
    table="sessions",
    columns=("principal", "key_id", "expires_at"),
    values=lambda session: (session.principal, session.key_id, micros(session.expires_at)),
)
SIGN_IN_LINKS = Kind(
    "sign_in_link",
    SignInLink,
    table="sign_in_links",
    columns=("expires_at",),
    values=lambda link: (micros(link.expires_at),),
)


# Letters and marks to Unicode that no font shows: fillers, joiners and what chooses between two forms of a letter.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for code in (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """What all spellings of a name have in common, in whatever case and form its characters are."""
    if name.isascii():
        return name.lower()
    once = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", once).casefold()


def all_folded(names: Iterable[str]) -> frozenset[str]:
    """Names as they are compared."""
    return frozenset(map(folded, names))


def account_id(provider: str, subject: str) -> str:
    """The id of the record that says which principal an account of a provider is. No name has a slash in it."""
    return f"account/{provider}/{hashlib.sha256(subject.encode()).hexdigest()}"


def name_reads(tenant: str, name: str) -> Reads:
    """What `keep_name` decides on."""
    return Reads(own=(PRINCIPAL_NAMES.key(tenant, folded(name)),), see=(PRINCIPALS.key(tenant, name),))


def keep_name(world: World, tenant: str, name: str) -> None:
    """Keep this spelling of the name, or refuse it because another one is kept.

    Principals that existed under both spellings before names were kept remain valid.
    """
    kept = world.get(PRINCIPAL_NAMES, tenant, folded(name))
    if kept is not None and kept.name == name:
        return
    if world.get(PRINCIPALS, tenant, name) is not None:
        return
    _check_readable(name)
    if kept is not None:
        raise NameTaken(name, kept.name)
    world.put(PRINCIPAL_NAMES, PrincipalName(tenant=tenant, id=folded(name), name=name))


def _check_readable(name: str) -> None:
    """Nothing in a name is unseen, turns what stands beside it, or ends a line. Systems have users with spaces."""
    seen = (
        each == " " or (unicodedata.category(each)[0] not in "CZ" and each not in _UNSEEN) for each in name
    )
    if not name.strip() or not all(seen):
        raise NameUnreadable(name)
