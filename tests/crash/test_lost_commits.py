"""A COMMIT whose answer never arrives is settled, not guessed: the caller gets the truth or is told to ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from tests.crash.conftest import Start
from tests.harness.load import Answer, Request, fire, get, post
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.server import InterlockServer, Key
from tests.races.deployment import account_of, read_store

HANG_SECONDS = 60
Keys = Callable[[str], dict[str, Key]]


class ProxiedServer:
    """A server behind the proxy, one job that waits for a decision, and the people to make it."""

    def __init__(
        self, server: InterlockServer, proxy: PostgresProxy, keys: dict[str, Key], store: str
    ) -> None:
        self.server, self.proxy, self.keys, self.store = server, proxy, keys, store

    async def send(self, *requests: Request) -> list[Answer]:
        return await fire(self.server.url, requests, timeout_seconds=HANG_SECONDS)

    async def submit(self, key: str) -> Answer:
        headers = {**self.keys["bot"].headers, "Idempotency-Key": key}
        (answer,) = await self.send(post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers=headers))
        return answer

    def approve(self, job: str, reviewer: int = 0) -> Request:
        headers = {**self.keys[f"reviewer-{reviewer}"].headers, "Idempotency-Key": f"{job}-{reviewer}"}
        return post(f"/api/v1/approvals/{job}/approve", {}, headers=headers)

    async def events(self, job: str) -> Counter[str]:
        return (await read_store(self.store, lambda service: account_of(service, job)))[0]

    async def jobs(self) -> list[str]:
        (answer,) = await self.send(get("/api/v1/jobs", headers=self.keys["bot"].headers))
        return [job["id"] for job in answer.json()["items"]]


@pytest.fixture
async def proxied(
    postgres_proxy: PostgresProxy, postgres_url: str, start: Start, keys_in: Keys
) -> ProxiedServer:
    """A server that reaches its database only through the proxy, and commits only when it is asked to."""
    keys = await asyncio.to_thread(keys_in, postgres_url)
    server = await asyncio.to_thread(start, postgres_proxy.url, INTERLOCK_SWEEP_SECONDS="3600")
    return ProxiedServer(server, postgres_proxy, keys, postgres_url)


async def test_a_commit_that_happened_is_answered_as_if_nothing_had_been_lost(proxied: ProxiedServer) -> None:
    job = (await proxied.submit("s")).json()["id"]
    trap = proxied.proxy.cut_after_commit()

    (answer,) = await proxied.send(proxied.approve(job))

    assert trap.sprung
    assert (answer.status, answer.word) == (200, "approved")
    assert await proxied.events(job) == {"approval.requested": 1, "approval.approved": 1}
    (again,) = await proxied.send(proxied.approve(job))
    assert again.body == answer.body


async def test_a_commit_that_never_arrived_is_made_again(proxied: ProxiedServer) -> None:
    job = (await proxied.submit("s")).json()["id"]
    trap = proxied.proxy.cut_before_commit()

    (answer,) = await proxied.send(proxied.approve(job))

    assert trap.sprung
    assert (answer.status, answer.word) == (200, "approved")
    assert await proxied.events(job) == {"approval.requested": 1, "approval.approved": 1}


async def test_a_submit_whose_commit_was_lost_makes_one_job(proxied: ProxiedServer) -> None:
    for trap in (proxied.proxy.cut_after_commit, proxied.proxy.cut_before_commit):
        caught = trap()
        first = await proxied.submit(trap.__name__)
        assert caught.sprung
        again = await proxied.submit(trap.__name__)
        assert (first.status, again.body) == (202, first.body)

    assert len(await proxied.jobs()) == 2


async def test_a_burst_whose_commit_was_lost_is_decided_once(proxied: ProxiedServer) -> None:
    for trap in (proxied.proxy.cut_after_commit, proxied.proxy.cut_before_commit):
        job = (await proxied.submit(f"burst-{trap.__name__}")).json()["id"]
        trap()

        answers = await proxied.send(*(proxied.approve(job, n) for n in range(20)))

        assert Counter(answer.word for answer in answers) == {"approved": 1, "already_approved": 19}
        assert (await proxied.events(job))["approval.approved"] == 1


async def test_a_commit_in_limbo_is_never_answered_with_a_guess(proxied: ProxiedServer) -> None:
    """The old backend may still commit after a reconnect found nothing: the caller must not be told either."""
    job = (await proxied.submit("s")).json()["id"]
    trap = proxied.proxy.hold_commit()
    asking = asyncio.create_task(proxied.send(proxied.approve(job)))
    await asyncio.to_thread(trap.wait)

    committed = await asyncio.to_thread(trap.release)
    (answer,) = await asking

    assert committed
    assert (answer.status, answer.word) == (200, "approved")
    assert await proxied.events(job) == {"approval.requested": 1, "approval.approved": 1}


async def test_a_commit_that_stays_in_limbo_ends_by_itself_and_a_repeat_is_safe(
    proxied: ProxiedServer,
) -> None:
    job = (await proxied.submit("s")).json()["id"]
    trap = proxied.proxy.hold_commit()

    (answer,) = await proxied.send(proxied.approve(job))
    released = await asyncio.to_thread(trap.release)
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            (again,) = await proxied.send(proxied.approve(job))
            if again.status == 200:
                break
            assert again.word in ("lock_busy", "store_unavailable", "outcome_unknown"), again.body
            await asyncio.sleep(0.05)

    assert (answer.status, answer.word) in {(200, "approved"), (503, "outcome_unknown")}
    assert answer.status != 200 or not released
    assert again.word == "approved"
    assert await proxied.events(job) == {"approval.requested": 1, "approval.approved": 1}


async def test_a_commit_that_a_standby_did_not_confirm_is_unknown_and_a_repeat_tells(
    proxied: ProxiedServer,
) -> None:
    job = (await proxied.submit("s")).json()["id"]
    trap = proxied.proxy.warn_on_commit()

    (answer,) = await proxied.send(proxied.approve(job))
    (again,) = await proxied.send(proxied.approve(job))

    assert trap.sprung
    assert (answer.status, answer.word) == (503, "outcome_unknown")
    assert answer.headers["retry-after"]
    assert (again.status, again.word, again.headers["idempotency-replayed"]) == (200, "approved", "true")
    assert await proxied.events(job) == {"approval.requested": 1, "approval.approved": 1}


async def test_without_a_key_a_lost_commit_still_makes_one_job_and_one_decision(
    proxied: ProxiedServer,
) -> None:
    """Nothing remembers the answer here, so only settling the COMMIT keeps it from being made twice."""
    submit = post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers=proxied.keys["bot"].headers)
    caught = proxied.proxy.cut_after_commit()
    (made,) = await proxied.send(submit)
    assert caught.sprung
    assert await proxied.jobs() == [made.json()["id"]]

    job = made.json()["id"]
    caught = proxied.proxy.cut_after_commit()
    approve = post(f"/api/v1/approvals/{job}/approve", {}, headers=proxied.keys["reviewer-0"].headers)
    (answer,) = await proxied.send(approve)
    assert caught.sprung
    assert (answer.status, answer.word) == (200, "approved")
    assert await proxied.events(job) == {"approval.requested": 1, "approval.approved": 1}
