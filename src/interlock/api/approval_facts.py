"""What the page of a request shows besides the request: its viewers, who may act on it, and why people were asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from interlock.api.calls import Asked, caller_of
from interlock.api.problems import code_of
from interlock.kernel.codec.located import SourceInvalid
from interlock.kernel.world import World
from interlock.rooms.jobs import queries
from interlock.rooms.jobs.audience import Audience
from interlock.rooms.jobs.model import Approval, ApprovalState, Job
from interlock.rooms.jobs.queries import Abilities
from interlock.rooms.policy.evaluation import SnapshotAltered
from interlock.rooms.policy.expressions import ExpressionFailed
from interlock.wire import approvals as wire

_ELIGIBLE_SHOWN = 20
# The roles that the routes of edit and refresh let through.
ASKERS = ("submit", "review", "operate", "admin")


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out for one page."""

    viewers: tuple[wire.Viewer, ...]
    able: tuple[str, ...] | None
    you: wire.You
    escalations: tuple[wire.RequestEscalation, ...]
    takers: tuple[str, ...]
    rules: tuple[wire.RuleAsked, ...]
    submitted_for: str | None = None
    next_escalation: wire.RequestEscalation | None = None

    @property
    def eligible(self) -> tuple[str, ...]:
        """As many names as a page has room for."""
        return (self.able or ())[:_ELIGIBLE_SHOWN]


async def read_facts(call: Asked[Any, Any], world: World, job: Job, approval: Approval) -> RequestFacts:
    """Everything about a request that is not in it. `world` is that of the request, and learns of people."""
    store, now = call.services.store, call.services.now()
    audience = await queries.read_audience(store, job)
    able = await queries.list_people_able(store, world, job, approval)
    found = await queries.read_abilities(store, now, caller_of(call), job, approval)
    steps = _escalations_view(approval, now)
    is_waiting = approval.state_at(now) is ApprovalState.PENDING
    return RequestFacts(
        viewers=viewers_view(audience, now).viewers,
        able=able,
        you=_you_view(found, call.caller.roles),
        escalations=steps,
        next_escalation=next((step for step in steps if not step.happened), None) if is_waiting else None,
        takers=await queries.read_takers(store, job),
        rules=await _rules(call, world, job, approval),
        submitted_for=queries.submitted_for(world, job),
    )


def viewers_view(audience: Audience, now: datetime) -> wire.Viewers:
    """Who opened a request, and who is there now."""
    return wire.Viewers(
        viewers=tuple(
            wire.Viewer(
                principal=each.principal,
                first_at=each.first_at,
                last_at=each.last_at,
                here=each.is_here_at(now),
            )
            for each in audience.viewers
        )
    )


def _you_view(found: Abilities, roles: Sequence[str]) -> wire.You:
    may_ask_again = not set(ASKERS).isdisjoint(roles)
    return wire.You(
        may_decide=found.why_not is None,
        why_not=code_of(found.why_not) if found.why_not else None,
        voted=found.voted,
        may_withdraw=found.may_withdraw,
        may_edit=found.may_edit and may_ask_again,
        may_refresh=found.may_refresh and may_ask_again,
    )


def _escalations_view(approval: Approval, now: datetime) -> tuple[wire.RequestEscalation, ...]:
    return tuple(
        wire.RequestEscalation(at=each.at, groups=each.step.groups, happened=each.happened)
        for each in queries.escalations(approval, now)
    )


async def _rules(
    call: Asked[Any, Any], world: World, job: Job, approval: Approval
) -> tuple[wire.RuleAsked, ...]:
    """Why the policy asked, if that can still be found out: a page is shown without it, too."""
    judging = await queries.read_judging(call.services.store, world, job, approval)
    if judging is None:
        return ()
    judgements = call.services.judgements
    try:
        said = await judgements.answered(lambda: judgements.compute(judging))
    except (ExpressionFailed, SnapshotAltered, SourceInvalid):
        return ()
    found = queries.rules_asked(said, job, approval)
    return tuple(wire.RuleAsked(id=each.id, matched=each.matched, why=each.why) for each in found)
