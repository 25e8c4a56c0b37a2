"""Evaluating a policy without blocking the event loop: quick parts at once, slow parts in another process.

A policy of a thousand expressions takes half a second to compile, and one expression may run for seconds on a large
payload. Both can be estimated before: from the length of the text, and from the price of the expressions for a
payload of this size (`cost`). Anything slower than a moment is a `Computation`, which a server runs in another
process.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from interlock.kernel.codec.strict import JsonValue
from interlock.kernel.computation import Computation, TooLong
from interlock.rooms.identity.model import Principal
from interlock.rooms.policy.action import Action, Priority
from interlock.rooms.policy.evaluation import Budget, CompiledPolicy, Evaluation, compiled, evaluate, kept
from interlock.rooms.policy.expressions import EVALUATION_SECONDS
from interlock.rooms.policy.language import Actor, PolicyInput

# A policy this short is compiled in a few milliseconds.
SHORT_BYTES = 4096
# To read and measure a payload of this size takes under a millisecond.
QUICK_PAYLOAD_BYTES = 8192
# Prices are upper bounds on a slow machine: a computation with this price takes a few milliseconds.
QUICK_SECONDS = 0.025

TOO_LONG = (
    f"it took longer than the {EVALUATION_SECONDS:g} s for one evaluation; ask about less, or send less"
)
_BUDGET = Budget()


class Compiling(Computation[CompiledPolicy], frozen=True, kw_only=True):
    """The policy with this snapshot, made ready. The library's programs cannot leave the process."""

    snapshot: str
    document: str

    @property
    def is_portable(self) -> bool:
        return False

    @property
    def weight(self) -> int:
        return len(self.document)

    def key(self) -> Hashable:
        return ("compiled", self.snapshot, self.document)

    def quickly(self) -> CompiledPolicy:
        policy = kept(self.snapshot)
        if policy is None and len(self.document) > SHORT_BYTES:
            raise TooLong
        return policy or self.wholly()

    def wholly(self) -> CompiledPolicy:
        return compiled(self.snapshot, self.document.encode())


class Judging(Computation[Evaluation], frozen=True, kw_only=True):
    """What one policy says of one action; with `explains`, also why earlier rules did not match."""

    snapshot: str
    document: str
    action: Action
    actor: Principal
    priority: Priority
    explains: bool = False

    @property
    def weight(self) -> int:
        return len(self.action.payload)

    def key(self) -> Hashable:
        actor = self.actor
        who = (actor.id, actor.kind.value, actor.groups, _owner(actor))
        asked = "explained" if self.explains else "judged"
        return (asked, self.snapshot, self.action.hash(self.tenant), who, self.priority.value)

    def quickly(self) -> Evaluation:
        policy = kept(self.snapshot)
        if policy is None or not is_quick(policy, self.action):
            raise TooLong
        return evaluate(policy, self._input(policy), budget=_BUDGET, explain=self.explains)

    def wholly(self) -> Evaluation:
        policy = compiled(self.snapshot, self.document.encode())
        return evaluate(policy, self._input(policy), budget=_BUDGET, explain=self.explains)

    def _input(self, policy: CompiledPolicy) -> PolicyInput:
        asked = policy_input if policy.has_expressions(self.action.topic) else bare_input
        return asked(self.tenant, self.action, self.actor, self.priority)


def is_quick(policy: CompiledPolicy, action: Action) -> bool:
    """Whether asking this policy about this action takes no longer than a moment."""
    if not policy.has_expressions(action.topic):
        return True
    size = len(action.payload)
    return size <= QUICK_PAYLOAD_BYTES and policy.seconds_at_most(action.topic, size) <= QUICK_SECONDS


def policy_input(tenant: str, action: Action, actor: Principal, priority: Priority) -> PolicyInput:
    """An action as the policy sees it."""
    return _input(tenant, action, actor, priority, msgspec.json.decode(action.payload))


def bare_input(tenant: str, action: Action, actor: Principal, priority: Priority) -> PolicyInput:
    """An action as the policy sees it, but for its payload, which only expressions ask about."""
    return _input(tenant, action, actor, priority, {})


def _owner(actor: Principal) -> str:
    """The person who answers for it, or nothing."""
    return actor.person if actor.owner else ""


def _input(
    tenant: str, action: Action, actor: Principal, priority: Priority, payload: JsonValue
) -> PolicyInput:
    return PolicyInput(
        tenant=tenant,
        topic=action.topic,
        env=action.env,
        channel=action.channel,
        labels=action.labels,
        risk=action.risk,
        payload=payload,
        priority=priority.value,
        actor=Actor(id=actor.id, kind=actor.kind.value, groups=actor.groups, owner=_owner(actor)),
    )
