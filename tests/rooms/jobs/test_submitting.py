"""What becomes of a proposed action, and what its hash binds."""

from __future__ import annotations

import hashlib

import pytest
import rfc8785

from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, InProcessApi

THROTTLED = """
version: v1
rules:
  - id: mail
    when: {topic: mail}
    decision: throttle
    throttle: {rate: 2/m, burst: 2, key: actor}
    then: require_human
  - {id: never, when: {topic: spam}, decision: throttle}
"""
DENYING = """
version: v1
rules:
  - {id: no-shell, when: {topic: shell}, decision: deny, reason: use the deploy tool}
  - {id: plain, when: {topic: plain}, decision: deny}
"""
OBSERVING = """
version: v1
mode: observe
rules:
  - {id: ask, when: {topic: pay}, decision: require_human}
  - {id: read, when: {topic: read}, decision: allow}
"""
BROKEN = """
version: v1
rules:
  - {id: odd, when: {topic: pay}, if: payload.amount > 5, decision: allow}
"""


async def test_what_the_policy_allows_is_released(api: InProcessApi) -> None:
    await api.policy(ASK)
    seen = await api.propose(await api.agent(), {"q": 1}, "read")

    assert (seen.status, seen.document["state"]) == (201, "PENDING")
    assert seen.document["decision"]["rule"] == "read"
    assert seen.document["approval"] is None
    assert await api.events(seen.document["id"]) == ["job.released"]


async def test_what_needs_people_waits_for_them(api: InProcessApi) -> None:
    snapshot = await api.policy(ASK)
    seen = await api.propose(await api.agent())

    assert (seen.status, seen.document["state"]) == (202, "APPROVAL")
    assert seen.document["policy_snapshot"] == snapshot
    assert seen.document["approval"]["state"] == "pending"


async def test_what_the_policy_denies_is_kept_as_denied(api: InProcessApi) -> None:
    await api.policy(ASK)
    seen = await api.propose(await api.agent(), topic="launch")

    assert (seen.status, seen.word) == (403, "policy_denied")
    assert seen.document["rule"] is None
    kept = await api.job(seen.document["job_id"])
    assert (kept["state"], kept["topic"]) == ("DENIED", "launch")


async def test_what_is_wrong_with_a_request_is_told_with_its_place_first(api: InProcessApi) -> None:
    seen = await api.propose(await api.agent(), topic="bad topic")
    assert (seen.status, seen.word) == (400, "invalid_request")
    assert seen.document["detail"].startswith("/topic: is not valid; write words of")


async def test_without_a_policy_everything_is_denied_and_the_answer_says_what_is_missing(
    api: InProcessApi,
) -> None:
    seen = await api.propose(await api.agent(), topic="read")
    assert seen.word == "policy_denied"
    assert seen.document["detail"].endswith("; set a policy")
    assert (seen.document["next"]["method"], seen.document["next"]["path"]) == ("PUT", "/api/v1/policy")


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("shell", "(rule no-shell: use the deploy tool)"),
        ("plain", "(rule plain)"),
        ("other", "(no rule matched; the default is deny)"),
    ],
)
async def test_a_denial_tells_the_rule_and_the_reason_that_its_author_gave(
    api: InProcessApi, topic: str, why: str
) -> None:
    await api.policy(DENYING)
    seen = await api.propose(await api.agent(), topic=topic)
    assert f"the policy denies {topic} {why}; see what each rule says" in seen.document["detail"]
    assert seen.document["next"]["operation"] == "evaluate_policy"
    assert seen.document["next"]["arguments"] == {"topic": topic}


