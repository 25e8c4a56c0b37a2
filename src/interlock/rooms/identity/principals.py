"""Principals and their API keys: create, change and remove them; and the chains of their owners.

An agent acts for another agent, that one for a person. The whole chain counts as one person. A principal's record
names all owners above it, so one read finds the person behind it. In return, a change of owner updates every
principal below it in the same decision. Changes of owners in one tenant are decided one after the other (`OwnerTree`),
so two changes cannot form a ring, and a principal that joins a chain while it changes gets the new one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.record import NOTHING, Key, Params, Pick, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.identity.model import (
    API_KEYS,
    EVERY_ROLE,
    OWNER_LINKS,
    OWNER_TREES,
    OWNERS_MAX,
    PRINCIPALS,
    ApiKey,
    Caller,
    OwnerLink,
    OwnerTree,
    Principal,
    PrincipalKind,
    Role,
    keep_name,
    name_reads,
)
from interlock.rooms.identity.refusals import (
    KeysLive,
    KindMismatch,
    NotFound,
    OwnedTooMany,
    OwnerRing,
    OwnersTooMany,
)
from interlock.rooms.identity.rules import KEYS_TOPIC, caller_reads, record_people_only, require_administrator

OWNED_MAX = 1000
_TREE_ID = "owners"


class IssueKey(Command[Principal], frozen=True, kw_only=True):
    """Give a principal one more key, creating it if it is new.

    On a principal that exists, the given roles replace its roles; groups and owner only if given.
    `by` is the admin who asks, or None when the operator works on the store itself.
    """

    tenant: str
    name: str
    kind: PrincipalKind
    roles: tuple[Role, ...]
    groups: tuple[str, ...] | None = None
    owner: str | None = None
    key_id: str
    digest: str
    by: Caller | None = None

    def reads(self) -> Reads:
        own = (PRINCIPALS.key(self.tenant, self.name), API_KEYS.key(self.tenant, self.key_id))
        named = Reads(own=own) | name_reads(self.tenant, self.name)
        owner = owner_reads(self.tenant, self.name, self.owner) if self.owner else NOTHING
        return named | owner | _author_reads(self.by)

    def more(self, world: World) -> Reads:
        return owner_more(world, self.tenant, self.name, self.owner) if self.owner else NOTHING

    def decide(self, world: World) -> Principal:
        author = _author(world, self.by)
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is not None and before.kind is not self.kind:
            raise KindMismatch(self.name, before.kind.value)
        keep_name(world, self.tenant, self.name)
        stored = world.put(PRINCIPALS, self._principal(world, before))
        world.put(
            API_KEYS,
            ApiKey(
                tenant=self.tenant,
                id=self.key_id,
                principal=self.name,
                digest=self.digest,
                created_at=world.now,
                created_by=author,
            ),
        )
        _record(world, stored, author, self.by, "key_issue", key_id=self.key_id)
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "key_issue", self.name, refusal)

    def _principal(self, world: World, before: Principal | None) -> Principal:
        base = before or Principal(tenant=self.tenant, id=self.name, kind=self.kind, created_at=world.now)
        given = msgspec.structs.replace(
            base,
            roles=self.roles,
            groups=base.groups if self.groups is None else self.groups,
            keys_live=base.keys_live + 1,
        )
        return moved_under(world, given, self.owner) if self.owner else given


class RevokeKey(Command[ApiKey], frozen=True, kw_only=True):
    """End a key for good. Repeating it changes nothing."""

    tenant: str
    key_id: str
    principal: str
    by: Caller | None = None

    def reads(self) -> Reads:
        own = (API_KEYS.key(self.tenant, self.key_id), PRINCIPALS.key(self.tenant, self.principal))
        return Reads(own=own) | _author_reads(self.by)

    def decide(self, world: World) -> ApiKey:
        author = _author(world, self.by)
        key = world.get(API_KEYS, self.tenant, self.key_id)
        principal = world.get(PRINCIPALS, self.tenant, self.principal)
        if key is None or principal is None or key.principal != principal.id:
            raise NotFound("key", self.key_id)
        if key.revoked_at is not None:
            return key
        left = max(0, principal.keys_live - 1)
        stored = world.put(PRINCIPALS, msgspec.structs.replace(principal, keys_live=left))
        _record(world, stored, author, self.by, "key_revoke", key_id=key.id)
        return world.put(API_KEYS, msgspec.structs.replace(key, revoked_at=world.now))

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "key_revoke", self.principal, refusal)


class SetPrincipal(Command[Principal], frozen=True, kw_only=True):
    """Change what an existing principal may do. What is not given stays."""

    tenant: str
    name: str
    roles: tuple[Role, ...] | None = None
    groups: tuple[str, ...] | None = None
    owner: str | None = None
    by: Caller | None = None

    def reads(self) -> Reads:
        own = Reads(own=(PRINCIPALS.key(self.tenant, self.name),))
        owner = owner_reads(self.tenant, self.name, self.owner) if self.owner else NOTHING
        return own | owner | _author_reads(self.by)

    def more(self, world: World) -> Reads:
        return owner_more(world, self.tenant, self.name, self.owner) if self.owner else NOTHING

    def decide(self, world: World) -> Principal:
        author = _author(world, self.by)
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is None:
            raise NotFound("principal", self.name)
        after = msgspec.structs.replace(
            before,
            roles=before.roles if self.roles is None else self.roles,
            groups=before.groups if self.groups is None else self.groups,
        )
        stored = world.put(PRINCIPALS, moved_under(world, after, self.owner) if self.owner else after)
        _record(world, stored, author, self.by, "principal_set")
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "principal_set", self.name, refusal)


class RemovePrincipal(Command[Principal], frozen=True, kw_only=True):
    """Forget a principal that can no longer act. What it did stays on record under its name.

    Principals that act for it still do: the chain of owners ends with this name.
    """

    tenant: str
    name: str
    by: Caller | None = None

    def reads(self) -> Reads:
        own = Reads(own=(PRINCIPALS.key(self.tenant, self.name),))
        return own | owner_reads(self.tenant, self.name, None) | _author_reads(self.by)

    def more(self, world: World) -> Reads:
        return owner_more(world, self.tenant, self.name, None)

    def decide(self, world: World) -> Principal:
        author = _author(world, self.by)
        principal = world.get(PRINCIPALS, self.tenant, self.name)
        if principal is None or principal.is_local:
            raise NotFound("principal", self.name)
        if principal.keys_live:
            raise KeysLive(principal.id, principal.keys_live)
        moved_under(world, principal, None)
        world.delete(PRINCIPALS, principal)
        _record(world, principal, author, self.by, "principal_remove")
        return principal

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "principal_remove", self.name, refusal)


class EnsureLocalPerson(Command[Principal], frozen=True, kw_only=True):
    """The embedded store's own user: a person with every role, made on first use."""

    tenant: str
    name: str

    def reads(self) -> Reads:
        return Reads(own=(PRINCIPALS.key(self.tenant, self.name),)) | name_reads(self.tenant, self.name)

    def decide(self, world: World) -> Principal:
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is not None:
            return before
        keep_name(world, self.tenant, self.name)
        person = Principal(
            tenant=self.tenant,
            id=self.name,
            kind=PrincipalKind.PERSON,
            roles=EVERY_ROLE,
            created_at=world.now,
            is_local=True,
        )
        return world.put(PRINCIPALS, person)


