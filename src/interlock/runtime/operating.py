"""What an operator does on the store itself, with or without a running server: keys and the first policy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from interlock.identity import queries
from interlock.identity.keys import make_key
from interlock.identity.model import EVERY_ROLE, ApiKey, Principal, PrincipalKind, Role
from interlock.identity.refusals import NotFound
from interlock.identity.rules import BootstrapAdmin, IssueKey, RevokeKey
from interlock.policy.parsing import parse_policy
from interlock.policy.rules import ActivatePolicy
from interlock.runtime.service import Service
from interlock.runtime.settings import TENANT_DEFAULT

LIST_MAX = 1000


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


async def list_keys(service: Service, tenant: str = TENANT_DEFAULT) -> list[tuple[ApiKey, Principal]]:
    """A tenant's keys, newest first."""
    found, _ = await queries.list_keys(service.store, tenant, limit=LIST_MAX)
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


async def activate_policy_file(service: Service, path: Path, tenant: str = TENANT_DEFAULT) -> str:
    """Put a policy file in force as the operator; returns its snapshot id. Raises `SourceInvalid`."""
    text = await asyncio.to_thread(path.read_text)
    document = parse_policy(text)
    head = await service.kernel.run(ActivatePolicy.of(document, text, tenant=tenant))
    return head.snapshot
