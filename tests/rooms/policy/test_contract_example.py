"""The policy of the contract, word for word, does what the contract says of it."""

from __future__ import annotations

import pytest

from interlock.rooms.policy.evaluation import (
    Actor,
    Budget,
    CompiledPolicy,
    Evaluation,
    PolicyInput,
    compile_policy,
    evaluate,
)
from interlock.rooms.policy.language import ApprovalRequirement, Decision, Escalation, PolicyMode
from interlock.rooms.policy.parser import parse_policy

EXAMPLE = """\
version: v1
mode: enforce                      # or observe: every job is released, and what would have happened is recorded and counted
default: deny                      # allow | deny | require_human; deny if left out
rules:                             # first match wins
  - id: allow-readonly
    when: {topic: knowledge.read}
    decision: allow
  - id: require-approval-prod-finance
    when: {topic: finance.payment.execute, env: production}
    if: payload.amount_cents > 10000          # CEL over topic, env, channel, labels, payload, actor, priority
    decision: require_human
    approval:
      quorum: 2                    # distinct people; default 1
      groups: [finance]            # who may decide; default: any person with role review
      self_approval: false         # the default; the submitter's owner counts as the submitter
      expires_in: 4h               # default 24h
      on_expiry: deny              # deny | escalate
      escalate: [{after: 30m, groups: [finance-leads]}]
      binding: strict              # strict | semantic
  - id: throttle-bulk-mail
    when: {topic: customer.notify, channel: external}
    decision: throttle             # always 429, or with a bucket only past the rate:
    throttle: {rate: 10/m, burst: 20, key: actor}   # then falls through to `then`
    then: require_human
"""  # noqa: E501

AGENT = Actor(id="agent-7", kind="agent", owner="ann")


@pytest.fixture(scope="module")
def policy() -> CompiledPolicy:
    return compile_policy(parse_policy(EXAMPLE))


def ask(policy: CompiledPolicy, topic: str, **given: object) -> Evaluation:
    return evaluate(policy, PolicyInput(topic=topic, actor=AGENT, **given), budget=Budget(), explain=True)  # type: ignore[arg-type]


def test_the_example_is_enforced_and_denies_by_default(policy: CompiledPolicy) -> None:
    assert policy.document.mode is PolicyMode.ENFORCE
    assert policy.document.default is Decision.DENY
    assert len(policy.document.rules) == 3


def test_reading_is_allowed(policy: CompiledPolicy) -> None:
    answer = ask(policy, "knowledge.read")
    assert (answer.decision, answer.rule, answer.trail) == (Decision.ALLOW, "allow-readonly", ())


def test_a_large_payment_in_production_needs_two_people_of_finance(policy: CompiledPolicy) -> None:
    answer = ask(policy, "finance.payment.execute", env="production", payload={"amount_cents": 10_001})
    assert (answer.decision, answer.rule) == (Decision.REQUIRE_HUMAN, "require-approval-prod-finance")
    assert answer.approval == ApprovalRequirement(
        quorum=2,
        groups=("finance",),
        self_approval=False,
        expires_in=4 * 3600,
        on_expiry="deny",
        escalate=(Escalation(after=1800, groups=("finance-leads",)),),
        binding="strict",
    )


def test_a_small_payment_falls_to_the_default_and_the_trail_says_why(policy: CompiledPolicy) -> None:
    answer = ask(policy, "finance.payment.execute", env="production", payload={"amount_cents": 10_000})
    assert (answer.decision, answer.rule) == (Decision.DENY, None)
    assert answer.reason == "no rule matched; the default is deny"
    assert [(missed.rule, missed.why) for missed in answer.trail] == [
        ("allow-readonly", "topic 'finance.payment.execute' does not match 'knowledge.read'"),
        ("require-approval-prod-finance", "if: payload.amount_cents > 10000 was false"),
        ("throttle-bulk-mail", "topic 'finance.payment.execute' does not match 'customer.notify'"),
    ]


def test_bulk_mail_draws_from_the_actors_bucket_and_then_asks_people(policy: CompiledPolicy) -> None:
    answer = ask(policy, "customer.notify", channel="external")
    assert (answer.decision, answer.then) == (Decision.THROTTLE, Decision.REQUIRE_HUMAN)
    assert answer.throttle is not None
    assert answer.throttle.bucket_id == "throttle-bulk-mail/actor=agent-7"
    assert (str(answer.throttle.throttle.rate), answer.throttle.throttle.burst) == ("10/m", 20)
    assert answer.approval == ApprovalRequirement()
