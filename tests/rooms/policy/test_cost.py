"""No expression runs for longer than its price, and no price exceeds the budget."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rooms.policy.cost import weight
from interlock.rooms.policy.expressions import EVALUATION_SECONDS, Facts, compile_expression
from interlock.rooms.policy.facts import Extent
from tests.rooms.policy.test_expressions import DEFAULTS

# Expressions and payloads that ran for many seconds, or took gigabytes, where nothing but the library's own
# limits held them: each alone would stop a server.
LONG = "a" * 1_000_000
MANY = [1] * 9000
DOUBLED_SEVEN_TIMES = (
    "[payload.s + payload.s].exists(a, [a + a].exists(b, [b + b].exists(c, [c + c].exists(d,"
    " [d + d].exists(e, [e + e].exists(f, [f + f].exists(g, size(g) > 0)))))))"
)
HOSTILE: list[tuple[str, Any]] = [
    ("payload.s.matches('(.{1,100}){1,10}b')", {"s": LONG}),
    ("payload.s.matches('((.{1,30}){1,30})b')", {"s": LONG}),
    ("payload.s.matches(payload.p)", {"s": LONG, "p": "(a?){1000}" * 3 + "b"}),
    ("payload.l.all(x, payload.s.matches('^(a|aa)+$'))", {"s": LONG[:500_000], "l": MANY}),
    (r"payload.l.all(x, !payload.s.matches('\\pL{100}'))", {"s": "a", "l": MANY}),
    ("payload.s.contains(payload.t)", {"s": LONG[:700_000], "t": LONG[:300_000] + "b"}),
    (
        "payload.l.all(x, payload.s.contains(payload.t))",
        {"l": MANY, "s": LONG[:9000], "t": LONG[:4000] + "b"},
    ),
    ("payload.l.filter(x, true).size() > 0", {"l": MANY}),
    ("payload.l.map(x, payload.s + payload.s).size() > 0", {"l": MANY, "s": LONG[:100_000]}),
    ("payload.l.all(x, payload.l.all(y, payload.l.all(z, true)))", {"l": MANY}),
    ("payload.l.all(x, x in payload.l)", {"l": list(range(9000))}),
    ("payload.l.all(x, payload == payload)", {"l": [{"a": [1, 2, 3]}] * 9000}),
    ("[payload.s]" + ".map(y, y + y)" * 26 + " != []", {"s": "a"}),
    ("[payload.l]" + ".map(y, y + y)" * 26 + " != []", {"l": [1]}),
    ("[1]" + ".map(y, [y, y])" * 26 + " == [1]" + ".map(y, [y, y])" * 26, {}),
    (DOUBLED_SEVEN_TIMES, {"s": LONG}),
    ("payload.l.map(x, payload.l.map(y, payload.l)).size() > 0", {"l": list(range(90))}),
]

ASK_ALL = """
import json, resource, sys
from interlock.rooms.policy.evaluation import Actor, Budget, ExpressionFailed, PolicyInput, compile_policy, evaluate
from interlock.rooms.policy.language import Decision, PolicyDocument, Rule
from interlock.rooms.policy.expressions import ExpressionInvalid

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for expression, payload in json.load(sys.stdin):
    try:
        rule = Rule(id="r", decision=Decision.ALLOW, if_=expression)
        policy = compile_policy(PolicyDocument(rules=(rule,)))
        request = PolicyInput(topic="t", actor=Actor(id="a"), payload=payload)
        print("answered", evaluate(policy, request, budget=Budget()).decision.value, flush=True)
    except ExpressionInvalid as invalid:
        print("refused when read:", invalid, flush=True)
    except ExpressionFailed as failed:
        print("refused when asked:", failed.why, flush=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_hostile_expressions_end_in_bounded_time_and_memory() -> None:
    # In a process of its own: should a guard be missing, the native code could not be stopped otherwise.
    ended = subprocess.run(
        [sys.executable, "-c", ASK_ALL],
        input=json.dumps(HOSTILE),
        text=True,
        capture_output=True,
        timeout=300,
    )
    *answers, peak_kilobytes = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert len(answers) == len(HOSTILE)
    assert [answer for answer in answers if not answer.startswith(("answered", "refused"))] == []
    assert int(peak_kilobytes) < 1024 * 1024


UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}$"
ITEM = {"price": 1, "sku": "ABC-1234"}
ORDINARY: list[tuple[str, Any]] = [
    ("payload.items.all(i, i.price > 0 && i.sku.matches('^[A-Z]{3}-[0-9]{4}$'))", {"items": [ITEM] * 500}),
    ("payload.to.all(a, a.endsWith('@corp.example'))", {"to": ["someone@corp.example"] * 5000}),
    ("payload.items.filter(i, i.price > 100).size() == 0", {"items": [ITEM] * 1000}),
    (f"payload.id.matches('{UUID}')", {"id": "0123abcd-0123-0123456789ab", "body": LONG}),
    ("payload.body.contains('password')", {"body": LONG + "password"}),
    ("payload.body.matches('(?i)(secret|password|token)')", {"body": LONG + "Token"}),
    ("payload.tags.exists(t, t in ['a', 'b', 'c'])", {"tags": ["z"] * 2000 + ["c"]}),
    ("payload.a.all(x, payload.b.exists(y, x == y))", {"a": list(range(90)), "b": list(range(90))}),
]


