"""What is quick is judged on the loop. The price grows with what an expression reads, so large is not quick."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from interlock.kernel.computation import TooLong
from interlock.rooms.identity.model import Principal, PrincipalKind
from interlock.rooms.policy.action import Action, Priority
from interlock.rooms.policy.evaluation import compile_policy, compiled
from interlock.rooms.policy.judgement import QUICK_PAYLOAD_BYTES, Compiling, Judging, is_quick
from interlock.rooms.policy.language import canonical_policy, snapshot_id
from interlock.rooms.policy.parser import parse_policy

POLICY = parse_policy("""
version: v1
rules:
  - {id: one, when: {topic: one}, decision: allow, if: "payload.amount < 10"}
  - {id: each, when: {topic: each}, decision: allow, if: "payload.l.all(x, x in payload.l)"}
  - {id: none, when: {topic: none}, decision: allow}
""")
BOT = Principal(
    tenant="acme", id="bot", kind=PrincipalKind.AGENT, created_at=datetime(2030, 1, 1, tzinfo=UTC)
)


def action(topic: str, payload: object) -> Action:
    return Action(topic=topic, payload=msgspec.Raw(msgspec.json.encode(payload)))


def judging(asked: Action, actor: Principal = BOT) -> Judging:
    return Judging(
        tenant="acme",
        snapshot=snapshot_id(POLICY),
        document=canonical_policy(POLICY).decode(),
        action=asked,
        actor=actor,
        priority=Priority.NORMAL,
    )


def test_a_small_payload_is_quick_for_a_cheap_expression_and_not_for_a_dear_one() -> None:
    policy, payload = compile_policy(POLICY), {"amount": 1, "l": list(range(500))}
    assert is_quick(policy, action("one", payload))
    assert not is_quick(policy, action("each", payload))
    assert is_quick(policy, action("each", {"l": [1, 2]}))


def test_a_large_payload_is_quick_only_where_no_expression_asks_about_it() -> None:
    policy, payload = compile_policy(POLICY), {"amount": 1, "text": "x" * QUICK_PAYLOAD_BYTES}
    assert not is_quick(policy, action("one", payload))
    assert is_quick(policy, action("none", payload))


def test_the_price_of_a_topic_grows_with_the_size_of_the_payload() -> None:
    policy = compile_policy(POLICY)
    prices = [policy.seconds_at_most("each", size) for size in (100, 1000, 10_000, 100_000)]
    assert prices == sorted(set(prices))
    assert policy.seconds_at_most("none", 1_000_000) == 0


def test_what_is_not_quick_is_refused_before_it_is_computed_and_comes_to_the_same() -> None:
    compiled(snapshot_id(POLICY), canonical_policy(POLICY))
    with pytest.raises(TooLong):
        judging(action("each", {"l": list(range(500))})).quickly()
    quick = judging(action("one", {"amount": 3}))
    assert quick.quickly() == quick.wholly()


def test_the_key_names_all_that_the_result_depends_on() -> None:
    asked = action("one", {"amount": 3})
    known = judging(asked).key()
    grouped = msgspec.structs.replace(BOT, groups=("finance",))
    others = [
        judging(action("one", {"amount": 4})),
        judging(asked, grouped),
        msgspec.structs.replace(judging(asked), snapshot="another"),
        msgspec.structs.replace(judging(asked), tenant="other"),
        msgspec.structs.replace(judging(asked), priority=Priority.HIGH),
    ]
    assert known not in {other.key() for other in others}
    assert known == judging(asked).key()


def test_a_long_policy_is_not_compiled_in_a_moment() -> None:
    rules = "".join(f'  - {{id: r{n}, decision: deny, if: "payload.n == {n}"}}\n' for n in range(200))
    document = parse_policy(f"version: v1\nrules:\n{rules}")
    text = canonical_policy(document).decode()
    compiling = Compiling(tenant="acme", snapshot=snapshot_id(document), document=text)
    with pytest.raises(TooLong):
        compiling.quickly()
    assert compiling.wholly() is compiling.quickly()