async def test_a_throttle_lets_its_burst_through_and_refuses_the_rest_until_it_refills(
    api: InProcessApi,
) -> None:
    await api.policy(THROTTLED)
    bot, other = await api.agent(), await api.agent("other")

    answers = [await api.propose(bot, topic="mail") for _ in range(3)]

    assert [answer.status for answer in answers] == [202, 202, 429]
    refused = answers[2]
    assert refused.word == "policy_throttled"
    assert refused.document["retry_after_ms"] == 30_000
    assert refused.headers["retry-after"] == "30"
    assert (await api.propose(other, topic="mail")).status == 202
    assert (await api.audit("mail")) == [("submit_refused", "PolicyThrottled")]
    api.clock.advance(30)
    assert (await api.propose(bot, topic="mail")).status == 202
    assert (await api.propose(bot, topic="mail")).status == 429


async def test_a_throttle_without_a_rate_always_refuses(api: InProcessApi) -> None:
    await api.policy(THROTTLED)

    seen = await api.propose(await api.agent(), topic="spam")

    assert (seen.status, seen.word) == (429, "policy_throttled")
    assert (await api.get("jobs"))["items"] == []


async def test_a_rule_that_fails_on_a_request_denies_it_and_says_why(api: InProcessApi) -> None:
    await api.policy(BROKEN)

    seen = await api.propose(await api.agent(), {"no": "amount"})

    told = seen.document
    assert (seen.status, seen.word, told["retryable"]) == (403, "policy_denied", False)
    assert (told["rule"], told["expression"], told["field"]) == (
        "odd",
        "payload.amount > 5",
        "payload.amount",
    )
    assert "there is no field payload.amount" in told["reason"]
    assert "there is no field payload.amount" in told["detail"]
    kept = await api.job(told["job_id"])
    assert (kept["state"], kept["decision"]["rule"]) == ("DENIED", "odd")
    assert kept["decision"]["failure"] == {
        "expression": "payload.amount > 5", "field": "payload.amount", "why": told["cause"],
    }  # fmt: skip
    assert await api.audit(told["job_id"]) == [("submit", "done")]
    assert await api.metric('interlock_submits_total{decision="deny"}') == 1