class BootstrapAdmin(Command[Principal | None], frozen=True, kw_only=True):
    """The first key of an empty store; None if another server was quicker."""

    tenant: str
    roles: tuple[Role, ...]
    key_id: str
    digest: str
    name: str = "admin"

    def reads(self) -> Reads:
        return self._issue().reads()

    def decide(self, world: World) -> Principal | None:
        if world.get(PRINCIPALS, self.tenant, self.name) is not None:
            return None
        return self._issue().decide(world)

    def _issue(self) -> IssueKey:
        return IssueKey(
            tenant=self.tenant,
            name=self.name,
            kind=PrincipalKind.PERSON,
            roles=self.roles,
            key_id=self.key_id,
            digest=self.digest,
        )


def _author(world: World, by: Caller | None) -> str:
    return require_administrator(world, by).id if by else "operator"


def _author_reads(by: Caller | None) -> Reads:
    return caller_reads(by) if by else Reads()


def _record(
    world: World, stored: Principal, author: str, by: Caller | None, action: str, **details: str
) -> None:
    """Audit a change of a principal, and tell every server, so that none goes by what it remembers."""
    facts = {"roles": [role.value for role in stored.roles], "groups": list(stored.groups)}
    note(
        world,
        Author(tenant=stored.tenant, principal=author, request_id=by.request_id if by else None),
        action,
        stored.id,
        subject_version=stored.version,
        details={**facts, "owner": stored.owner, "keys_live": stored.keys_live, **details},
    )
    world.wake(KEYS_TOPIC)


