"""The inbox on durable stores: the same on both, and as much work for a page however much waits."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from interlock.kernel.storage import Row, Store
from interlock.rooms.jobs.model import JOBS, Approval, JobState, Requirement
from interlock.rooms.policy.action import Action
from tests.conformance.test_stores import carrying, changes
from tests.harness.in_process_api import InProcessApi

POLICY = """
version: v1
rules:
  - {id: pay, when: {topic: pay}, decision: require_human, approval: {groups: [finance]}}
  - {id: two, when: {topic: two}, decision: require_human, approval: {quorum: 2}}
"""
WAITING = 10_000


class Reads:
    """Counts the rows that a store hands out."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = self.gets = self.queries = 0
        query, get = store.query, store.get

        async def counted_query(*args: Any, **options: Any) -> list[Row]:
            found = await query(*args, **options)
            self.rows += len(found)
            self.queries += 1
            return found

        async def counted_get(*args: Any) -> Any:
            self.gets += 1
            return await get(*args)

        monkeypatch.setattr(store, "query", counted_query)
        monkeypatch.setattr(store, "get", counted_get)

    def taken(self) -> tuple[int, int, int]:
        """Queries, their rows and records by key since the last time."""
        found = (self.queries, self.rows, self.gets)
        self.queries = self.rows = self.gets = 0
        return found


async def fill(api: InProcessApi, groups: tuple[str, ...], count: int) -> None:
    """Store requests that wait for these groups, alike but for their ids."""
    now = api.service.now()
    until = now + timedelta(hours=1)
    action = Action(topic="filler", payload=msgspec.Raw(b'{"n":1}'))
    approval = Approval(
        requirement=Requirement(groups=groups, expires_seconds=3600),
        policy_snapshot="sha256:1",
        job_hash="sha256:2",
        requested_at=now,
        expires_at=until,
    )
    template = await api.service.store.get(JOBS, "default", await api.submit(await api.agent(), topic="two"))
    assert template is not None
    jobs = [
        msgspec.structs.replace(
            template,
            id=f"job_{number:032x}",
            version=1,
            state=JobState.APPROVAL,
            action=action,
            approval=approval,
        )
        for number in range(count)
    ]
    for number in range(0, count, 2000):
        some = changes(*((JOBS, job) for job in jobs[number : number + 2000]))
        await api.service.store.transact(carrying(some, batch_id=f"batch_fill{number}"))


async def test_the_inbox_is_the_same_on_every_store(durable: InProcessApi) -> None:
    await durable.policy(POLICY)
    ada, bob = (
        await durable.person("ada", groups=("Finance", "finance")),
        await durable.person("bob", groups=("fin", "FINANCE", "%", "|")),
    )
    bot = await durable.agent()
    pay = [await durable.submit(bot, expires_in=f"{hours}h") for hours in (3, 1, 2)]
    two = await durable.submit(bot, topic="two", priority="critical")

    first = await durable.get("inbox?limit=2", ada)
    rest = await durable.get(f"inbox?limit=2&cursor={first['next_cursor']}", ada)

    shown = [item["job_id"] for item in (*first["items"], *rest["items"])]
    assert shown == [two, pay[1], pay[2], pay[0]]
    assert rest["next_cursor"] is None
    assert [item["job_id"] for item in (await durable.get("inbox?order=newest", bob))["items"]] == [two]
    assert first["counts"]["waiting_for_me"] == first["counts"]["waiting"] == 4
    await durable.approve(two, ada)
    assert (await durable.get("inbox/counts", ada))["waiting_for_me"] == 3


async def test_a_page_and_the_counts_read_little_of_ten_thousand_that_wait(
    durable: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await durable.policy(POLICY)
    ada = await durable.person("ada", groups=("finance",))
    bob = await durable.person("bob", groups=("filler",))
    await fill(durable, ("filler",), WAITING)
    job = await durable.submit(await durable.agent(), topic="pay")
    reads = Reads(durable.service.store, monkeypatch)

    page = await durable.get("inbox", ada)

    # The filler ends sooner; it waits for others, and none of it is read.
    assert [item["topic"] for item in page["items"]] == ["two", "pay"]
    assert (page["counts"]["waiting_for_me"], page["counts"]["waiting"]) == (2, 1000)
    assert page["counts"]["at_least"] == ["waiting"]
    queries, rows, gets = reads.taken()
    assert (queries < 20, rows < 20, gets < 20) == (True, True, True), (queries, rows, gets)

    newest = await durable.get("inbox?order=newest", ada)
    assert [item["topic"] for item in newest["items"]] == ["pay", "two"]
    (exact,) = (await durable.get("inbox?mine=false&topic=pay", bob))["items"]
    assert (exact["job_id"], exact["why_not"]) == (job, "not_in_groups")
    queries, rows, gets = reads.taken()
    assert rows < 1100, "what was counted for the other"

    reads.taken()
    mine = await durable.get("inbox?limit=50", bob)
    queries, rows, gets = reads.taken()
    assert len(mine["items"]) == 50
    assert (mine["counts"]["waiting_for_me"], mine["counts"]["expiring_soon"]) == (1000, 1000)
    assert rows < 1200, "a page of fifty, and a thousand that were counted"
    assert gets < 70, "what was said of each item, and those who submitted them"
    assert queries < 30


@pytest.mark.parametrize("group", ["50%", "a_b", "wow!", "it's", "a|b", "Größe"])
async def test_a_group_is_found_whatever_its_name(durable: InProcessApi, group: str) -> None:
    asked = POLICY.replace("[finance]", json.dumps([group]))
    await durable.policy(asked)
    ada = await durable.person("ada", groups=(group,))
    many = await durable.person("bob", groups=(*(f"g{number}" for number in range(20)), group))
    job = await durable.submit(await durable.agent())
    for key in (ada, many):
        assert [item["job_id"] for item in (await durable.get("inbox", key))["items"]] == [job]


async def test_everything_that_needs_attention_is_counted(durable: InProcessApi) -> None:
    await durable.policy("{version: v1, default: allow}")
    hand = await durable.key("hand", "worker", "work,submit")
    job = await durable.submit(hand, topic="any")
    (held,) = (await durable.call("POST", "jobs/claim", hand, {"topics": ["any"]})).document["jobs"]
    stale = await durable.call(
        "POST", f"jobs/{job}/complete", hand, {"fence": held["fence"] - 1, "result": 1}
    )
    given_up = {"fence": held["fence"], "error": "no", "retryable": False}
    failed = await durable.call("POST", f"jobs/{job}/fail", hand, given_up)
    begun = await durable.call(
        "POST", "effects/refund-1/begin", hand, {"request_hash": f"sha256:{'0' * 64}", "ttl_seconds": 1}
    )
    assert (stale.word, failed.word, begun.status) == ("fence_stale", "FAILED", 201)
    await asyncio.sleep(1.1)
    await durable.submit(hand, topic="other")  # lists go by the clock of the last decision

    told = await durable.get("inbox/counts")

    assert (told["conflicts_open"], told["effects_ambiguous"], told["dead_letters"]) == (1, 1, 1)