async def test_a_denial_by_a_rule_that_failed_is_given_again_under_its_key(api: InProcessApi) -> None:
    await api.policy(BROKEN)
    bot, body = await api.agent(), {"topic": "pay"}
    headers = {"idempotency-key": "once"}
    first, again = [await api.call("POST", "jobs", bot, body, headers=headers) for _ in range(2)]

    assert (first.status, again.status) == (403, 403)
    assert first.document == again.document
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_job_without_a_payload_is_an_empty_object(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    bare = await api.call("POST", "jobs", bot, {"topic": "pay", "priority": "high"})
    spelled = await api.call("POST", "jobs", bot, {"topic": "pay", "payload": {}})
    null = await api.call("POST", "jobs", bot, {"topic": "pay", "payload": None})

    assert (bare.status, bare.document["payload"]) == (202, {})
    assert bare.document["job_hash"] == spelled.document["job_hash"]
    assert null.document["payload"] is None
    assert null.document["job_hash"] != bare.document["job_hash"]
    for path in ("policy/evaluate", "jobs"):
        assert (await api.call("POST", path, bot, {"topic": "read"})).status in (200, 201)


async def test_a_rule_that_would_outlast_the_budget_releases_nothing(api: InProcessApi) -> None:
    await api.policy(BROKEN.replace("payload.amount > 5", f'"{COSTLY}"'))

    seen = await api.propose(await api.agent(), TOO_MUCH)

    assert (seen.status, seen.word, seen.document["retryable"]) == (503, "policy_unavailable", True)
    assert seen.document["rule"] == "odd"
    assert (await api.get("jobs"))["items"] == []
    assert await api.audit("pay") == [("submit_refused", "PolicyUnavailable")]


async def test_an_observing_policy_releases_and_remembers_what_it_would_have_done(api: InProcessApi) -> None:
    await api.policy(OBSERVING)
    bot = await api.agent()
    asked, read = await api.propose(bot), await api.propose(bot, topic="read")
    denied = await api.propose(bot, topic="launch")

    assert {asked.status, read.status, denied.status} == {201}
    seen = {item["id"]: item["decision"]["observed"] for item in (await api.get("policy/observed"))["items"]}
    assert seen == {asked.document["id"]: "require_human", denied.document["id"]: "deny"}


@pytest.mark.parametrize("decision", ["allow", "throttle, throttle: {rate: 1/m}, then: allow"])
async def test_an_observing_policy_stops_nothing_by_failing(api: InProcessApi, decision: str) -> None:
    rule = f"{{id: odd, when: {{topic: pay}}, if: payload.amount > 5, decision: {decision}}}"
    await api.policy(f"version: v1\nmode: observe\nrules:\n  - {rule}\n")

    seen = await api.propose(await api.agent(), {"no": "amount"})

    said = seen.document["decision"]
    assert (seen.status, seen.document["state"]) == (201, "PENDING")
    assert (said["decision"], said["observed"], said["rule"]) == ("allow", "deny", "odd")
    assert "there is no field" in said["reason"]
    assert said["failure"]["field"] == "payload.amount"
    assert [item["id"] for item in (await api.get("policy/observed"))["items"]] == [seen.document["id"]]
    assert await api.metric('interlock_submits_total{decision="deny"}') == 1


async def test_an_observing_policy_stops_nothing_by_taking_too_long(api: InProcessApi) -> None:
    rule = f'{{id: dear, when: {{topic: pay}}, if: "{COSTLY}", decision: allow}}'
    await api.policy(f"version: v1\nmode: observe\nrules:\n  - {rule}\n")

    seen = await api.propose(await api.agent(), TOO_MUCH)

    said = seen.document["decision"]
    assert (seen.status, said["decision"], said["observed"], said["rule"]) == (
        201,
        "allow",
        "unavailable",
        "dear",
    )


async def test_the_hash_is_over_the_canonical_form_of_what_would_run(api: InProcessApi) -> None:
    await api.policy(ASK)
    fields = {"env": "prod", "channel": "web", "labels": {"b": "2", "a": "1"}, "risk": ["high"]}
    target = {"key": "repo:x", "version": "v7"}
    seen = await api.propose(await api.agent(), {"z": 1.5, "a": "ü"}, "read", target=target, **fields)

    bound = {
        "tenant": "default",
        "topic": "read",
        "payload": {"z": 1.5, "a": "ü"},
        "target": target,
        **fields,
    }
    expected = hashlib.sha256(b"interlock:job/v1\n" + rfc8785.dumps(bound)).hexdigest()
    assert seen.document["job_hash"] == f"sha256:{expected}"


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "pay"},
        {"payload": {"n": 2}},
        {"env": "prod"},
        {"channel": "web"},
        {"labels": {"a": "1"}},
        {"risk": ["high"]},
        {"target": {"key": "k"}},
        {"target": {"key": "k", "version": "1"}},
    ],
    ids=str,
)
async def test_every_field_of_the_action_changes_the_hash(
    api: InProcessApi, other: dict[str, object]
) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    base = {"topic": "read", "payload": {"n": 1}}

    first = await api.call("POST", "jobs", bot, base)
    second = await api.call("POST", "jobs", bot, {**base, **other})

    assert first.document["job_hash"] != second.document["job_hash"]


async def test_what_is_not_part_of_the_action_does_not_change_the_hash(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    plain = await api.propose(bot, {"n": 1.0}, "read")
    same = await api.call(
        "POST",
        "jobs",
        bot,
        b'{"priority":"high","payload":{"n":1},"max_attempts":9,"expires_in":"1h","topic":"read",'
        b'"evidence":[{"title":"t","kind":"text","content":"c"}],"run_id":"r"}',
    )

    assert same.document["job_hash"] == plain.document["job_hash"]


async def test_only_who_may_submit_submits(api: InProcessApi) -> None:
    await api.policy(ASK)
    seen = await api.propose(await api.person("ada", "review,admin,operate,audit,work"))

    assert (seen.status, seen.word) == (403, "forbidden")
    assert seen.document["roles"] == ["submit"]
