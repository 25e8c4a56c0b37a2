"""A row that was damaged in the database is refused by itself, and stops no other call."""

from __future__ import annotations

from typing import Any

import apsw
import asyncpg

from interlock.store import store_for
from tests.harness.in_process_api import ASK, InProcessApi, open_api

PATHS = (
    "audit?limit=200",
    "policy/snapshots",
    "api-keys",
    "principals",
    "workflows",
    "limits",
)


async def break_row(url: str, table: str, record_id: str, body: str = '{"tenant":') -> None:
    """Leave half a record where a whole one was."""
    if url.startswith("sqlite"):
        with apsw.Connection(url.removeprefix("sqlite:///")) as database:
            database.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (body, record_id))
        return
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"UPDATE {table} SET body = $1 WHERE id = $2", body, record_id)
    finally:
        await connection.close()


async def ids(api: InProcessApi, path: str) -> list[str]:
    return [item["id"] for item in (await api.get(path))["items"]]


async def test_a_broken_job_cannot_be_decided_and_the_attempt_is_audited(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        broken, whole = await api.submit(bot), await api.submit(bot)
        await break_row(durable_url, "jobs", broken)

        answers = [await api.approve(broken, ada), await api.reject(broken, ada)]
        answers.append(await api.call("POST", f"jobs/{broken}/cancel", api.admin, {}))
        answers.append(await api.call("GET", f"jobs/{broken}", ada))

        assert [(answer.status, answer.word) for answer in answers] == [(409, "job_changed")] * 4
        assert ("approve_refused", "Unreadable") in await api.audit(broken)
        assert (await api.events(broken)) == ["approval.requested"]
        assert (await api.approve(whole, ada)).word == "approved"


async def test_a_broken_job_leaves_the_lists_and_the_queue_to_the_others(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, payer = await api.agent(), await api.key("payer", "worker", "work")
        released = [await api.submit(bot, topic="read") for _ in range(3)]
        asked = [await api.submit(bot) for _ in range(3)]
        for job in (released[0], asked[2]):
            await break_row(durable_url, "jobs", job)

        claimed = [await claim(api, payer) for _ in range(3)]

        assert claimed == [[released[1]], [released[2]], []]
        assert await ids(api, "approvals?state=pending") == [asked[1], asked[0]]
        assert await ids(api, "jobs?limit=2") == [asked[1], asked[0]]


async def test_a_broken_job_does_not_keep_others_from_expiring(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot = await api.agent()
        broken, whole = [await api.submit(bot, expires_in="1s") for _ in range(2)]
        await break_row(durable_url, "jobs", broken)

        while (await api.job(whole))["state"] != "EXPIRED" or not await api.events(whole):
            await api.sweep()
        await api.sweep()

        assert (await api.audit(whole))[-1][0] == "expire"


async def test_a_broken_grant_is_no_permission_and_hides_none(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        bot, ada = await api.agent(), await api.person("ada")
        grants = [await grant(api, ada) for _ in range(2)]
        await break_row(durable_url, "grants", grants[0])

        named = await api.call(
            "POST", "grants/claim", bot, {"task": "deploy", "execution_id": "e0", "grant_id": grants[0]}
        )
        claims = [
            (
                await api.call("POST", "grants/claim", bot, {"task": "deploy", "execution_id": f"e{n}"})
            ).document
            for n in (1, 2)
        ]

        assert (named.status, named.word) == (500, "internal_error")
        assert f"the stored grant {grants[0]} cannot be read" in named.document["detail"]
        assert [each["claimed"] for each in claims] == [True, False]
        assert claims[0]["grant_id"] == grants[1]
        assert await ids(api, "grants") == [grants[1]]


async def claim(api: InProcessApi, worker: str) -> list[str]:
    answer = await api.call("POST", "jobs/claim", worker, {"topics": ["read"], "max": 1})
    return [job["id"] for job in answer.document["jobs"]]


async def grant(api: InProcessApi, approver: str) -> Any:
    return (await api.call("POST", "grants", approver, {"task": "deploy"})).document["id"]


async def test_a_job_that_breaks_while_somebody_holds_it_is_refused_to_them_too(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, payer = await api.agent(), await api.key("payer", "worker", "work")
        job = await api.submit(bot, topic="read")
        assert await claim(api, payer) == [job]
        await break_row(durable_url, "jobs", job)

        words: dict[str, dict[str, Any]] = {
            "renew": {},
            "complete": {"result": 1},
            "fail": {"error": "x", "retryable": True},
            "release": {},
        }
        for word, fields in words.items():
            answer = await api.call("POST", f"jobs/{job}/{word}", payer, {"fence": 1, **fields})
            assert (answer.status, answer.word) == (409, "job_changed"), word
        retried = await api.call("POST", f"jobs/{job}/retry", api.admin, {})
        assert (retried.status, retried.word) == (409, "job_changed")
        assert await api.metric("interlock_unreadable_records") > 0


async def test_a_broken_row_leaves_every_other_list_whole_but_for_itself(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        policies = [
            await api.policy(f"version: v1\ndefault: {word}\n") for word in ("allow", "deny", "allow")
        ]
        for name in ("bot0", "bot1"):
            await api.agent(name)
        for name in ("w", "v"):
            await api.call("PUT", f"workflows/{name}", api.admin, {"steps": [{"id": "a", "topic": "t"}]})
            await api.call("PUT", f"limits/{name}", api.admin, {"max_concurrent_runs": 2})
        first = (await api.get("audit?limit=200"))["items"][0]
        paths = (*PATHS, f"audit?limit=200&action={first['action']}")
        lists = {path: len((await api.get(path))["items"]) for path in paths}

        await break_row(durable_url, "audit_entries", first["id"])
        await break_row(durable_url, "policy_snapshots", policies[0])
        await break_row(durable_url, "principals", "bot1")
        await break_row(durable_url, "workflows", "w")
        await break_row(durable_url, "limits", "w")

        assert {path: len((await api.get(path))["items"]) for path in paths} == {
            path: count - 1 for path, count in lists.items()
        }