@pytest.mark.parametrize(("expression", "payload"), ORDINARY)
def test_ordinary_expressions_on_large_jobs_are_within_the_budget(expression: str, payload: Any) -> None:
    program, facts = compile_expression(expression), Facts({**DEFAULTS, "payload": payload})
    assert program.seconds_at_most(facts, left=EVALUATION_SECONDS) <= EVALUATION_SECONDS
    assert program.holds(facts)


EXPRESSIONS = [
    "payload.l.all(x, x > 1)",
    "payload.l.filter(x, x.a == payload.b).map(y, y.c + 'x').exists(z, z in payload.d)",
    "payload.s.matches('(a{1,9}){1,9}') || payload.s.contains(payload.t)",
    "{'a': [payload.x, payload.y]}.a == [1, 2] ? string(payload.z) < 'm' : has(payload.q.r)",
    "payload.l.all(a, payload.l.all(b, payload.l.exists(c, a == b && b != c)))",
]
sizes = st.integers(0, 1 << 21)


extents = st.builds(Extent, sizes, sizes, sizes)


@given(st.sampled_from(EXPRESSIONS), extents, extents)
def test_more_to_ask_about_never_costs_less(expression: str, one: Extent, other: Extent) -> None:
    program = compile_expression(expression)
    small = Extent(*(min(pair) for pair in zip(one, other, strict=True)))
    large = Extent(*(max(pair) for pair in zip(one, other, strict=True)))
    assert program.roughly(small) <= program.roughly(large)


@given(st.sampled_from(EXPRESSIONS), st.integers(0, 300), st.integers(0, 5000))
def test_looking_closer_never_finds_a_higher_price(expression: str, width: int, length: int) -> None:
    payload: Any = {"l": [{"a": 1}] * width, "s": "a" * length}
    facts = Facts({**DEFAULTS, "payload": payload})
    program = compile_expression(expression)
    assert program.seconds_at_most(facts, left=0.0) <= program.roughly(facts.extent)


@pytest.mark.parametrize(
    ("pattern", "low", "high"),
    [
        ("abc", 3, 20),
        ("^[a-z]+@corp[.]com$", 20, 100),
        ("a{100}", 100, 500),
        ("(a{10}){10}", 100, 1000),
        ("((a{10}){10}){10}", 1000, 10_000),
        (".{50}", 500, 2000),
        (r"\pL", 1000, 10_000),
        (r"\p{Greek}{10}", 10_000, 100_000),
        (r"[\pL\d]{3}", 3000, 50_000),
        (r"[0-9a-f]{8}-[0-9a-f]{4}", 100, 500),
        (r"\Qa{1000}\E", 5, 50),
        (r"a\{1000\}", 5, 50),
        ("[{1000}]", 5, 50),
        ("(a|b|(c{5}d){5}){2,3}", 60, 600),
        ("(((", 0, 50),
        (")))", 0, 50),
        ("a{99999999999}", 1000, 10_000_000),
        ("(" * 50 + "a" + "){1000}" * 50, 1_000_000, 10_000_000),
    ],
)
def test_a_pattern_weighs_what_it_compiles_to(pattern: str, low: int, high: int) -> None:
    assert low <= weight(pattern) <= high


@given(st.text(alphabet="ab(){}[]\\^,.*+?|0123456789pPQE:-", max_size=60))
def test_any_text_can_be_weighed(pattern: str) -> None:
    assert weight(pattern) > 0
