"""SIGTERM finishes what was accepted, lets go of who only waits, and tells the log no secret."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from tests.crash.conftest import Start
from tests.crash.test_locked_file import locked
from tests.harness.load import fire, get, post, tally
from tests.harness.server import InterlockServer, Key

HANG_SECONDS = 60
ACCEPTED = 100
Keys = Callable[[str], dict[str, Key]]


async def test_everything_accepted_before_sigterm_is_answered(
    sqlite_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, sqlite_url)
    server = await asyncio.to_thread(start, sqlite_url, INTERLOCK_ACQUIRE_SECONDS="30")
    headers = keys["bot"].headers
    (made,) = await fire(server.url, [post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers=headers)])
    job = made.json()["id"]
    request = post("/api/v1/jobs", {"topic": "read", "payload": {}}, headers=headers)

    with locked(sqlite_url):
        asking = asyncio.create_task(
            fire(server.url, [request] * ACCEPTED, connections=ACCEPTED, timeout_seconds=HANG_SECONDS)
        )
        waiting = asyncio.create_task(
            fire(
                server.url,
                [get(f"/api/v1/jobs/{job}?wait_seconds=60", headers=headers)],
                timeout_seconds=HANG_SECONDS,
            )
        )
        await accepted(server, ACCEPTED + 1)
        ending = asyncio.create_task(asyncio.to_thread(server.terminate))
        (poll,) = await waiting
        assert not asking.done()

    answers = await asking
    assert tally(answers) == {(201, ""): ACCEPTED}
    assert len({answer.json()["id"] for answer in answers}) == ACCEPTED
    assert (poll.status, poll.json()["state"]) == (200, "APPROVAL")
    assert await ending == 0


async def test_a_server_under_load_stops_in_good_order_and_loses_nothing(
    sqlite_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, sqlite_url)
    server = await asyncio.to_thread(start, sqlite_url)
    bot = keys["bot"].headers
    requests = [
        post("/api/v1/jobs", {"topic": "read", "payload": {"n": n}}, headers=bot) for n in range(3000)
    ]

    asking = asyncio.create_task(fire(server.url, requests, connections=32, timeout_seconds=HANG_SECONDS))
    await asyncio.sleep(0.5)
    code = await asyncio.to_thread(server.terminate)
    answers = await asking

    assert code == 0
    assert {status for status, _ in tally(answers)} <= {201, 0}
    promised = {answer.json()["id"] for answer in answers if answer.status == 201}
    assert promised
    await asyncio.to_thread(server.start)
    assert promised <= await every_job(server, bot)


async def test_the_log_names_requests_and_callers_but_holds_no_secret(
    sqlite_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, sqlite_url)
    server = await asyncio.to_thread(start, sqlite_url, INTERLOCK_LOG_LEVEL="debug")
    bot, root = keys["bot"], keys["root"]
    guessed = "il_0123456789abcdef_a-guess-that-is-wrong"
    made = post("/api/v1/principals/eve/keys", {"kind": "person", "roles": ["review"]}, headers=root.headers)
    answers = await fire(
        server.url,
        [
            post("/api/v1/jobs", {"topic": "pay", "payload": {"card": "4111-1111"}}, headers=bot.headers),
            post(
                "/api/v1/jobs",
                {"topic": "pay", "payload": {"card": "4111-1111"}, "x": 1},
                headers=bot.headers,
            ),
            get("/api/v1/jobs", headers={"X-API-Key": bot.key, "X-Request-Id": "find-me"}),
            get("/api/v1/jobs", headers={"Authorization": f"Bearer {guessed}"}),
            get(f"/api/v1/jobs/{bot.key}", headers=bot.headers),
            get(f"/api/v1/jobs?topic={bot.key}&nonsense={bot.key}", headers=bot.headers),
            made,
        ],
    )
    secrets = [bot.key, root.key, guessed, answers[-1].json()["key"]]
    await asyncio.to_thread(server.terminate)

    log = server.log(100_000)

    assert '"request_id":"find-me"' in log
    assert '"principal":"bot"' in log
    for secret in secrets:
        assert secret.split("_", 2)[2] not in log
    assert "4111-1111" not in log
    assert not re.search("il_[0-9a-f]{16}_", log)


async def accepted(server: InterlockServer, count: int) -> None:
    """Return once the server is answering this many requests, besides the one that asks."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            (metrics,) = await fire(server.url, [get("/metrics")])
            found = re.search(rb"^interlock_requests_in_flight (\d+)", metrics.body, re.MULTILINE)
            if found and int(found[1]) > count:
                return
            await asyncio.sleep(0.01)


async def every_job(server: InterlockServer, headers: dict[str, str]) -> set[str]:
    found: set[str] = set()
    cursor = ""
    while True:
        (page,) = await fire(server.url, [get(f"/api/v1/jobs?limit=200{cursor}", headers=headers)])
        found |= {job["id"] for job in page.json()["items"]}
        if page.json()["next_cursor"] is None:
            return found
        cursor = f"&cursor={page.json()['next_cursor']}"
