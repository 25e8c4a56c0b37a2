"""Commands about leases and grants for the differential test, and effects that need both at once."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.effects.model import EffectTarget, LeaseRef
from interlock.rooms.grants.claims import ClaimGrant
from interlock.rooms.grants.rules import IssueGrant, RevokeGrant
from interlock.rooms.identity.model import Caller
from interlock.rooms.jobs.effect_intent import BeginEffect
from interlock.rooms.leases.acquisition import AcquireLease
from interlock.rooms.leases.model import LEASES, LeaseMode
from interlock.rooms.leases.rules import CheckLease, RenewLease
from interlock.rooms.leases.transfers import Content, HandOffLease, ReleaseLease, SaveCheckpoint

Commands = st.SearchStrategy[Command[Any]]

_callers = st.builds(
    Caller, tenant=st.just("t"), principal=st.sampled_from(["local:mia", "local:tom", "local:mia"])
)
_args = st.sampled_from([msgspec.Raw(b"{}"), msgspec.Raw(b'{"cents":5}')])
# A lease is always on the same thing, so that commands about it find it; two of them exclude each other.
_RESOURCES = {"lse_1": "doc:1", "lse_2": "repo:a/b", "lse_3": "repo:a/**", "lse_4": "doc:1"}
_leases = st.sampled_from(sorted(_RESOURCES))


class Used(Refusal):
    """This id had its lease; a caller gets a fresh one every time."""


class Taking(Command[Any], frozen=True, kw_only=True):
    """Acquire under an id that commands about the lease know, once."""

    caller: Caller
    lease_id: str
    mode: LeaseMode

    def reads(self) -> Reads:
        return self._command.reads() | Reads(see=(LEASES.key(self.caller.tenant, self.lease_id),))

    def more(self, world: World) -> Reads:
        return self._command.more(world)

    def decide(self, world: World) -> Any:
        if world.get(LEASES, self.caller.tenant, self.lease_id) is not None:
            raise Used(self.lease_id)
        return self._command.decide(world)

    def refused(self, world: World, refusal: Refusal) -> None:
        self._command.refused(world, refusal)

    @property
    def _command(self) -> AcquireLease:
        resource = _RESOURCES[self.lease_id]
        return AcquireLease(
            caller=self.caller, lease_id=self.lease_id, resource=resource, mode=self.mode, ttl_seconds=3600
        )


class Owning(Command[Any], frozen=True, kw_only=True):
    """A command by the owner of a lease, with the fence that the lease has, which no test can know; or beside it."""

    made: type[Any]
    caller: Caller
    lease_id: str
    beside: int
    more_fields: dict[str, Any] = {}

    def reads(self) -> Reads:
        return self._command(0).reads()

    def more(self, world: World) -> Reads:
        return self._found(world).more(world)

    def decide(self, world: World) -> Any:
        return self._found(world).decide(world)

    def refused(self, world: World, refusal: Refusal) -> None:
        self._found(world).refused(world, refusal)

    def _found(self, world: World) -> Command[Any]:
        lease = world.get(LEASES, self.caller.tenant, self.lease_id)
        return self._command(lease.fence + self.beside if lease else 0)

    def _command(self, fence: int) -> Command[Any]:
        resource = _RESOURCES[self.lease_id]
        if self.made is BeginEffect:
            ref = LeaseRef(id=self.lease_id, fence=fence, resource=resource)
            return BeginEffect(caller=self.caller, lease=ref, **self.more_fields)
        return self.made(
            caller=self.caller, lease_id=self.lease_id, resource=resource, fence=fence, **self.more_fields
        )


def leases() -> Commands:
    modes = st.sampled_from([LeaseMode.EXCLUSIVE, LeaseMode.EXCLUSIVE, LeaseMode.SHARED])
    acquire = st.builds(Taking, caller=_callers, lease_id=_leases, mode=modes)
    content = Content(done=msgspec.Raw(b"1"))
    return st.one_of(
        acquire,
        acquire,
        _owning(RenewLease),
        _owning(SaveCheckpoint, content=content),
        _owning(ReleaseLease),
        _owning(HandOffLease, to="local:tom"),
        _owning(CheckLease),
    )


def grants() -> Commands:
    ids = st.sampled_from(["gnt_1", "gnt_2", "gnt_3"])
    task = st.just("refund")
    return st.one_of(
        st.builds(IssueGrant, caller=_callers, grant_id=ids, task=task, uses=st.integers(1, 2)),
        st.builds(RevokeGrant, caller=_callers, grant_id=ids, reason=st.just("over")),
        st.builds(
            ClaimGrant, caller=_callers, task=task, args=_args, execution_id=st.sampled_from("xyz"),
            grant_id=st.none() | ids,
        ),
    )  # fmt: skip


def effects_under_both() -> Commands:
    """Effects that need a grant, and some a lease and a target as well."""
    targets = st.none() | st.builds(
        EffectTarget, key=st.sampled_from(["doc:1", "repo:a/b"]), version=st.sampled_from(["v1", "v2"])
    )
    return st.builds(_begin, _callers, st.sampled_from(["pay", "mail"]), targets, _args, st.none() | _leases)


def _begin(
    caller: Caller, action: str, target: EffectTarget | None, args: msgspec.Raw, lease: str | None
) -> Command[Any]:
    claim = ClaimGrant(caller=caller, task="refund", args=args, execution_id=action)
    fields = {"action_id": action, "request_hash": "sha256:one", "target": target, "grant": claim}
    if lease is None:
        return BeginEffect(caller=caller, **fields)  # pyright: ignore[reportArgumentType]
    return Owning(made=BeginEffect, caller=caller, lease_id=lease, beside=0, more_fields=fields)


def _owning(made: type[Any], **fields: Any) -> Commands:
    return st.builds(
        Owning,
        made=st.just(made),
        caller=_callers,
        lease_id=_leases,
        beside=st.sampled_from([0, 0, 0, 1]),
        more_fields=st.just(fields),
    )
