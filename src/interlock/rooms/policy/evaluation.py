"""Evaluates a policy on a job, with the reason.

The first rule whose `when` and `if` both hold decides; if none does, the default decides. Evaluation reads no clock
and changes nothing. It fails closed: an expression that fails on the request (a missing field, a wrong type) denies
it, and one that could exceed the budget raises `OverBudget`. No later rule is tried after either.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import msgspec

from interlock.kernel.codec.strict import JsonValue
from interlock.rooms.policy.action import Action, Failure
from interlock.rooms.policy.cost import ASK_SECONDS
from interlock.rooms.policy.expressions import (
    EVALUATION_SECONDS,
    ExpressionFailed,
    Facts,
    OverBudget,
    Program,
    compile_expression,
)
from interlock.rooms.policy.facts import UNIT, Extent, TooDear, Unanswered
from interlock.rooms.policy.language import (
    Actor,
    ApprovalRequirement,
    Decision,
    PolicyDocument,
    PolicyInput,
    Rule,
    Throttle,
    snapshot_id,
)
from interlock.rooms.policy.matching import conditions_of, topic_mismatch, topics_test
from interlock.rooms.policy.parser import parse_policy
from interlock.rooms.policy.refusals import failed_on, matched

COMPILED_MAX = 64
_TOPICS_KEPT_MAX = 1024
# What labels, risks, groups and names weigh beside the payload.
_BESIDE_BYTES = 4096


class SnapshotAltered(ValueError):
    """The policy stored under a snapshot's id was altered; nothing may be decided by it."""


class CompiledRule:
    """A rule with its patterns and its expression made ready."""

    def __init__(self, rule: Rule) -> None:
        """Compile one rule of a document that was parsed."""
        self.rule = rule
        self.id = rule.id
        self.program: Program | None = None if rule.if_ is None else compile_expression(rule.if_)
        self.matches_topic = topics_test(rule.when.topic)
        self._rest = conditions_of(rule.when)

    def applies(self, request: PolicyInput) -> bool:
        """Whether everything in `when` beside the topic holds."""
        return all(condition.holds(request) for condition in self._rest)

    def why_not(self, request: PolicyInput) -> str | None:
        """The first part of `when` that does not hold, in words; None if all of it does."""
        if not self.matches_topic(request.topic):
            return topic_mismatch(self.rule.when.topic, request.topic)
        return next((each.why_not(request) for each in self._rest if not each.holds(request)), None)


class CompiledPolicy:
    """A document made ready. It remembers which rules a topic leaves to try."""

    def __init__(self, document: PolicyDocument) -> None:
        """Compile every rule."""
        self.document = document
        self.rules = tuple(CompiledRule(rule) for rule in document.rules)
        # Nothing else needs to be shown to the expressions.
        self.names = frozenset[str]().union(*(rule.program.names for rule in self.rules if rule.program))
        self._by_topic: dict[str, tuple[CompiledRule, ...]] = {}
        self._prices: dict[tuple[str, int], float] = {}

    def candidates(self, topic: str) -> tuple[CompiledRule, ...]:
        """The rules whose topic matches, in order."""
        known = self._by_topic.get(topic)
        if known is None:
            if len(self._by_topic) >= _TOPICS_KEPT_MAX:
                self._by_topic.clear()
            known = tuple(rule for rule in self.rules if rule.matches_topic(topic))
            self._by_topic[topic] = known
        return known

    def has_expressions(self, topic: str) -> bool:
        """Whether any rule for this topic may ask about the payload."""
        return self.seconds_at_most(topic, 0) > 0

    def seconds_at_most(self, topic: str, payload_bytes: int) -> float:
        """How long the expressions for this topic can take on a payload of this size, without starting them."""
        bits = payload_bytes.bit_length()
        known = self._prices.get((topic, bits))
        if known is None:
            if len(self._prices) >= _TOPICS_KEPT_MAX:
                self._prices.clear()
            extent = _extent_at_most(1 << bits)
            programs = [rule.program for rule in self.candidates(topic) if rule.program is not None]
            known = sum((program.roughly(extent) - ASK_SECONDS for program in programs), 0.0)
            self._prices[topic, bits] = known
        return known


