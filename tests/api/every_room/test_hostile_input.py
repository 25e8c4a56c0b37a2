"""Input that two parsers could read differently, that cannot be stored, or that is meant to hurt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

JOB = {"topic": "pay", "payload": {}}

BODIES: dict[str, bytes] = {
    "duplicate key": b'{"topic":"pay","payload":{"a":1,"a":2}}',
    "duplicate key at the top": b'{"topic":"read","topic":"pay","payload":{}}',
    "duplicate key by escape": b'{"topic":"pay","payload":{"a":1,"\\u0061":2}}',
    "1e400": b'{"topic":"pay","payload":{"a":1e400}}',
    "-1e400": b'{"topic":"pay","payload":-1e400}',
    "2^53+1": b'{"topic":"pay","payload":{"a":9007199254740993}}',
    "many digits": b'{"topic":"pay","payload":' + b"9" * 5000 + b"}",
    "many decimals": b'{"topic":"pay","payload":0.1000000000000000000001}',
    "NaN": b'{"topic":"pay","payload":NaN}',
    "Infinity": b'{"topic":"pay","payload":-Infinity}',
    "lone surrogate": b'{"topic":"pay","payload":"\\ud800"}',
    "lone surrogate in a key": b'{"topic":"pay","payload":{"\\udc00":1}}',
    "surrogates reversed": b'{"topic":"pay","payload":"\\udc00\\ud800"}',
    "nested 10,000 deep": b'{"topic":"pay","payload":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "nested and never closed": b'{"topic":"pay","payload":' + b'{"a":' * 10_000,
    "not UTF-8": b'{"topic":"pay","payload":"\xff\xfe"}',
    "overlong UTF-8": b'{"topic":"pay","payload":"\xc0\xaf"}',
    "UTF-8 surrogate": b'{"topic":"pay","payload":"\xed\xa0\x80"}',
    "UTF-16": json.dumps(JOB).encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(JOB).encode(),
    "trailing comma": b'{"topic":"pay","payload":{},}',
    "comment": b'{"topic":"pay","payload":{}} // ok',
    "two documents": b'{"topic":"pay","payload":{}}{"topic":"pay","payload":{}}',
    "single quotes": b"{'topic':'pay','payload':{}}",
    "nothing": b"",
    "null": b"null",
    "an array": b"[]",
    "a number": b"1",
    "control character": b'{"topic":"pay","payload":"\x01"}',
    "leading zero": b'{"topic":"pay","payload":01}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_body_that_is_not_strict_json_is_refused_and_nothing_is_stored(
    api: InProcessApi, body: bytes
) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    refused = await api.call("POST", "jobs", bot, body, idempotency_key="k")

    assert (refused.status, refused.word) == (400, "invalid_request")
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.document["errors"]
    assert (await api.get("jobs"))["items"] == []
    assert [action for action, _ in await api.audit("pay")] == []


FIELDS: dict[str, dict[str, Any]] = {
    "topic": {"topic": "pa\0y"},
    "payload": {"payload": "\0"},
    "payload, nested": {"payload": {"a": ["b", {"c": "x\0"}]}},
    "payload, a key": {"payload": {"\0": 1}},
    "env": {"env": "prod\0"},
    "channel": {"channel": "\0web"},
    "a label": {"labels": {"a": "\0"}},
    "a label's name": {"labels": {"a\0": "b"}},
    "risk": {"risk": ["\0"]},
    "risk, single": {"risk": "\0"},
    "priority": {"priority": "high\0"},
    "target key": {"target": {"key": "\0"}},
    "target version": {"target": {"key": "k", "version": "\0"}},
    "evidence title": {"evidence": [{"title": "\0", "kind": "text"}]},
    "evidence kind": {"evidence": [{"title": "t", "kind": "\0"}]},
    "evidence content": {"evidence": [{"title": "t", "kind": "k", "content": "\0"}]},
    "evidence url": {"evidence": [{"title": "t", "kind": "k", "url": "\0"}]},
    "expires_in": {"expires_in": "1h\0"},
    "run_id": {"run_id": "\0"},
}


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())
async def test_a_nul_character_is_refused_in_every_text_of_a_job(
    api: InProcessApi, field: dict[str, Any]
) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    refused = await api.call("POST", "jobs", bot, {**JOB, **field})

    assert (refused.status, refused.word) == (400, "invalid_request")
    assert (await api.get("jobs"))["items"] == []


async def test_a_nul_character_is_refused_wherever_a_caller_writes_text(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    job = await durable.submit(bot)
    admin = durable.admin
    calls: list[tuple[str, str, str, object]] = [
        ("POST", f"approvals/{job}/approve", ada, {"reason": "\0"}),
        ("POST", f"approvals/{job}/approve", ada, {"note": "a\0"}),
        ("POST", f"approvals/{job}/approve", ada, {"job_hash": "\0"}),
        ("POST", f"approvals/{job}/reject", ada, {"reason": "\0"}),
        ("POST", f"approvals/{job}/reject", ada, {"reason": "r", "code": "\0"}),
        ("POST", f"approvals/{job}/edit", ada, {"payload": "\0", "reason": "r"}),
        ("POST", f"approvals/{job}/edit", ada, {"payload": 1, "reason": "\0"}),
        ("POST", f"jobs/{job}/cancel", bot, {"reason": "\0"}),
        ("POST", "policy/rollback", admin, {"snapshot": "\0"}),
        ("POST", "policy/evaluate", bot, {"topic": "a", "actor": {"id": "\0"}}),
        ("POST", "policy/simulate", admin, {"policy": "version: v1\0"}),
        ("PUT", "policy", admin, b"version: v1\0"),
        ("PUT", "policy", admin, b"version: v1\n# \xff\n"),
        ("PUT", "principals/bot", admin, {"owner": "\0"}),
        ("PUT", "principals/bot", admin, {"groups": ["\0"]}),
        ("POST", "principals/x/keys", admin, {"kind": "agent", "roles": [], "owner": "\0"}),
        ("POST", "principals/x%00/keys", admin, {"kind": "agent", "roles": []}),
        ("GET", "jobs?topic=%00", bot, None),
        ("GET", "jobs?cursor=%00", bot, None),
        ("GET", "audit?subject=%00", admin, None),
        ("GET", f"jobs/{job}%00", bot, None),
        ("GET", "policy/snapshots/%00", admin, None),
        ("POST", "api-keys/%00/revoke", admin, {}),
    ]

    for method, path, key, body in calls:
        seen = await durable.call(method, path, key, body)
        assert (seen.status, seen.word) == (400, "invalid_request"), (path, body, seen.document)
    assert (await durable.job(job))["version"] == 1


LINES: list[tuple[str, object]] = [
    ("jobs", {**JOB, "topic": "pay\n"}),
    ("jobs", {**JOB, "env": "prod\n"}),
    ("jobs", {**JOB, "labels": {"a\n": "b"}}),
    ("jobs", {**JOB, "labels": {"a": "b\n"}}),
    ("jobs", {**JOB, "expires_in": "1h\n"}),
    ("jobs", {**JOB, "target": {"key": "k\n"}}),
    ("principals/eve%0A/keys", {"kind": "person", "roles": []}),
    ("principals/eve/keys", {"kind": "person", "roles": [], "groups": ["finance\n"]}),
    ("principals/eve/keys", {"kind": "person", "roles": [], "owner": "ada\n"}),
]


@pytest.mark.parametrize(("path", "body"), LINES, ids=[str(body) for _, body in LINES])
async def test_a_line_break_at_the_end_of_a_name_is_refused(
    api: InProcessApi, path: str, body: object
) -> None:
    await api.policy(ASK)
    key = await api.person("both", "submit,admin")

    refused = await api.call("POST", path, key, body)

    assert (refused.status, refused.word) == (400, "invalid_request")


WRONG: dict[str, object] = {
    "labels as a list": {**JOB, "labels": ["a"]},
    "too many labels": {**JOB, "labels": {f"l{n}": "" for n in range(65)}},
    "a label's name too long": {**JOB, "labels": {"a" * 101: ""}},
    "a label too long": {**JOB, "labels": {"a": "b" * 256}},
    "a topic too long": {**JOB, "topic": "a" * 256},
    "an empty topic": {**JOB, "topic": ""},
    "a topic with an empty part": {**JOB, "topic": "a..b"},
    "a topic that is a pattern": {**JOB, "topic": "a.*"},
    "too much risk": {**JOB, "risk": ["x"] * 33},
    "too much evidence": {**JOB, "evidence": [{"title": "t", "kind": "k"}] * 21},
    "an unknown priority": {**JOB, "priority": "urgent"},
    "no attempts": {**JOB, "max_attempts": 0},
    "a fraction of an attempt": {**JOB, "max_attempts": 1.5},
    "true attempts": {**JOB, "max_attempts": True},
    "a negative expiry": {**JOB, "expires_in": "-1h"},
    "an expiry beyond time": {**JOB, "expires_in": "9999999999d"},
    "an expiry in seconds gone by": {**JOB, "expires_in": -3600},
    "evidence of nothing": {**JOB, "evidence": [{"title": "a", "kind": "b"}]},
    "an id of one's own": {**JOB, "id": "job_1"},
    "a tenant in the body": {**JOB, "tenant": "elsewhere"},
    "a state": {**JOB, "state": "PENDING"},
    "a granted label's twin": {**JOB, "system_labels": {"approval_granted": "true"}},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
async def test_a_job_of_the_wrong_shape_is_refused(api: InProcessApi, body: object) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    refused = await api.call("POST", "jobs", bot, body)

    assert (refused.status, refused.word) == (400, "invalid_request")
    assert (await api.get("jobs"))["items"] == []


async def test_a_granted_label_that_the_submitter_wrote_grants_nothing(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    job = await api.submit(bot, labels={"approval_granted": "true"})

    seen = await api.job(job)
    assert (seen["state"], seen["system_labels"]) == ("APPROVAL", {})


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/xml", "application/json; charset=utf-16", "multipart/form-data", "json"],
)
async def test_a_body_that_does_not_say_json_is_refused(api: InProcessApi, content_type: str) -> None:
    await api.policy(ASK)
    bot = await api.agent()

    refused = await api.call("POST", "jobs", bot, JOB, headers={"content-type": content_type})

    assert (refused.status, refused.word) == (415, "unsupported_media_type")


async def test_text_beyond_ascii_survives_both_stores_unchanged(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    payload = {
        "ключ": ["𝄞", "\u202e", "e\u0301", "é", "\uffff", "a\tb\nc"],
        "": None,
        "π": 3.14159,
        "-0": -0.0,
    }
    job = await durable.submit(
        bot, payload, evidence=[{"title": "證據", "kind": "text", "content": "\u2028"}]
    )
    reason = "völlig\tklar\n— 好"

    await durable.approve(job, ada, reason=reason)

    seen = await durable.job(job)
    assert seen["payload"] == {**payload, "-0": 0}
    assert (seen["evidence"][0]["title"], seen["approval"]["reason"]) == ("證據", reason)


@pytest.mark.parametrize("text", ["\x01", "a\x1b[31mred", "\x7f", "bell\x07", "\x0b"])
async def test_a_reason_holds_no_control_characters_but_tabs_and_line_breaks(
    api: InProcessApi, text: str
) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)

    assert (await api.approve(job, ada, reason=text)).word == "invalid_request"
    assert (await api.reject(job, ada, reason=text)).word == "invalid_request"
    assert (await api.approve(job, ada, reason="fine\r\n\tso far")).word == "approved"
