"""Text that people cannot see, links that they should not click, and risks of several lines: refused."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

UNSEEN = [
    "\u202e",
    "\u2066",
    "\u200f",
    "\u0085",
    "\u009b",
    "\u200b",
    "\u3164",
    "\u2800",
    "\uffa0",
    "\U000e0041",
]


@pytest.mark.parametrize("path", ["jobs", "policy/evaluate"])
@pytest.mark.parametrize("char", UNSEEN)
async def test_where_an_action_happens_is_spelled_in_what_can_be_seen(
    api: InProcessApi, path: str, char: str
) -> None:
    await api.policy(ASK)
    bot, text = await api.agent(), f"production{char}"
    for fields, place in (
        ({"env": text}, "/env"),
        ({"channel": text}, "/channel"),
        ({"labels": {"team/x": text}}, "/labels/team~1x"),
    ):
        seen = await api.call("POST", path, bot, {"topic": "pay", **fields})
        assert (seen.status, seen.word) == (400, "invalid_request"), seen.document
        assert place in [error["path"] for error in seen.document["errors"]]
        assert f"U+{ord(char):04X}" in seen.document["errors"][0]["reason"]
    assert (await api.get("jobs"))["items"] == []


@pytest.mark.parametrize("char", ["\n", "\t", "\x1b", "\x00", "\x7f"])
async def test_a_control_character_is_refused_too(api: InProcessApi, char: str) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    for fields in ({"env": f"a{char}"}, {"channel": f"a{char}"}, {"labels": {"a": f"a{char}"}}):
        assert (await api.call("POST", "jobs", bot, {"topic": "pay", **fields})).word == "invalid_request"
    assert (await api.call("POST", "jobs", bot, {"topic": "pay", "labels": {f"a{char}": ""}})).status == 400


async def test_words_of_any_language_are_fine(api: InProcessApi) -> None:
    await api.policy(ASK)
    labels = {"where": "Zürich, 東京, תל אביב, القاهرة", "mood": "\U0001f680"}
    seen = await api.propose(await api.agent(), env="größe", channel="чат", labels=labels)
    assert (seen.status, seen.document["labels"]) == (202, labels)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JAVASCRIPT:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x",
        "ftp://a/b", "//evil.example/x", "evil.example", "", " https://a", "java\tscript:alert(1)",
        "https://a/\u202egpj.exe", "https://a/\u3164", "https://a\n",
    ],
)  # fmt: skip
async def test_an_evidence_link_is_http_https_or_mailto(api: InProcessApi, url: str) -> None:
    await api.policy(ASK)
    evidence = [
        {"title": "ok", "kind": "link", "url": "https://a/b"},
        {"title": "x", "kind": "link", "url": url},
    ]
    seen = await api.propose(await api.agent(), evidence=evidence)
    assert (seen.status, seen.word) == (400, "invalid_request"), seen.document
    assert [error["path"] for error in seen.document["errors"]] == ["/evidence/1/url"]
    assert (await api.get("jobs"))["items"] == []


@pytest.mark.parametrize("url", ["http://a/b?c=%E2%80%AE", "HTTPS://a", "mailto:ann@example.org"])
async def test_a_link_that_opens_a_page_or_a_letter_is_kept_as_it_is(durable: InProcessApi, url: str) -> None:
    await durable.policy(ASK)
    evidence = [{"title": "x", "kind": "link", "url": url}]
    seen = await durable.propose(await durable.agent(), evidence=evidence)
    assert (seen.status, seen.document["evidence"][0]["url"]) == (202, url)


async def test_a_workflow_cannot_bring_in_an_env_that_a_job_could_not_have(api: InProcessApi) -> None:
    steps = [{"id": "a", "topic": "t.a", "env": "prod\u202e"}]
    seen = await api.call("PUT", "workflows/nightly", api.admin, {"steps": steps})
    assert (seen.status, "U+202E" in seen.document["errors"][0]["reason"]) == (400, True)


@pytest.mark.parametrize("risk", ["a\nb", "end\n", "\u0000", ["fine", "a\tb"], "x" * 256])
async def test_a_risk_that_is_not_one_line_is_refused_and_nothing_is_kept(
    api: InProcessApi, risk: object
) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    seen = await api.propose(bot, risk=risk)
    assert (seen.status, seen.word) == (400, "invalid_request")
    asked = await api.call("POST", "policy/evaluate", api.admin, {"topic": "pay", "risk": risk})
    assert asked.status == 400
    assert (await api.get("jobs"))["items"] == []


async def test_one_risk_is_a_list_of_one(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    alone, listed = await api.submit(bot, risk="money"), await api.submit(bot, risk=["money"])
    assert [(await api.job(job))["risk"] for job in (alone, listed)] == [["money"], ["money"]]
