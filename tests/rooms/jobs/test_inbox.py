"""What waits for somebody: exactly what a yes of theirs would count for, the most urgent first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, Stage

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


async def inbox(stage: Stage, key: str, query: str = "") -> list[str]:
    """The ids in somebody's inbox, in order, page by page of two."""
    found: list[str] = []
    cursor = ""
    while True:
        page = await stage.get(f"inbox?limit=2{query}{cursor}", key)
        found += [item["job_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def reasons(stage: Stage, key: str) -> dict[str, str | None]:
    page = await stage.get("inbox?mine=false", key)
    assert all(item["mine"] is (item["why_not"] is None) for item in page["items"])
    return {item["job_id"]: item["why_not"] for item in page["items"]}


async def counts(stage: Stage, key: str) -> Any:
    return await stage.get("inbox/counts", key)


async def test_a_request_waits_for_whoever_may_decide_it(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bob = await stage.person("ada", groups=("finance",)), await stage.person("bob")
    bot = await stage.agent()
    pay, money = await stage.submit(bot), await stage.submit(bot, topic="money")

    assert await inbox(stage, ada) == [money, pay]
    assert await inbox(stage, bob) == [pay]
    assert await reasons(stage, bob) == {money: "not_in_groups", pay: None}


async def test_what_an_escalation_opened_waits_for_the_new_groups(stage: Stage) -> None:
    await stage.policy(POLICY)
    lead = await stage.person("lead", groups=("leads",))
    job = await stage.submit(await stage.agent(), topic="money")
    assert await inbox(stage, lead) == []

    stage.clock.advance(1800)
    await stage.sweep()

    assert await inbox(stage, lead) == [job]


async def test_ones_own_request_does_not_wait_for_oneself(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada = await stage.person("ada", "review,submit")
    work = await stage.person("work", owner="ada")
    by_agent = await stage.submit(await stage.agent(owner="work"))
    own, allowed = await stage.submit(ada), await stage.submit(ada, topic="own")

    assert await inbox(stage, ada) == [allowed]
    assert await inbox(stage, work) == [allowed]
    assert (await reasons(stage, ada)) == {by_agent: "own_request", own: "own_request", allowed: None}


async def test_what_somebody_voted_for_waits_for_the_others(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bob = await stage.person("ada"), await stage.person("bob")
    phone = await stage.person("phone", owner="ada")
    job = await stage.submit(await stage.agent(), topic="two.x")
    await stage.approve(job, ada)

    assert [await inbox(stage, key) for key in (ada, phone, bob)] == [[], [], [job]]
    assert await reasons(stage, ada) == {job: "voted"}
    (item,) = (await stage.get("inbox", bob))["items"]
    assert (item["votes_needed"], item["approval"]["quorum"]) == (1, 2)


async def test_nothing_waits_for_whoever_is_not_a_reviewer(stage: Stage) -> None:
    await stage.policy(POLICY)
    machine, clerk = await stage.agent("machine", "submit,review"), await stage.person("clerk", "operate")
    job = await stage.submit(machine)

    for key in (machine, clerk):
        assert await inbox(stage, key) == []
        assert await reasons(stage, key) == {job: "not_a_reviewer"}
        assert (await counts(stage, key))["waiting_for_me"] == 0


@pytest.mark.parametrize("end", ["approve", "reject", "cancel", "expire"])
async def test_what_is_decided_or_over_waits_for_nobody(stage: Stage, end: str) -> None:
    await stage.policy(POLICY)
    ada, bob = await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(await stage.agent())
    if end == "expire":
        stage.clock.advance(86_400)
        # No sweep, but a decision: lists go by the clock of the last one.
        await stage.submit(await stage.agent("other"))
    elif end == "cancel":
        await stage.call("POST", f"jobs/{job}/cancel", stage.admin, {})
    else:
        await getattr(stage, end)(job, ada)

    left = 1 if end == "expire" else 0
    assert job not in await inbox(stage, bob, "&mine=false")
    told = await counts(stage, bob)
    assert (told["waiting_for_me"], told["waiting"]) == (left, left)


async def test_every_item_that_is_mine_can_be_decided_and_no_other(stage: Stage) -> None:
    """One rule: the inbox and the command agree about everybody and every request."""
    await stage.policy(POLICY)
    keys = [
        await stage.person("ada", "review,submit", groups=("finance",)),
        await stage.person("bob", "review,submit"),
        await stage.person("eve", "submit,operate"),
        await stage.person("lead", groups=("leads",)),
    ]
    keys += [await stage.person("phone", owner="ada"), await stage.agent("bot", "submit,review", owner="bob")]
    jobs = [
        await stage.submit(key, topic=topic)
        for key in (keys[0], keys[1], keys[-1])
        for topic in ("pay", "two.x", "own", "money")
    ]
    for key in keys:
        said = await reasons(stage, key)
        for job in jobs:
            if said.get(job, "decided") == "decided":
                continue
            code = {"own_request": "self_approval", "not_in_groups": "not_eligible", "voted": "vote_recorded"}
            seen = await stage.approve(job, key)
            if said[job] is None:
                assert seen.word in ("approved", "vote_recorded"), (key, job)
            elif said[job] == "not_a_reviewer":
                assert seen.word in ("people_only", "forbidden"), (key, job)
            else:
                assert seen.word == code[str(said[job])], (key, job)


async def test_the_most_urgent_comes_first(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bot = await stage.person("ada"), await stage.agent()
    tomorrow = await stage.submit(bot)
    in_a_run = await stage.submit(bot, run_id="run_1")
    high = await stage.submit(bot, priority="high")
    critical = await stage.submit(bot, priority="critical")
    soon = await stage.submit(bot, expires_in="1h")
    two_hours = await stage.submit(bot, topic="two.x", priority="low")

    assert await inbox(stage, ada) == [critical, soon, two_hours, high, in_a_run, tomorrow]
    assert await inbox(stage, ada, "&order=newest") == [two_hours, soon, critical, high, in_a_run, tomorrow]


async def test_filters_narrow_the_inbox(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bot, other = await stage.person("ada"), await stage.agent(), await stage.agent("other")
    acme = await stage.submit(bot, {"to": "Äcme GmbH"}, env="production", labels={"team": "red"})
    repo = await stage.submit(other, {"n": 1}, target={"key": "repo:billing", "version": "1"})
    two = await stage.submit(bot, topic="two.x")
    large = await stage.submit(bot, {"text": "needle" + "x" * 20_000})

    async def found(query: str) -> set[str]:
        shown = await inbox(stage, ada, query)
        assert shown == [job for job in await inbox(stage, ada) if job in shown]
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
    assert (await stage.call("GET", "inbox?topic=a..b", ada)).word == "invalid_request"
    assert (await stage.call("GET", "inbox?cursor=strange", ada)).word == "invalid_request"


async def test_an_item_says_what_depends_on_it_and_what_was_asked(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bot = await stage.person("ada"), await stage.agent()
    target = {"key": "repo:billing", "version": "1"}
    first = await stage.submit(bot, target=target)
    second = await stage.submit(bot, target=target, run_id="run_1")
    alone = await stage.submit(bot)
    await stage.call("POST", f"approvals/{alone}/ask", ada, {"text": "why?"})

    items = {item["job_id"]: item for item in (await stage.get("inbox", ada))["items"]}

    assert [items[job]["blocks"] for job in (first, second, alone)] == [1, 2, 0]
    assert [items[job]["open_questions"] for job in (first, second, alone)] == [0, 0, 1]
    assert items[alone]["ends_at"] == items[alone]["approval"]["expires_at"]


async def test_counts_tell_what_needs_attention(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bob, bot = await stage.person("ada"), await stage.person("bob"), await stage.agent()
    await stage.submit(bot, expires_in="1h", priority="low")
    await stage.submit(bot, priority="critical")
    await stage.submit(bot, topic="money")

    assert await counts(stage, ada) == {
        "waiting_for_me": 2, "expiring_soon": 1, "waiting": 3,
        "conflicts_open": 0, "effects_ambiguous": 0, "dead_letters": 0, "at_least": [],
    }  # fmt: skip
    assert (await stage.get("inbox?topic=none", bob))["counts"] == await counts(stage, bob)


async def test_another_tenants_requests_are_neither_shown_nor_counted(stage: Stage) -> None:
    await stage.policy(ASK)
    await stage.submit(await stage.agent())
    stranger = await stage.person("ada", tenant="another")
    assert await inbox(stage, stranger, "&mine=false") == []
    assert (await counts(stage, stranger))["waiting"] == 0


async def test_what_is_decided_under_an_open_list_hides_nothing(stage: Stage) -> None:
    await stage.policy(POLICY)
    ada, bob, bot = await stage.person("ada"), await stage.person("bob"), await stage.agent()
    jobs = [await stage.submit(bot) for _ in range(5)]
    page = await stage.get("inbox?limit=2", ada)
    for job in jobs[:2]:
        await stage.approve(job, bob)
    await stage.submit(bot, expires_in="1h")

    rest = await stage.get(f"inbox?limit=200&cursor={page['next_cursor']}", ada)

    assert [item["job_id"] for item in (*page["items"], *rest["items"])] == jobs


async def test_what_waits_behind_many_others_is_found(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page goes through so many windows, and the next goes on behind them."""
    monkeypatch.setattr("interlock.rooms.jobs.inbox_queries.WINDOW", 2)
    await stage.policy(POLICY)
    ada, bot = await stage.person("ada"), await stage.agent()
    for _ in range(16):
        await stage.submit(bot, topic="money")
    jobs = [await stage.submit(bot) for _ in range(3)]

    first = await stage.get("inbox", ada)

    assert (first["items"], first["next_cursor"] is None) == ([], False)
    assert await inbox(stage, ada) == jobs
    assert await inbox(stage, ada, "&order=newest") == jobs[::-1]
    assert first["counts"]["waiting_for_me"] == 3
    assert first["counts"]["at_least"] == []
