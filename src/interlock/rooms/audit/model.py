"""Audit entries: append-only rows, written in the deciding transaction, so that neither exists without the other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from interlock.kernel.record import Kind, Reads, Record, micros
from interlock.kernel.store_state import StoreState
from interlock.kernel.world import Command, World


class AuditEntry(Record, frozen=True, kw_only=True):
    """One thing that happened, or was refused."""

    at: datetime
    actor: str
    action: str
    subject: str
    outcome: str = "done"
    subject_version: int | None = None
    rule: str | None = None
    hash: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = {}


AUDIT = Kind(
    "audit",
    AuditEntry,
    table="audit_entries",
    columns=("at", "actor", "action", "subject"),
    values=lambda entry: (micros(entry.at), entry.actor, entry.action, entry.subject),
)


class StoreNote(Record, frozen=True, kw_only=True):
    """Up to which raise of the epoch and which repair of the clock there are audit entries."""

    epoch: int = 0
    clock_repairs: int = 0


STORE_NOTES = Kind("store_note", StoreNote, table="store_notes")


_NO_DETAILS: Mapping[str, Any] = {}
# A fence lets its reader act, so only its holder is shown it: never in what others read.
_FENCES = frozenset({"fence", "current_fence"})


def without_fences(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as the audit, the events and the webhooks tell them."""
    return {name: fact for name, fact in facts.items() if name not in _FENCES}


class Accountable(Protocol):
    """Who an audit entry names: a caller, or an `Author`."""

    @property
    def tenant(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def request_id(self) -> str | None: ...


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """An author that is not a caller: by default Interlock itself, in a sweep."""

    tenant: str
    principal: str = "interlock"
    request_id: str | None = None


def note(
    world: World,
    by: Accountable,
    action: str,
    subject: str,
    *,
    outcome: str = "done",
    subject_version: int | None = None,
    subject_hash: str | None = None,
    rule: str | None = None,
    details: Mapping[str, Any] = _NO_DETAILS,
) -> None:
    """Write an audit entry with the batch's clock. `outcome` is `done`, or the name of the refusal."""
    entry = AuditEntry(
        tenant=by.tenant,
        id=world.new_id("aud"),
        version=1,
        at=world.now,
        actor=by.principal,
        action=action,
        subject=subject,
        outcome=outcome,
        subject_version=subject_version,
        rule=rule,
        hash=subject_hash,
        request_id=by.request_id,
        details=without_fences(details),
    )
    world.add(AUDIT, entry)


_ID = "state"


class NoteStoreState(Command[StoreState], frozen=True, kw_only=True):
    """Audit the changes of the store's own state. `actor` is the operator who made them, if one did."""

    tenant: str
    actor: str = "system"
    ahead_seconds: float | None = None
    records: int | None = None

    def reads(self) -> Reads:
        return Reads(own=(STORE_NOTES.key(self.tenant, _ID),))

    def decide(self, world: World) -> StoreState:
        state = world.state
        noted = world.get(STORE_NOTES, self.tenant, _ID) or StoreNote(tenant=self.tenant, id=_ID)
        if (noted.epoch, noted.clock_repairs) == (state.epoch, state.clock_repairs):
            return state
        if noted.epoch != state.epoch:
            facts = {"epoch": state.epoch, "fence_floor": state.fence_floor, "why": state.raised_why}
            self._note(world, "fences_raise", facts)
        if noted.clock_repairs != state.clock_repairs:
            facts = {
                "repairs": state.clock_repairs,
                "ahead_seconds": self.ahead_seconds,
                "records": self.records,
            }
            self._note(world, "clock_repair", facts)
        after = StoreNote(tenant=self.tenant, id=_ID, epoch=state.epoch, clock_repairs=state.clock_repairs)
        world.put(STORE_NOTES, after)
        return state

    def _note(self, world: World, action: str, facts: Mapping[str, object]) -> None:
        given = {name: value for name, value in facts.items() if value is not None}
        note(world, Author(tenant=self.tenant, principal=self.actor), action, "store", details=given)
