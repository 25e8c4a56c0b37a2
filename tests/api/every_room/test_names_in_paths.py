"""A name that a body may have can be named in a path, and one that it may not have is refused there too."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.harness.in_process_api import InProcessApi

ACCEPTED = {
    "a space of French numbers": "Rechnung 12\u202f000",
    "a joiner": "\u0915\u094d\u200d\u0937",
    "a word of two directions": "\u200fdoc\u200e",
    "a space of no width": "a\u200bb",
    "spaces alone": "  ",
    "slashes and marks": "repo:a/b.py?c=1#d%e",
    "a sign beyond the first plane": "\U0001f4a5",
    "the longest": "k" * 500,
}
REFUSED = {
    "a line break": "a\nb",
    "a line break at the end": "a\n",
    "a tab": "a\tb",
    "a nul": "a\x00",
    "an escape": "\x1b[31m",
    "a delete": "a\x7f",
    "one too long": "k" * 501,
}


@pytest.mark.parametrize("key", ACCEPTED.values(), ids=ACCEPTED)
async def test_a_target_reported_in_a_body_is_read_and_touched_by_its_path(
    api: InProcessApi, key: str
) -> None:
    bot, path = await api.agent(), f"targets/{quote(key, safe='')}"
    change = {"key": key, "version": "v1"}
    assert (await api.call("POST", "targets/touches", bot, {"changes": [change]})).status == 200

    touched = await api.call("POST", f"{path}/touch", bot, {"version": "v2"})
    seen = await api.get(path)

    assert touched.status == 200, touched.document
    assert (seen["key"], seen["version"], len(seen["touches"])) == (key, "v2", 2)


@pytest.mark.parametrize("key", REFUSED.values(), ids=REFUSED)
async def test_a_target_is_refused_in_a_body_and_in_a_path_alike(api: InProcessApi, key: str) -> None:
    bot, path = await api.agent(), f"targets/{quote(key, safe='')}"
    change = {"key": key, "version": "v1"}

    answers = [
        await api.call("POST", "targets/touches", bot, {"changes": [change]}),
        await api.call("POST", "jobs", bot, {"topic": "pay", "payload": {}, "target": {"key": key}}),
        await api.call("POST", f"{path}/touch", bot, {"version": "v1"}),
        await api.call("GET", path, api.admin),
    ]

    assert {(answer.status, answer.word) for answer in answers} == {(400, "invalid_request")}


@pytest.mark.parametrize("action", [name[:300] for name in ACCEPTED.values()], ids=ACCEPTED)
async def test_an_action_is_begun_and_read_under_whatever_one_calls_it(
    api: InProcessApi, action: str
) -> None:
    bot, path = await api.agent("bot", "submit,work"), f"effects/{quote(action, safe='')}"
    begun = await api.call("POST", f"{path}/begin", bot, {"request_hash": "sha256:one"})
    assert begun.status == 201, begun.document
    assert (await api.get(path))["action_id"] == action


@pytest.mark.parametrize("action", REFUSED.values(), ids=REFUSED)
async def test_no_action_has_a_control_character(api: InProcessApi, action: str) -> None:
    bot, path = await api.agent("bot", "submit,work"), f"effects/{quote(action, safe='')}"
    answers = [
        await api.call("POST", f"{path}/begin", bot, {"request_hash": "sha256:one"}),
        await api.call("GET", path, api.admin),
    ]
    assert {(answer.status, answer.word) for answer in answers} == {(400, "invalid_request")}
