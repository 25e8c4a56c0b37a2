"""What waits for a person: exactly the requests for which their yes would count, the most urgent first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

POLICY = """
version: v1
rules:
  - {id: pay, when: {topic: pay}, decision: require_human}
  - {id: two, when: {topic: two.*}, decision: require_human, approval: {quorum: 2, expires_in: 2h}}
  - {id: own, when: {topic: own}, decision: require_human, approval: {self_approval: true}}
  - id: money
    when: {topic: money}
    decision: require_human
    approval: {groups: [finance], expires_in: 2h, escalate: [{after: 30m, groups: [leads]}]}
"""


async def inbox(api: InProcessApi, key: str, query: str = "") -> list[str]:
    """The ids in a person's inbox, in order, page by page of two."""
    found: list[str] = []
    cursor = ""
    while True:
        page = await api.get(f"inbox?limit=2{query}{cursor}", key)
        found += [item["job_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def reasons(api: InProcessApi, key: str) -> dict[str, str | None]:
    page = await api.get("inbox?mine=false", key)
    assert all(item["mine"] is (item["why_not"] is None) for item in page["items"])
    return {item["job_id"]: item["why_not"] for item in page["items"]}


async def counts(api: InProcessApi, key: str) -> Any:
    return await api.get("inbox/counts", key)


async def test_a_request_waits_for_whoever_may_decide_it(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bob = await api.person("ada", groups=("finance",)), await api.person("bob")
    bot = await api.agent()
    pay, money = await api.submit(bot), await api.submit(bot, topic="money")

    assert await inbox(api, ada) == [money, pay]
    assert await inbox(api, bob) == [pay]
    assert await reasons(api, bob) == {money: "not_in_groups", pay: None}


async def test_what_an_escalation_opened_waits_for_the_new_groups(api: InProcessApi) -> None:
    await api.policy(POLICY)
    lead = await api.person("lead", groups=("leads",))
    job = await api.submit(await api.agent(), topic="money")
    assert await inbox(api, lead) == []

    api.clock.advance(1800)
    await api.sweep()

    assert await inbox(api, lead) == [job]


async def test_ones_own_request_does_not_wait_for_oneself(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada = await api.person("ada", "review,submit")
    work = await api.person("work", owner="ada")
    by_agent = await api.submit(await api.agent(owner="work"))
    own, allowed = await api.submit(ada), await api.submit(ada, topic="own")

    assert await inbox(api, ada) == [allowed]
    assert await inbox(api, work) == [allowed]
    assert (await reasons(api, ada)) == {by_agent: "own_request", own: "own_request", allowed: None}


async def test_what_somebody_voted_for_waits_for_the_others(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bob = await api.person("ada"), await api.person("bob")
    phone = await api.person("phone", owner="ada")
    job = await api.submit(await api.agent(), topic="two.x")
    await api.approve(job, ada)

    assert [await inbox(api, key) for key in (ada, phone, bob)] == [[], [], [job]]
    assert await reasons(api, ada) == {job: "voted"}
    (item,) = (await api.get("inbox", bob))["items"]
    assert (item["votes_needed"], item["approval"]["quorum"]) == (1, 2)


async def test_nothing_waits_for_whoever_is_not_a_reviewer(api: InProcessApi) -> None:
    await api.policy(POLICY)
    machine, clerk = await api.agent("machine", "submit,review"), await api.person("clerk", "operate")
    job = await api.submit(machine)

    for key in (machine, clerk):
        assert await inbox(api, key) == []
        assert await reasons(api, key) == {job: "not_a_reviewer"}
        assert (await counts(api, key))["waiting_for_me"] == 0


@pytest.mark.parametrize("end", ["approve", "reject", "cancel", "expire"])
async def test_what_is_decided_or_over_waits_for_nobody(api: InProcessApi, end: str) -> None:
    await api.policy(POLICY)
    ada, bob = await api.person("ada"), await api.person("bob")
    job = await api.submit(await api.agent())
    if end == "expire":
        api.clock.advance(86_400)
        # No sweep, but a decision: lists go by the clock of the last one.
        await api.submit(await api.agent("other"))
    elif end == "cancel":
        await api.call("POST", f"jobs/{job}/cancel", api.admin, {})
    else:
        await getattr(api, end)(job, ada)

    left = 1 if end == "expire" else 0
    assert job not in await inbox(api, bob, "&mine=false")
    told = await counts(api, bob)
    assert (told["waiting_for_me"], told["waiting"]) == (left, left)


async def test_every_item_that_is_mine_can_be_decided_and_no_other(api: InProcessApi) -> None:
    """One rule: the inbox and the command agree about everybody and every request."""
    await api.policy(POLICY)
    keys = [
        await api.person("ada", "review,submit", groups=("finance",)),
        await api.person("bob", "review,submit"),
        await api.person("eve", "submit,operate"),
        await api.person("lead", groups=("leads",)),
    ]
    keys += [await api.person("phone", owner="ada"), await api.agent("bot", "submit,review", owner="bob")]
    jobs = [
        await api.submit(key, topic=topic)
        for key in (keys[0], keys[1], keys[-1])
        for topic in ("pay", "two.x", "own", "money")
    ]
    for key in keys:
        said = await reasons(api, key)
        for job in jobs:
            if said.get(job, "decided") == "decided":
                continue
            code = {"own_request": "self_approval", "not_in_groups": "not_eligible", "voted": "vote_recorded"}
            seen = await api.approve(job, key)
            if said[job] is None:
                assert seen.word in ("approved", "vote_recorded"), (key, job)
            elif said[job] == "not_a_reviewer":
                assert seen.word in ("people_only", "forbidden"), (key, job)
            else:
                assert seen.word == code[str(said[job])], (key, job)


async def test_the_most_urgent_comes_first(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent()
    tomorrow = await api.submit(bot)
    in_a_run = await api.submit(bot, run_id="run_1")
    high = await api.submit(bot, priority="high")
    critical = await api.submit(bot, priority="critical")
    soon = await api.submit(bot, expires_in="1h")
    two_hours = await api.submit(bot, topic="two.x", priority="low")

    assert await inbox(api, ada) == [critical, soon, two_hours, high, in_a_run, tomorrow]
    assert await inbox(api, ada, "&order=newest") == [two_hours, soon, critical, high, in_a_run, tomorrow]


async def test_filters_narrow_the_inbox(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bot, other = await api.person("ada"), await api.agent(), await api.agent("other")
    acme = await api.submit(bot, {"to": "Äcme GmbH"}, env="production", labels={"team": "red"})
    repo = await api.submit(other, {"n": 1}, target={"key": "repo:billing", "version": "1"})
    two = await api.submit(bot, topic="two.x")
    large = await api.submit(bot, {"text": "needle" + "x" * 20_000})

    async def found(query: str) -> set[str]:
        shown = await inbox(api, ada, query)
        assert shown == [job for job in await inbox(api, ada) if job in shown]
        return set(shown)

    assert await found("&topic=pay") == {acme, repo, large}
    assert await found("&topic=two.*") == {two}
    assert await found("&env=production") == {acme}
    assert await found("&by=other") == {repo}
    assert await found("&q=%C3%A4CME%20gmbh") == {acme}
    assert await found("&q=team%3Dred") == {acme}
    assert await found("&q=billing") == {repo}
    assert await found(f"&q={two[-12:]}") == {two}
    assert await found("&q=needle") == set()
    assert (await api.call("GET", "inbox?topic=a..b", ada)).word == "invalid_request"
    assert (await api.call("GET", "inbox?cursor=strange", ada)).word == "invalid_request"


async def test_an_item_says_what_depends_on_it_and_what_was_asked(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent()
    target = {"key": "repo:billing", "version": "1"}
    first = await api.submit(bot, target=target)
    second = await api.submit(bot, target=target, run_id="run_1")
    alone = await api.submit(bot)
    await api.call("POST", f"approvals/{alone}/ask", ada, {"text": "why?"})

    items = {item["job_id"]: item for item in (await api.get("inbox", ada))["items"]}

    assert [items[job]["blocks"] for job in (first, second, alone)] == [1, 2, 0]
    assert [items[job]["open_questions"] for job in (first, second, alone)] == [0, 0, 1]
    assert items[alone]["ends_at"] == items[alone]["approval"]["expires_at"]


async def test_counts_tell_what_needs_attention(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bob, bot = await api.person("ada"), await api.person("bob"), await api.agent()
    await api.submit(bot, expires_in="1h", priority="low")
    await api.submit(bot, priority="critical")
    await api.submit(bot, topic="money")

    assert await counts(api, ada) == {
        "waiting_for_me": 2, "expiring_soon": 1, "waiting": 3,
        "conflicts_open": 0, "effects_ambiguous": 0, "dead_letters": 0, "at_least": [],
    }  # fmt: skip
    assert (await api.get("inbox?topic=none", bob))["counts"] == await counts(api, bob)


async def test_another_tenants_requests_are_neither_shown_nor_counted(api: InProcessApi) -> None:
    await api.policy(ASK)
    await api.submit(await api.agent())
    stranger = await api.person("ada", tenant="another")
    assert await inbox(api, stranger, "&mine=false") == []
    assert (await counts(api, stranger))["waiting"] == 0


async def test_what_is_decided_under_an_open_list_hides_nothing(api: InProcessApi) -> None:
    await api.policy(POLICY)
    ada, bob, bot = await api.person("ada"), await api.person("bob"), await api.agent()
    jobs = [await api.submit(bot) for _ in range(5)]
    page = await api.get("inbox?limit=2", ada)
    for job in jobs[:2]:
        await api.approve(job, bob)
    await api.submit(bot, expires_in="1h")

    rest = await api.get(f"inbox?limit=200&cursor={page['next_cursor']}", ada)

    assert [item["job_id"] for item in (*page["items"], *rest["items"])] == jobs


async def test_what_waits_behind_many_others_is_found(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One page goes through a number of windows, and the next goes on behind them."""
    monkeypatch.setattr("interlock.rooms.jobs.inbox_queries.WINDOW", 2)
    await api.policy(POLICY)
    ada, bot = await api.person("ada"), await api.agent()
    for _ in range(16):
        await api.submit(bot, topic="money")
    jobs = [await api.submit(bot) for _ in range(3)]

    first = await api.get("inbox", ada)

    assert (first["items"], first["next_cursor"] is None) == ([], False)
    assert await inbox(api, ada) == jobs
    assert await inbox(api, ada, "&order=newest") == jobs[::-1]
    assert first["counts"]["waiting_for_me"] == 3
    assert first["counts"]["at_least"] == []
