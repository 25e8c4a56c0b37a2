"""Policies made ready to be asked, and kept ready by the address of their content."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from interlock.policy.cost import ASK_SECONDS
from interlock.policy.expressions import Program, compile_expression
from interlock.policy.facts import UNIT, Extent
from interlock.policy.language import PolicyDocument, Rule, snapshot_id
from interlock.policy.matching import conditions_of, topic_mismatch, topics_test
from interlock.policy.parsing import parse_policy
from interlock.policy.request import PolicyInput

COMPILED_MAX = 64
_TOPICS_KEPT_MAX = 1024
# What labels, risks, groups and names weigh beside the payload.
_BESIDE_BYTES = 4096


class SnapshotAltered(ValueError):
    """What is stored under a snapshot's id is not what was stored there; nothing may be decided by it."""


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
        """How long the expressions for this topic can take on a payload of so many bytes, beside beginning each."""
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
