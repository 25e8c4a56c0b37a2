"""What the service answers reaches the caller: the SDK's types have every field of the answers that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.inspect import (
    CollectionType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from interlock.api import (
    admission_views,
    approval_views,
    approvals,
    audit,
    conflicts,
    effect_views,
    events,
    grant_views,
    lease_views,
    policy,
    targets,
    views,
    webhook_views,
    workers,
)
from interlock.api import workers as claims
from interlock.sdk import admission_models, approval_models, grant_models, lease_models, models, shared_work
from interlock.sdk.operations import events as event_models

PAIRS: list[tuple[Any, Any]] = [
    (views.JobView, models.Job),
    (claims.ClaimedView, models.Claimed),
    (workers.RenewedView, models.Renewed),
    (approval_views.RequestView, approval_models.ApprovalRequest),
    (approvals.DecidedView, approval_models.Review),
    (approval_views.CommentView, approval_models.Comment),
    (approvals.ApprovalItem, approval_models.ApprovalItem),
    (audit.EntryView, models.AuditEntry),
    (policy.SimulatedView, models.Simulation),
    (admission_views.RunView, models.Run),
    (admission_views.LimitsView, models.Limits),
    (admission_views.ClearedView, admission_models.ClearedLimit),
    (admission_views.StatsView, admission_models.AdmissionStats),
    (lease_views.LeaseView, lease_models.Lease),
    (lease_views.CheckedView, lease_models.CheckedFence),
    (effect_views.EffectView, shared_work.Effect),
    (effect_views.ResultView, shared_work.EffectResult),
    (targets.TargetView, shared_work.TargetState),
    (targets.TouchedManyView, shared_work.TouchedMany),
    (conflicts.ConflictView, shared_work.Conflict),
    (conflicts.PatternsView, shared_work.Patterns),
    (grant_views.GrantView, grant_models.Grant),
    (grant_views.ClaimView, grant_models.GrantClaim),
    (grant_views.SignerView, grant_models.Signer),
    (grant_views.TermsView, grant_models.GrantTerms),
    (events.EventsPage, event_models.EventPage),
    (webhook_views.SecretView, event_models.Webhook),
    (webhook_views.WebhookView, event_models.Webhook),
    (webhook_views.TestView, event_models.WebhookTest),
    (webhook_views.LetterView, event_models.DeadLetter),
    (webhook_views.RelaysView, event_models.Relays),
]


@pytest.mark.parametrize(("answer", "model"), PAIRS, ids=lambda kind: kind.__name__)
def test_a_type_of_the_sdk_has_every_field_of_its_answer(answer: type, model: type) -> None:
    assert list(_lost(type_info(answer), type_info(model), "")) == []


def _lost(answer: Type, model: Type, path: str) -> Iterator[str]:
    """Fields that an answer has at any depth and the model has not."""
    told, kept = _struct_in(answer), _struct_in(model)
    if told is None or kept is None:
        return
    known = {field.encode_name: field.type for field in kept.fields}
    for field in told.fields:
        where = f"{path}.{field.encode_name}"
        if field.encode_name not in known:
            yield where
        else:
            yield from _lost(field.type, known[field.encode_name], where)


def _struct_in(kind: Type) -> StructType | None:
    """The struct that a type is, or holds one or several of."""
    if isinstance(kind, StructType):
        return kind
    if isinstance(kind, CollectionType | msgspec.inspect.VarTupleType):
        return _struct_in(kind.item_type)
    if isinstance(kind, UnionType):
        return next((found for each in kind.types if (found := _struct_in(each)) is not None), None)
    return None
