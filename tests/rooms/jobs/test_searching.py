"""Searching jobs by words: what is found, that a search is bounded, and that it says where to go on."""

from __future__ import annotations

import pytest

from interlock.rooms.jobs import inbox_queries
from tests.harness.in_process_api import InProcessApi

POLICY = """
version: v1
default: allow
rules:
  - {id: pay, when: {topic: pay}, decision: require_human}
"""


async def found(api: InProcessApi, key: str, query: str, *, pages_max: int = 20) -> list[str]:
    """The ids that a search finds, page by page of two."""
    ids: list[str] = []
    cursor = ""
    for _ in range(pages_max):
        page = await api.get(f"jobs?limit=2&{query}{cursor}", key)
        ids += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return ids
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError(f"{query} has no last page")


async def test_words_are_found_in_the_id_topic_submitter_and_payload(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent("bot")
    pay = await api.submit(bot, topic="pay", payload={"to": "Acme"})
    mail = await api.submit(bot, topic="mail.send", payload={"to": "Zed"})

    assert await found(api, ada, "q=acme") == [pay]
    assert await found(api, ada, "q=mail.send+zed") == [mail]
    assert await found(api, ada, "q=bot") == [mail, pay]
    assert await found(api, ada, f"q={pay[-6:]}") == [pay]
    assert await found(api, ada, "q=nobody") == []


async def test_a_state_and_a_pattern_of_topics_narrow_a_search(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent("bot")
    pay = await api.submit(bot, topic="pay")
    mail = await api.submit(bot, topic="mail.send")

    assert await found(api, ada, "q=bot&state=APPROVAL") == [pay]
    assert await found(api, ada, "q=bot&topic=pay") == [pay]
    assert await found(api, ada, "topic=mail.*") == [mail]
    assert (await api.call("GET", "jobs?topic=a**", ada)).status == 400


async def test_the_beginning_of_an_id_is_looked_up_and_not_searched_for(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent("bot")
    jobs = [await api.submit(bot, topic="mail.send") for _ in range(6)]
    monkeypatch.setattr(inbox_queries, "_ROWS_A_SEARCH", 2)
    monkeypatch.setattr(inbox_queries, "_LOOKS_A_SEARCH", 1)

    page = await api.get(f"jobs?q={jobs[3]}", ada)
    assert [item["id"] for item in page["items"]] == [jobs[3]]
    assert page["next_cursor"] is None


async def test_a_page_of_a_search_looks_at_a_bounded_number_of_jobs_and_says_where_to_go_on(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent("bot")
    oldest = await api.submit(bot, topic="pay", payload={"to": "Acme"})
    for _ in range(6):
        await api.submit(bot, topic="mail.send")
    monkeypatch.setattr(inbox_queries, "_ROWS_A_SEARCH", 2)
    monkeypatch.setattr(inbox_queries, "_LOOKS_A_SEARCH", 1)

    page = await api.get("jobs?q=acme", ada)
    assert not page["items"]
    assert page["next_cursor"]
    assert await found(api, ada, "q=acme") == [oldest]