class LinksBelow(Pick[OwnerLink], frozen=True, kw_only=True):
    """Every principal that acts for an owner, through however many others."""

    kind = OWNER_LINKS
    query = "identity.links_below"

    tenant: str
    owner: str
    limit: int = OWNED_MAX + 1
    own: bool = False

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "owner": self.owner}

    def matches(self, record: OwnerLink, now: datetime) -> bool:
        return record.tenant == self.tenant and record.owner == self.owner

    def sort_key(self, record: OwnerLink) -> Any:
        return record.id


def owner_reads(tenant: str, name: str, owner: str | None) -> Reads:
    """What `moved_under` needs first: the tree, the new owner, and who is below. The command owns the principal."""
    own: tuple[Key, ...] = (OWNER_TREES.key(tenant, _TREE_ID),)
    reads = Reads(own=own, picks=(LinksBelow(tenant=tenant, owner=name),))
    if owner is None:
        return reads
    return reads | name_reads(tenant, owner) | Reads(own=(PRINCIPALS.key(tenant, owner),))


def owner_more(world: World, tenant: str, name: str, owner: str | None) -> Reads:
    """Everybody below, to change them too, and the links to what is above them now and was before."""
    below = [link.owned for link in world.pick(LinksBelow(tenant=tenant, owner=name))]
    before = world.get(PRINCIPALS, tenant, name)
    above = {*(before.owners if before else ()), *_chain(world, tenant, owner)}
    links = (OWNER_LINKS.key(tenant, _link_id(each, one)) for each in (name, *below) for one in sorted(above))
    return Reads(own=(*(PRINCIPALS.key(tenant, each) for each in below), *links))


def moved_under(world: World, principal: Principal, owner: str | None) -> Principal:
    """The principal with this owner, to be stored by the caller; everybody below it is moved along."""
    tenant, name = principal.tenant, principal.id
    if owner is not None:
        keep_name(world, tenant, owner)
    chain = _chain(world, tenant, owner)
    moved = msgspec.structs.replace(principal, owner=owner, owners=chain)
    if chain == principal.owners:
        return moved
    if name in chain:
        raise OwnerRing(name, chain)
    below = world.pick(LinksBelow(tenant=tenant, owner=name))
    if len(below) > OWNED_MAX:
        raise OwnedTooMany(name, OWNED_MAX)
    _relink(world, principal, name, chain)
    for link in below:
        _move_along(world, principal, link.owned, chain)
    _check_length(name, chain)
    tree = world.get(OWNER_TREES, tenant, _TREE_ID) or OwnerTree(tenant=tenant, id=_TREE_ID)
    world.put(OWNER_TREES, msgspec.structs.replace(tree, changes=tree.changes + 1))
    return moved


def _move_along(world: World, moved: Principal, owned: str, chain: tuple[str, ...]) -> None:
    """Give a principal below the moved one the new end of its chain, whether or not it is still here."""
    _relink(world, moved, owned, chain)
    known = world.get(PRINCIPALS, moved.tenant, owned)
    if known is None or moved.id not in known.owners:
        return
    kept = known.owners[: known.owners.index(moved.id) + 1]
    _check_length(owned, (*kept, *chain))
    world.put(PRINCIPALS, msgspec.structs.replace(known, owners=(*kept, *chain)))


def _relink(world: World, moved: Principal, owned: str, chain: tuple[str, ...]) -> None:
    """Link a principal to the owners in the moved one's new chain, and no more to those of the old one."""
    tenant = moved.tenant
    for name in moved.owners:
        link = world.get(OWNER_LINKS, tenant, _link_id(owned, name))
        if link is not None and name not in chain:
            world.delete(OWNER_LINKS, link)
    for name in chain:
        link_id = _link_id(owned, name)
        if world.get(OWNER_LINKS, tenant, link_id) is None:
            world.put(OWNER_LINKS, OwnerLink(tenant=tenant, id=link_id, owned=owned, owner=name))


def _chain(world: World, tenant: str, owner: str | None) -> tuple[str, ...]:
    """An owner, and everybody above it. An owner that is not a principal here has nobody above."""
    if owner is None:
        return ()
    known = world.get(PRINCIPALS, tenant, owner)
    return (owner, *known.owners) if known else (owner,)


def _check_length(name: str, chain: tuple[str, ...]) -> None:
    if len(chain) > OWNERS_MAX:
        raise OwnersTooMany(name, len(chain), OWNERS_MAX)


def _link_id(owned: str, owner: str) -> str:
    # The length says where the first name ends, whatever stands in them.
    return f"{len(owned)}:{owned}:{owner}"
