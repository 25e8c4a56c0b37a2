"""What an operator does directly at the store: keys, the policy, fences and the clock."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from interlock.kernel.store_state import Repaired, StoreState
from interlock.rooms.audit.model import NoteStoreState
from interlock.rooms.identity import queries
from interlock.rooms.identity.keys import make_key
from interlock.rooms.identity.model import EVERY_ROLE, PRINCIPALS, ApiKey, Principal, PrincipalKind, Role
from interlock.rooms.identity.principals import BootstrapAdmin, IssueKey, RevokeKey
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.policy.parser import parse_policy
from interlock.rooms.policy.queries import read_head
from interlock.rooms.policy.rules import ActivatePolicy
from interlock.service.local_kernel import local_user
from interlock.service.service import Service
from interlock.service.sessions import MadeLink, make_local_link
from interlock.service.settings import TENANT_DEFAULT, Settings

LIST_MAX = 1000


class Greeting(NamedTuple):
    """What a server shows once when it starts: the key of a first admin, and a link for the person at the machine."""

    admin: IssuedKey | None = None
    sign_in: MadeLink | None = None


class IssuedKey(NamedTuple):
    """A key just made; `key` is shown once."""

    principal: Principal
    key: str
    key_id: str


async def issue_key(
    service: Service,
    name: str,
    *,
    kind: PrincipalKind,
    roles: tuple[Role, ...],
    groups: tuple[str, ...] | None = None,
    owner: str | None = None,
    tenant: str = TENANT_DEFAULT,
) -> IssuedKey:
    """Give a principal one more key, creating it (and its tenant) if it is new."""
    key = make_key()
    command = IssueKey(
        tenant=tenant,
        name=name,
        kind=kind,
        roles=roles,
        groups=groups,
        owner=owner,
        key_id=key.id,
        digest=key.digest,
    )
    return IssuedKey(await service.kernel.run(command), key.text, key.id)


async def list_keys(
    service: Service, tenant: str = TENANT_DEFAULT, *, principal: str | None = None
) -> list[tuple[ApiKey, Principal]]:
    """A tenant's keys, or those of one principal, newest first."""
    if principal is None:
        found, _ = await queries.list_keys(service.store, tenant, limit=LIST_MAX)
        return found
    known = await service.store.get(PRINCIPALS, tenant, principal)
    if known is None:
        return []
    found, _ = await queries.list_keys_of(service.store, known, limit=LIST_MAX)
    return found


async def revoke_key(service: Service, key_id: str) -> ApiKey:
    """End a key by its public id."""
    found = await queries.find_key(service.store, key_id)
    if found is None:
        raise NotFound("key", key_id)
    key, principal = found
    return await service.kernel.run(RevokeKey(tenant=key.tenant, key_id=key.id, principal=principal.id))


async def bootstrap(service: Service) -> IssuedKey | None:
    """On a store without any key, one admin key; None if there is a key already."""
    if await queries.has_any_key(service.store):
        return None
    key = make_key()
    command = BootstrapAdmin(tenant=TENANT_DEFAULT, roles=EVERY_ROLE, key_id=key.id, digest=key.digest)
    admin = await service.kernel.run(command)
    return IssuedKey(admin, key.text, key.id) if admin else None


async def greet(service: Service) -> Greeting:
    """What this server shows once: on an empty store an admin key, and on a local server a sign-in link."""
    admin = await bootstrap(service)
    return Greeting(admin, await make_local_link(service) if _is_local(service.settings) else None)


def _is_local(settings: Settings) -> bool:
    """Whether only this machine can reach the server, so that it may print a sign-in link: no network, no proxy."""
    if settings.uds or settings.trusted_proxies or settings.root_path:
        return False
    try:
        return settings.host == "localhost" or ip_address(settings.host).is_loopback
    except ValueError:
        return False


async def activate_policy_file(service: Service, path: Path) -> str:
    """Put a policy file in force as the operator; returns its snapshot id. Raises `SourceInvalid`."""
    text = await asyncio.to_thread(path.read_text)
    document = parse_policy(text)
    head = await service.kernel.run(ActivatePolicy.of(document, text, tenant=TENANT_DEFAULT))
    return head.snapshot


async def activate_first_policy_file(service: Service, path: Path) -> str | None:
    """Put a policy file in force if none is; returns its snapshot id. Raises `SourceInvalid`."""
    if await read_head(service.store, TENANT_DEFAULT) is not None:
        return None
    return await activate_policy_file(service, path)


class NothingToRepair(Exception):
    """The clock of this store is not kept in it."""


async def raise_fences(service: Service, why: str) -> StoreState:
    """Begin another epoch: fences from now on are greater than all before."""
    await service.store.raise_epoch(why)
    return await service.kernel.run(NoteStoreState(tenant=TENANT_DEFAULT, actor=_operator()))


async def repair_clock(service: Service, *, only_look: bool) -> Repaired | None:
    """Set the store's clock back to this machine's; None if it is not ahead."""
    from interlock.store.sqlite import SqliteStore

    if not isinstance(service.store, SqliteStore):
        raise NothingToRepair(
            "only a SQLite store keeps its clock; on PostgreSQL the clock of the database's machine counts: "
            "set that right, and time in the store is right at once"
        )
    repaired = await service.store.repair_clock(only_look=only_look)
    if repaired is not None and not only_look:
        seconds = round(repaired.ahead.total_seconds(), 3)
        command = NoteStoreState(
            tenant=TENANT_DEFAULT, actor=_operator(), ahead_seconds=seconds, records=repaired.records
        )
        await service.kernel.run(command)
    return repaired


def _operator() -> str:
    return f"local:{local_user()}"
