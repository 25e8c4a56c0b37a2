"""Random policies and requests for property-based tests."""

from __future__ import annotations

from hypothesis import strategies as st

from interlock.rooms.policy.evaluation import Actor, PolicyInput
from interlock.rooms.policy.language import (
    ApprovalRequirement,
    Decision,
    Escalation,
    PolicyDocument,
    PolicyMode,
    Rate,
    Rule,
    Throttle,
    When,
    finest,
)

WORDS = st.sampled_from(
    ["finance", "payment", "read", "prod", "dev", "é", "中", "a b", "no", "12", "true", "~"]
)
SEGMENTS = st.sampled_from(["finance", "payment", "read", "x", "*", "**", "pay*", "*ment"])
TOPICS = st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join)
EXPRESSIONS = st.sampled_from(
    [
        None,
        "true",
        "payload.amount > 100",
        "has(payload.x) && payload.x == 'é'",
        "actor.kind == 'agent' || 'ops' in actor.groups",
        'risk.exists(r,\n  r == "prod")  // why',
    ]
)


def some(of: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    """Patterns as a document keeps them: sorted, each once."""
    return st.sets(of, max_size=3).map(lambda found: tuple(sorted(found)))


whens = st.builds(
    When,
    topic=some(TOPICS),
    env=some(WORDS),
    channel=some(WORDS | st.just("")),
    actor=some(WORDS),
    tenant=some(WORDS),
    risk=some(WORDS),
    labels=st.dictionaries(WORDS, some(WORDS).filter(bool), max_size=2),
)

rates = st.builds(Rate, count=st.integers(1, 100_000), per=st.sampled_from(["s", "m", "h", "d"])).map(finest)
throttles = st.builds(
    Throttle,
    rate=rates,
    burst=st.integers(1, 100_000),
    key=st.sampled_from(["tenant", "actor", "owner", "topic", "env", "channel", "labels.team"]),
)


@st.composite
def approvals(draw: st.DrawFn) -> ApprovalRequirement:
    expires_in = draw(st.integers(2, 400_000))
    moments = draw(st.sets(st.integers(1, expires_in - 1), max_size=3))
    groups = st.sets(WORDS, min_size=1, max_size=2).map(lambda found: tuple(sorted(found)))
    steps = tuple(Escalation(after=after, groups=draw(groups)) for after in sorted(moments))
    return ApprovalRequirement(
        quorum=draw(st.integers(1, 50)),
        groups=draw(some(WORDS)),
        self_approval=draw(st.booleans()),
        expires_in=expires_in,
        on_expiry=draw(st.sampled_from(["deny", "escalate"])) if steps else "deny",
        escalate=steps,
        binding=draw(st.sampled_from(["strict", "semantic"])),
    )


@st.composite
def rules(draw: st.DrawFn, rule_id: str) -> Rule:
    decision = draw(st.sampled_from(list(Decision)))
    throttle = draw(throttles | st.none()) if decision is Decision.THROTTLE else None
    outcomes = st.sampled_from([Decision.ALLOW, Decision.DENY, Decision.REQUIRE_HUMAN])
    then = draw(outcomes) if throttle else None
    return Rule(
        id=rule_id,
        decision=decision,
        when=draw(whens),
        if_=draw(EXPRESSIONS),
        approval=draw(approvals()) if Decision.REQUIRE_HUMAN in (decision, then) else None,
        throttle=throttle,
        then=then,
        reason=draw(st.none() | WORDS),
    )


@st.composite
def documents(draw: st.DrawFn) -> PolicyDocument:
    """Any policy that can be written."""
    ids = draw(st.lists(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True), unique=True, max_size=5))
    return PolicyDocument(
        mode=draw(st.sampled_from(list(PolicyMode))),
        default=draw(st.sampled_from([Decision.ALLOW, Decision.DENY, Decision.REQUIRE_HUMAN])),
        rules=tuple(draw(rules(rule_id)) for rule_id in ids),
    )


actors = st.builds(
    Actor,
    id=WORDS,
    kind=st.sampled_from(["agent", "person"]),
    groups=st.sampled_from([(), ("ops",)]),
    owner=st.sampled_from(["", "ann"]),
)
requests = st.builds(
    PolicyInput,
    topic=st.lists(st.sampled_from(["finance", "payment", "read", "x"]), min_size=1, max_size=4).map(
        ".".join
    ),
    actor=actors,
    tenant=WORDS,
    env=WORDS | st.just(""),
    channel=WORDS | st.just(""),
    labels=st.dictionaries(WORDS, WORDS, max_size=2),
    risk=st.lists(WORDS, max_size=2).map(tuple),
    payload=st.fixed_dictionaries({"amount": st.integers(0, 200)}, optional={"x": WORDS}),
)
