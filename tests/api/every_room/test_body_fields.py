"""What bodies in `wire/` repeat of the rooms, since `wire/` imports nothing of ours, says the same as the rooms do."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from msgspec import inspect

from interlock.rooms.conflicts.model import Resolution
from interlock.rooms.effects.model import TTL_SECONDS_DEFAULT, Outcome
from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.rooms.jobs.model import Executor
from interlock.rooms.leases.model import LeaseMode
from interlock.rooms.policy.action import Priority
from interlock.rooms.workflows.model import StepKind
from interlock.wire.effects import BeginEffectBody, ResolveEffectBody
from interlock.wire.fields import Body
from interlock.wire.identity import IssueKeyBody, SetPrincipalBody
from interlock.wire.jobs import ClaimJobBody, ClaimJobsBody, ReconcileJobBody, SubmitBody
from interlock.wire.leases import AcquireLeaseBody
from interlock.wire.policy import ActorBody
from interlock.wire.shared import ResolveConflictBody
from interlock.wire.workflows import StepBody


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (SubmitBody, "priority", Priority),
        (SubmitBody, "executor", Executor),
        (ResolveEffectBody, "outcome", Outcome),
        (ReconcileJobBody, "outcome", Outcome),
        (ResolveConflictBody, "resolution", Resolution),
        (StepBody, "kind", StepKind),
        (IssueKeyBody, "kind", PrincipalKind),
        (IssueKeyBody, "roles", Role),
        (SetPrincipalBody, "roles", Role),
        (ActorBody, "kind", PrincipalKind),
        (AcquireLeaseBody, "mode", LeaseMode),
    ],
)
def test_a_body_takes_the_words_of_its_room(body: type[Body], field: str, words: type[StrEnum]) -> None:
    assert _words(_field(body, field).type) == {word.value for word in words}


def test_every_role_can_be_given_at_once() -> None:
    roles: Any = _field(IssueKeyBody, "roles").type
    assert roles.max_length == len(Role)


@pytest.mark.parametrize("body", [ClaimJobsBody, ClaimJobBody])
def test_a_claim_is_held_for_half_a_minute_or_up_to_an_hour(body: type[Body]) -> None:
    field = _field(body, "lease_seconds")
    kinds: Any = field.type
    assert field.default == 30
    assert {kind.le for kind in kinds.types} == {3600}


def test_a_claim_takes_a_hundred_jobs_at_most() -> None:
    most: Any = _field(ClaimJobsBody, "max").type
    assert most.le == 100


def test_an_effect_lasts_as_long_as_the_room_says() -> None:
    assert _field(BeginEffectBody, "ttl_seconds").default == TTL_SECONDS_DEFAULT


def _field(body: type[Body], name: str) -> inspect.Field:
    kind = inspect.type_info(body)
    assert isinstance(kind, inspect.StructType)
    return next(field for field in kind.fields if field.name == name)


def _words(kind: Any) -> set[str]:
    match kind:
        case inspect.Metadata():
            return _words(kind.type)
        case inspect.LiteralType():
            return {str(value) for value in kind.values}
        case inspect.ListType():
            return _words(kind.item_type)
        case inspect.UnionType():
            return {word for inner in kind.types for word in _words(inner)}
        case _:
            return set()
