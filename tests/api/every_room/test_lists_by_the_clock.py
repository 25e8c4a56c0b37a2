"""Lists by state go by the clock: what is past its time is listed as such before any sweep has run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.harness.in_process_api import InProcessApi

POLICY = """
version: v1
rules:
  - id: brief
    when: {topic: brief}
    decision: require_human
    approval: {expires_in: 1s}
  - id: escalating
    when: {topic: escalating}
    decision: require_human
    approval: {expires_in: 1h, groups: [a], escalate: [{after: 1s, groups: [b]}]}
  - id: ask
    when: {topic: pay}
    decision: require_human
  - id: read
    when: {topic: read}
    decision: allow
"""


async def past(moment: str) -> None:
    """Return once this moment has passed."""
    while (left := (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()) >= 0:
        await asyncio.sleep(left + 0.01)


async def listed(api: InProcessApi, path: str, name: str = "id") -> list[tuple[str, str]]:
    """Who is on a list, and in which state it is shown."""
    return [(item[name], item["state"]) for item in (await api.get(path))["items"]]


async def ids(api: InProcessApi, path: str) -> list[str]:
    return [each for each, _ in await listed(api, path)]


async def test_a_request_past_its_time_is_listed_as_expired_and_no_longer_as_waiting(
    durable: InProcessApi,
) -> None:
    await durable.policy(POLICY)
    bot = await durable.agent()
    escalating, brief, waiting = [
        await durable.submit(bot, topic=topic) for topic in ("escalating", "brief", "pay")
    ]
    await past((await durable.job(brief))["approval"]["expires_at"])

    assert await ids(durable, "approvals?state=pending") == [waiting, escalating]
    assert await ids(durable, "approvals?state=expired") == [brief]
    assert await listed(durable, "jobs?state=EXPIRED") == [(brief, "EXPIRED")]
    assert await ids(durable, "jobs?state=EXPIRED&topic=brief") == [brief]
    assert await ids(durable, "jobs?state=EXPIRED&topic=pay") == []
    assert await ids(durable, "jobs?state=APPROVAL") == [waiting, escalating]
    assert await ids(durable, "jobs?state=APPROVAL&topic=brief") == []

    await durable.sweep()
    assert await ids(durable, "approvals?state=pending") == [waiting, escalating]
    assert await ids(durable, "approvals?state=expired") == [brief]
    assert await ids(durable, "jobs?state=EXPIRED") == [brief]


async def test_a_job_past_its_own_time_is_listed_as_expired(durable: InProcessApi) -> None:
    await durable.policy(POLICY)
    bot = await durable.agent()
    released = await durable.submit(bot, topic="read", expires_in="1s")
    asked = await durable.submit(bot, topic="pay", expires_in="1s")
    await past((await durable.job(asked))["expires_at"])

    assert await ids(durable, "jobs?state=EXPIRED") == [asked, released]
    assert await ids(durable, "jobs?state=PENDING") == []
    assert await ids(durable, "approvals?state=expired") == [asked]
    assert await ids(durable, "approvals?state=pending") == []


async def test_pages_of_what_expired_meanwhile_leave_nothing_out_and_show_nothing_twice(
    durable: InProcessApi,
) -> None:
    await durable.policy(POLICY)
    bot = await durable.agent()
    topics = ["brief", "pay", "escalating", "brief", "brief", "pay", "brief", "escalating", "brief"]
    made = [(await durable.submit(bot, topic=topic), topic) for topic in topics]
    await past((await durable.job(made[-1][0]))["approval"]["expires_at"])
    newest = made[::-1]

    assert await every(durable, "approvals?state=expired") == [
        job for job, topic in newest if topic == "brief"
    ]
    assert await every(durable, "approvals?state=pending") == [
        job for job, topic in newest if topic != "brief"
    ]


async def every(api: InProcessApi, path: str) -> list[str]:
    """All ids of a list, two at a time; a page holds no more than was asked for."""
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page: Any = await api.get(f"{path}&limit=2" + (f"&cursor={cursor}" if cursor else ""))
        assert len(page["items"]) <= 2
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    return found


async def test_a_run_that_stopped_renewing_is_listed_as_lost(durable: InProcessApi) -> None:
    bot = await durable.agent()
    for ttl in (1, 600):
        started = await durable.call("POST", "workflows/w/runs", bot, {"ttl_seconds": ttl})
        assert started.status == 201, started.document
    runs = (await durable.get("workflow-runs"))["items"]
    live, lost = (run["run_id"] for run in runs)
    await past(runs[1]["slot_expires_at"])

    for narrowed in ("", "&workflow=w"):
        found = await listed(durable, f"workflow-runs?state=running{narrowed}", "run_id")
        assert found == [(live, "running")]
        assert await listed(durable, f"workflow-runs?state=lost{narrowed}", "run_id") == [(lost, "lost")]
    assert await listed(durable, "workflow-runs?state=lost&workflow=other", "run_id") == []


async def test_an_effect_past_its_time_is_listed_as_ambiguous(durable: InProcessApi) -> None:
    bot = await durable.agent()
    for name, ttl in (("doubtful", 1), ("under-way", 600)):
        body = {"request_hash": "sha256:" + "0" * 64, "ttl_seconds": ttl}
        begun = await durable.call("POST", f"effects/{name}/begin", bot, body)
        assert begun.status == 201, begun.document
    await past((await durable.get("effects/doubtful"))["expires_at"])

    found = await listed(durable, "effects?state=IN_PROGRESS", "action_id")
    assert found == [("under-way", "IN_PROGRESS")]
    assert await listed(durable, "effects?state=AMBIGUOUS", "action_id") == [("doubtful", "AMBIGUOUS")]


async def test_a_lease_past_its_time_is_not_listed_as_live(durable: InProcessApi) -> None:
    bot = await durable.agent()
    taken = [
        (await durable.call("POST", "leases", bot, {"resource": f"doc:{ttl}", "ttl_seconds": ttl})).document
        for ttl in (60, 0.2)
    ]
    lasting = taken[0]["lease_id"]
    await past(taken[1]["expires_at"])

    for narrowed in ("", "&owner=bot", "&resource=doc:60", "&resource=doc:60&owner=bot"):
        found = await listed(durable, f"leases?live=true{narrowed}", "lease_id")
        assert found == [(lasting, "claimed")]
    assert await listed(durable, "leases?live=true&resource=doc:0.2", "lease_id") == []
    assert await listed(durable, "leases?resource=doc:0.2", "lease_id") == [(taken[1]["lease_id"], "stale")]


async def test_a_request_past_its_time_no_longer_waits_for_its_target(durable: InProcessApi) -> None:
    await durable.policy(POLICY)
    bot = await durable.agent()
    target = {"target": {"key": "doc:1", "version": "v1"}}
    brief, waiting = [await durable.submit(bot, topic=topic, **target) for topic in ("brief", "pay")]
    await past((await durable.job(brief))["approval"]["expires_at"])

    shown = await durable.get("targets/doc:1")
    assert [each["job_id"] for each in shown["pending_approvals"]] == [waiting]
    await durable.call("POST", "targets/doc:1/touch", durable.admin, {"version": "v2"})
    (conflict,) = (await durable.get("conflicts"))["items"]
    assert conflict["affected"]["jobs"] == [waiting]
