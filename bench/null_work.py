"""Answers about leases and effects without a store, for the server that leaves out the kernel and the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.rooms.effects.model import Effect, EffectState, downstream_key
from interlock.rooms.effects.settlement import CommitEffect
from interlock.rooms.jobs.effect_intent import BeginEffect, BegunEffect
from interlock.rooms.leases.acquisition import Acquired, AcquireLease
from interlock.rooms.leases.model import LEASES, Lease, LeaseMode, LeaseState
from interlock.rooms.leases.rules import RenewLease
from interlock.rooms.leases.transfers import ReleaseLease

NOW = datetime.now(UTC)
LATER = NOW + timedelta(hours=1)


def answered(command: Any) -> Any:
    """What the command would return, made of nothing but itself; None if it is not about leases or effects."""
    if isinstance(command, AcquireLease):
        return Acquired(lease=lease_of(command.lease_id or "lse_0", command.resource), predecessor=None)
    if isinstance(command, RenewLease | ReleaseLease):
        return lease_of(command.lease_id, command.resource)
    if isinstance(command, BeginEffect):
        return BegunEffect(effect=_effect(command.action_id, EffectState.IN_PROGRESS), replayed=False)
    if isinstance(command, CommitEffect):
        return _effect(command.action_id, EffectState.COMMITTED)
    return None


class AnyLease:
    """A store in which every lease is there; all else is asked of the real one."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, kind: Any, tenant: str, record_id: str) -> Any:
        if kind is LEASES:
            return lease_of(record_id, "bench")
        return await self._store.get(kind, tenant, record_id)


def lease_of(lease_id: str, resource: str) -> Lease:
    return Lease(
        tenant="default",
        id=lease_id,
        version=1,
        resource=resource,
        mode=LeaseMode.EXCLUSIVE,
        state=LeaseState.LEASED,
        fence=1,
        owner="anyone",
        ttl_seconds=60,
        since=NOW,
        expires_at=LATER,
    )


def _effect(action_id: str, state: EffectState) -> Effect:
    return Effect(
        tenant="default",
        id=action_id,
        version=1,
        uid="eff_0",
        request_hash="sha256:0",
        state=state,
        fence=1,
        downstream_key=downstream_key("default", action_id),
        ttl_seconds=60,
        first_begun_at=NOW,
        begun_at=NOW,
        begun_by="anyone",
        expires_at=LATER,
    )
