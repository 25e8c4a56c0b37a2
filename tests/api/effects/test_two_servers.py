"""Two servers on one PostgreSQL: one attempt at a time, whichever server is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from tests.harness.load import Answer, Request, fire, post
from tests.harness.server import InterlockServer
from tests.harness.soak import dose

ROUNDS = 10
CALLERS = 50
HANG_SECONDS = 120


async def test_fifty_begins_on_two_servers_are_one_attempt(
    serve: Callable[..., InterlockServer], postgres_url: str
) -> None:
    servers = [await asyncio.to_thread(serve, postgres_url) for _ in range(2)]
    urls = [server.url for server in servers]
    key = await asyncio.to_thread(servers[0].create_key, "bot", kind="agent", roles="submit")
    for number in range(dose(ROUNDS)):
        body = {"request_hash": "sha256:one"}
        path = f"/api/v1/effects/pay%3A{number}/begin"
        requests = [post(path, body, headers=key.headers) for _ in range(CALLERS)]
        answers = await _at_once(urls, requests)
        counted = Counter(answer.json().get("code", answer.json()["state"]) for answer in answers)
        assert counted == {"IN_PROGRESS": 1, "effect_in_progress": CALLERS - 1}, number
        (begun,) = [answer.json() for answer in answers if answer.status == 201]
        settle = {"fence": begun["fence"], "error": "no money", "safe_to_retry": True}
        await _at_once(urls, [post(path.replace("begin", "fail"), settle, headers=key.headers)])
        again = await _at_once(urls, requests)
        assert [answer.json()["fence"] for answer in again if answer.status == 201] == [2]


async def test_touches_and_begins_on_two_servers_wait_for_each_other_and_none_is_turned_away(
    serve: Callable[..., InterlockServer], postgres_url: str
) -> None:
    """Every touch by another actor opens a conflict, so a caller that looked before the last one must look again."""
    servers = [await asyncio.to_thread(serve, postgres_url) for _ in range(2)]
    urls = [server.url for server in servers]
    bot = await asyncio.to_thread(servers[0].create_key, "bot", kind="agent", roles="submit")
    people = [
        await asyncio.to_thread(servers[0].create_key, name, kind="person", roles="review")
        for name in ("ada", "bob")
    ]
    lease = (await _at_once(urls, [post("/api/v1/leases", {"resource": "doc"}, headers=bot.headers)]))[
        0
    ].json()
    ref = {"id": lease["lease_id"], "fence": lease["fence"]}
    requests: list[Request] = []
    for number in range(dose(40)):
        touch, by = {"version": f"v{number}"}, people[number % 2]
        target = {"key": "doc", "version": f"v{number}"}
        begin = {"request_hash": "sha256:one", "lease": ref, "target": target}
        requests.append(post("/api/v1/targets/doc/touch", touch, headers=by.headers))
        requests.append(post(f"/api/v1/effects/edit-{number}/begin", begin, headers=bot.headers))
    answers = await _at_once(urls, requests)
    assert {answer.status for answer in answers[::2]} == {200}
    assert {(answer.status, answer.word) for answer in answers[1::2]} <= {(201, ""), (409, "superseded")}


async def _at_once(urls: list[str], requests: list[Request]) -> list[Answer]:
    return await fire(urls, requests, connections=CALLERS, timeout_seconds=HANG_SECONDS)
