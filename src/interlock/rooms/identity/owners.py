"""Chains of owners: an agent acts for another agent, that one for a person. The whole chain counts as one person.

A principal's record names all owners above it, so one read finds the person behind it. In return, a change of owner
updates everybody below in the same decision. Changes of owners in one tenant are decided one after the other
(`OwnerTree`), so two changes cannot form a ring, and a principal that joins a chain while it changes gets the new
one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.record import Key, Params, Pick, Reads
from interlock.kernel.world import World
from interlock.rooms.identity.model import (
    OWNER_LINKS,
    OWNER_TREES,
    OWNERS_MAX,
    PRINCIPALS,
    OwnerLink,
    OwnerTree,
    Principal,
    keep_name,
    name_reads,
)
from interlock.rooms.identity.refusals import OwnedTooMany, OwnerRing, OwnersTooMany

OWNED_MAX = 1000
_TREE_ID = "owners"


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
