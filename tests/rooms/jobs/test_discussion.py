"""Comments and questions about a request: kept, announced, bounded, and without effect on its state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, InProcessApi, Seen


async def say(api: InProcessApi, verb: str, job: str, key: str, text: str = "why twice?") -> Seen:
    return await api.call("POST", f"approvals/{job}/{verb}", key, {"text": text})


async def comments(api: InProcessApi, job: str) -> list[Any]:
    return (await api.get(f"approvals/{job}"))["comments"]


@pytest.fixture
async def keys(api: InProcessApi) -> dict[str, str]:
    await api.policy(ASK)
    return {"bot": await api.agent(), "ada": await api.person("ada"), "bob": await api.person("bob")}


async def test_a_comment_is_shown_audited_and_announced_and_changes_nothing(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    before = await api.job(job)

    said = await say(api, "comment", job, keys["ada"], "looks odd\nsee line 3")

    assert said.status == 201
    (shown,) = await comments(api, job)
    assert shown == said.document
    assert (shown["kind"], shown["by"], shown["text"], shown["open"]) == (
        "comment", "ada", "looks odd\nsee line 3", False,
    )  # fmt: skip
    assert await api.job(job) == before
    assert (await api.events(job))[-1] == "approval.commented"
    entry = (await api.get(f"jobs/{job}/history"))["items"][0]
    assert (entry["action"], entry["details"]["comment_id"]) == ("comment", shown["id"])
    assert entry["details"]["text_hash"].startswith("sha256:")


async def test_a_question_is_open_until_the_submitter_answers(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    await say(api, "ask", job, keys["ada"])
    await say(api, "comment", job, keys["bob"], "I wonder too")
    assert [each["open"] for each in await comments(api, job)] == [True, False]
    assert (await api.job(job))["state"] == "APPROVAL"
    assert "approval.asked" in await api.events(job)

    await say(api, "comment", job, keys["bot"], "the first one bounced")

    assert [each["open"] for each in await comments(api, job)] == [False, False, False]
    await say(api, "ask", job, keys["bob"], "which one?")
    assert [each["open"] for each in await comments(api, job)] == [False, False, False, True]


async def test_an_edit_answers_a_question_and_a_refresh_does_not(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"], {"amount": 1})
    await say(api, "ask", job, keys["ada"])
    api.clock.advance(1)
    await api.call("POST", f"approvals/{job}/refresh", keys["bot"])
    assert [each["open"] for each in await comments(api, job)] == [True]

    edit = {"payload": {"amount": 2}, "reason": "as asked"}
    await api.call("POST", f"approvals/{job}/edit", keys["bot"], edit)

    assert [each["open"] for each in await comments(api, job)] == [False]


async def test_an_agent_comments_on_its_own_request_alone_and_asks_nothing(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    other = await api.agent("other")

    refused = await say(api, "comment", job, other)
    assert (refused.word, "comment on the requests of others" in refused.document["detail"]) == (
        "people_only",
        True,
    )
    assert (await say(api, "ask", job, keys["bot"])).word == "people_only"
    assert (await say(api, "comment", job, keys["bot"])).status == 201


async def test_what_is_decided_may_be_commented_on_but_not_asked_about(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    await api.approve(job, keys["ada"])

    assert (await say(api, "comment", job, keys["bob"])).status == 201
    late = await say(api, "ask", job, keys["bob"])
    assert (late.status, late.word) == (409, "not_actionable")
    allowed = await api.submit(keys["bot"], topic="read")
    assert (await say(api, "comment", allowed, keys["ada"])).status == 404


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "\u200b", "a\u0000b", "a\u001b[31m", "a\u202eb", "a\u2066b", "\u202eab", "a\u0085b"),
        *("x" * 4097, "ж" * 2049),
    ],
)
async def test_a_text_that_misleads_says_nothing_or_is_too_long_is_refused(
    api: InProcessApi, keys: dict[str, str], text: str
) -> None:
    job = await api.submit(keys["bot"])

    for verb in ("comment", "ask"):
        assert (await say(api, verb, job, keys["ada"], text)).status == 400
    assert await comments(api, job) == []


async def test_a_request_keeps_two_hundred_comments(api: InProcessApi, keys: dict[str, str]) -> None:
    job = await api.submit(keys["bot"])
    for number in range(200):
        assert (await say(api, "comment", job, keys["ada"], f"{number}")).status == 201

    full = await say(api, "comment", job, keys["ada"])

    assert (full.status, full.word) == (409, "not_actionable")
    request = await api.get(f"approvals/{job}")
    assert request["comments_total"] == 200
    assert [each["text"] for each in request["comments"]] == [f"{number}" for number in range(150, 200)]


async def test_all_comments_are_listed_page_by_page_newest_first(
    api: InProcessApi, keys: dict[str, str]
) -> None:
    job = await api.submit(keys["bot"])
    for number in range(5):
        await say(api, "ask" if number == 1 else "comment", job, keys["ada"], f"{number}")

    pages: list[list[Any]] = []
    cursor = ""
    while cursor is not None:
        page = await api.get(f"approvals/{job}/comments?limit=2{cursor and '&cursor=' + cursor}")
        pages.append(page["items"])
        cursor = page["next_cursor"]

    assert [[each["text"] for each in page] for page in pages] == [["4", "3"], ["2", "1"], ["0"]]
    assert [each["text"] for page in pages for each in page if each["open"]] == ["1"]