def _extent_at_most(payload_bytes: int) -> Extent:
    """What JSON of this length cannot exceed: a value takes two bytes at least, and one character may count as four."""
    text = 4 * payload_bytes + _BESIDE_BYTES
    return Extent(total=UNIT * payload_bytes + text, text=text, width=payload_bytes // 2 + 64)


def compile_policy(document: PolicyDocument) -> CompiledPolicy:
    """Make a document ready to be asked."""
    return CompiledPolicy(document)


_kept: OrderedDict[str, CompiledPolicy] = OrderedDict()
_keeping = Lock()


def kept(snapshot: str) -> CompiledPolicy | None:
    """The policy with this id, if it is among the last ones used."""
    with _keeping:
        if snapshot not in _kept:
            return None
        _kept.move_to_end(snapshot)
        return _kept[snapshot]


def compiled(snapshot: str, canonical: bytes) -> CompiledPolicy:
    """The policy with this id, compiled the first time and kept while it is among the last ones used."""
    known = kept(snapshot)
    if known is not None:
        return known
    if snapshot_id(canonical) != snapshot:
        raise SnapshotAltered(
            f"the stored text of {snapshot} is not what was activated; activate the policy again"
        )
    policy = compile_policy(parse_policy(canonical, syntax="json"))
    with _keeping:
        _kept[snapshot] = policy
        while len(_kept) > COMPILED_MAX:
            _kept.popitem(last=False)
    return policy


__all__ = [
    "Actor",
    "Budget",
    "Charge",
    "CompiledPolicy",
    "Evaluation",
    "ExpressionFailed",
    "Missed",
    "OverBudget",
    "PolicyInput",
    "SnapshotAltered",
    "compile_policy",
    "compiled",
    "evaluate",
    "past_throttle",
    "possible_charges",
    "same_requirement",
]

_KEY_SHOWN_MAX = 120


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How long one evaluation may take in all.

    With a clock, an expression is begun only if the time left covers the most that it could take. Without
    one, what the expressions could take is added up instead, so that the same job gets the same answer on
    every machine and in every replay; rules that must not read a clock use it so.
    """

    seconds: float = EVALUATION_SECONDS
    clock: Callable[[], float] | None = None


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was tried before the one that decided, and why it did not match."""

    rule: str
    why: str


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """Which bucket a throttle takes its token from. The id is stable, and unique within a tenant."""

    bucket_id: str
    throttle: Throttle


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says. `rule` is None where the default decided.

    `decision: throttle` without `throttle` always throttles. With it, the caller takes a token from that
    bucket (`buckets.take`): if there is one the decision is `then` (`past_throttle`), else it throttles.
    `approval` says what people must do where the decision, or `then`, is to ask them. `failure` says why the rule's
    expression could not be answered; the decision is then to deny, whatever the rule says.
    """

    decision: Decision
    rule: str | None
    reason: str
    approval: ApprovalRequirement | None = None
    throttle: Charge | None = None
    then: Decision | None = None
    trail: tuple[Missed, ...] = ()
    failure: Failure | None = None


def evaluate(
    policy: CompiledPolicy, request: PolicyInput, *, budget: Budget, explain: bool = False
) -> Evaluation:
    """Ask the policy about a job. `explain` adds every earlier rule with the reason it did not match.

    Raises `OverBudget` where that cannot be found out in time.
    """
    asking = _Asking(policy, request, budget)
    trail: list[Missed] = []
    try:
        decided = _explained(policy, request, asking, trail) if explain else _asked(policy, request, asking)
    except OverBudget:
        raise
    except ExpressionFailed as failed:
        decided = _denied(failed)
    return msgspec.structs.replace(decided, trail=tuple(trail)) if explain else decided


def _asked(policy: CompiledPolicy, request: PolicyInput, asking: _Asking) -> Evaluation:
    for rule in policy.candidates(request.topic):
        if rule.applies(request) and (rule.program is None or asking.holds(rule, rule.program)):
            return _decided(rule, request)
    return _by_default(policy)


def possible_charges(policy: CompiledPolicy, request: PolicyInput) -> tuple[Charge, ...]:
    """Every bucket that a job like this may have to draw from, whatever the rules' expressions say of its payload."""
    return tuple(
        _charge(rule.id, rule.rule.throttle, request)
        for rule in policy.candidates(request.topic)
        if rule.rule.throttle is not None and rule.applies(request)
    )


def past_throttle(evaluation: Evaluation) -> Evaluation:
    """The decision once a token was taken: `then`. Without a bucket, it stays as it is."""
    if evaluation.then is None:
        return evaluation
    return msgspec.structs.replace(evaluation, decision=evaluation.then, then=None, throttle=None)


def same_requirement(before: Evaluation, after: Evaluation) -> bool:
    """Whether both ask the same of people: the same decision by the same rule, with the same approval.

    A throttle with a bucket counts as what follows it: how full the bucket is says nothing about the job.
    """
    first, second = past_throttle(before), past_throttle(after)
    return (first.decision, first.rule, first.approval) == (second.decision, second.rule, second.approval)


class _Asking:
    """One evaluation: its facts, gathered when first needed, and how much of its budget is left."""

    def __init__(self, policy: CompiledPolicy, request: PolicyInput, budget: Budget) -> None:
        self._names = policy.names
        self._request = request
        self._clock = budget.clock
        self._seconds = budget.seconds
        self._begun = budget.clock() if budget.clock else 0.0
        self._spent = 0.0
        self._facts: Facts | None = None

    def holds(self, rule: CompiledRule, program: Program) -> bool:
        try:
            if self._facts is None:
                self._facts = Facts({name: _FACTS[name](self._request) for name in self._names})
            self._require_time(program, self._facts)
            return program.holds(self._facts)
        except TooDear as dear:
            raise OverBudget(rule=rule.id, expression=program.text, why=str(dear)) from None
        except Unanswered as unanswered:
            why, field = str(unanswered), unanswered.field
            raise ExpressionFailed(rule=rule.id, expression=program.text, why=why, field=field) from None

    def _require_time(self, program: Program, facts: Facts) -> None:
        spent = self._spent if self._clock is None else self._clock() - self._begun
        left = self._seconds - spent
        needed = program.seconds_at_most(facts, left=left)
        self._spent = spent + needed
        if needed > left:
            raise TooDear(
                f"it could take {needed:.1f} s on a job of this size, more than is left of the"
                f" {self._seconds:g} s for one evaluation; ask about less, or send less"
            )


def _actor(request: PolicyInput) -> JsonValue:
    actor = request.actor
    return {"id": actor.id, "kind": actor.kind, "groups": list(actor.groups), "owner": actor.owner}


_FACTS: dict[str, Callable[[PolicyInput], JsonValue]] = {
    "topic": lambda request: request.topic,
    "env": lambda request: request.env,
    "channel": lambda request: request.channel,
    "labels": lambda request: dict[str, JsonValue](request.labels),
    "risk": lambda request: list[JsonValue](request.risk),
    "payload": lambda request: request.payload,
    "actor": _actor,
    "tenant": lambda request: request.tenant,
    "priority": lambda request: request.priority,
}


def _explained(
    policy: CompiledPolicy, request: PolicyInput, asking: _Asking, trail: list[Missed]
) -> Evaluation:
    for rule in policy.rules:
        why = rule.why_not(request)
        if why is None and rule.program is not None and not asking.holds(rule, rule.program):
            why = f"if: {rule.program.text} was false"
        if why is None:
            return _decided(rule, request)
        trail.append(Missed(rule=rule.id, why=why))
    return _by_default(policy)


def _denied(failed: ExpressionFailed) -> Evaluation:
    """A request about which a rule cannot be asked is denied: what it lacks must not let it past that rule."""
    return Evaluation(
        decision=Decision.DENY,
        rule=failed.rule,
        reason=failed_on(failed.expression, failed.why),
        failure=Failure(expression=failed.expression, why=failed.why, field=failed.field),
    )


def _decided(rule: CompiledRule, request: PolicyInput) -> Evaluation:
    said = rule.rule
    return Evaluation(
        decision=said.decision,
        rule=said.id,
        reason=said.reason or matched(said.id),
        approval=said.approval,
        throttle=_charge(said.id, said.throttle, request) if said.throttle else None,
        then=said.then,
    )


def _by_default(policy: CompiledPolicy) -> Evaluation:
    default = policy.document.default
    approval = ApprovalRequirement() if default is Decision.REQUIRE_HUMAN else None
    none = "no rule matched" if policy.document.rules else "there are no rules"
    reason = f"{none}; the default is {default.value}"
    return Evaluation(decision=default, rule=None, reason=reason, approval=approval)


def _charge(rule_id: str, throttle: Throttle, request: PolicyInput) -> Charge:
    value = _key_value(throttle.key, request)
    if len(value) > _KEY_SHOWN_MAX:
        value = f"sha256:{hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()}"
    # A rule has one key, and its id holds no slash, so two values never share a bucket.
    return Charge(bucket_id=f"{rule_id}/{throttle.key}={value}", throttle=throttle)


def _key_value(key: str, request: PolicyInput) -> str:
    match key:
        case "tenant":
            return ""
        case "actor":
            return request.actor.id
        case "owner":
            return request.actor.owner or request.actor.id
        case "topic":
            return request.topic
        case "env":
            return request.env
        case "channel":
            return request.channel
        case _:
            return request.labels.get(key.removeprefix("labels."), "")


COMMAND_TOPICS = "exec."


def with_people(said: Evaluation, action: Action, *, observing: bool) -> Evaluation:
    """What the policy said, with people asked where it would release the action or does not know of it."""
    if action.people is None:
        return said
    if observing:
        said = msgspec.structs.replace(said, decision=Decision.ALLOW, approval=None, throttle=None, then=None)
    decided = past_throttle(said)
    is_command = action.topic.startswith(COMMAND_TOPICS)
    is_unknown = is_command and decided.decision is Decision.DENY and decided.rule is None
    if decided.decision is Decision.REQUIRE_HUMAN:
        reason = said.reason
    elif decided.decision is Decision.ALLOW or is_unknown:
        reason = f"{said.reason}; its submitter asked for people to decide"
    else:
        return said
    asked = decided.approval or ApprovalRequirement()
    both = tuple(group for group in asked.groups if group in action.people.groups)
    asked = msgspec.structs.replace(asked, groups=both or asked.groups or action.people.groups)
    if said.then is None:
        return msgspec.structs.replace(said, decision=Decision.REQUIRE_HUMAN, approval=asked, reason=reason)
    return msgspec.structs.replace(said, then=Decision.REQUIRE_HUMAN, approval=asked, reason=reason)
