"""A gated call holds its own job while it runs, so that one process runs it, and says how it ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock import Conflict, Denied, Interlock
from interlock.sdk.async_client import AsyncInterlock
from interlock.sdk.flow import Request, Response
from interlock.sdk.retry import NO_RETRIES


@pytest.fixture
def il(tmp_path: Path) -> Iterator[Interlock]:
    """A client of an embedded store that allows everything."""
    with Interlock(store=f"sqlite:///{tmp_path}/interlock.db") as client:
        client.policy_put("version: v1\ndefault: allow\n")
        yield client


def only_job(il: Interlock) -> tuple[str, int, str]:
    (job,) = il.jobs().items
    return job.state, job.attempt, str((job.error or {}).get("type", ""))


def test_a_call_that_returns_has_done_its_job(il: Interlock) -> None:
    @il.gate("a")
    def run(n: int) -> int:
        assert only_job(il)[0] == "RUNNING"
        return n + 1

    assert run(1) == 2
    assert only_job(il) == ("SUCCEEDED", 1, "")


def test_a_call_that_raises_has_failed_its_job_for_good(il: Interlock) -> None:
    @il.gate("a")
    def run() -> None:
        raise ValueError("secret")

    with pytest.raises(ValueError, match="secret"):
        run()
    assert only_job(il) == ("FAILED", 1, "ValueError")


def test_a_named_call_that_raised_may_be_made_again_and_asks_nobody_anew(il: Interlock) -> None:
    tries: list[int] = []

    @il.gate("a", key=lambda n: f"intent {n}")
    def run(n: int) -> str:
        tries.append(n)
        if len(tries) == 1:
            raise ValueError("first")
        return "fine"

    with pytest.raises(ValueError, match="first"):
        run(1)
    assert run(1) == "fine"
    assert only_job(il) == ("SUCCEEDED", 2, "")
    with pytest.raises(Conflict, match="SUCCEEDED"):
        run(1)


def test_of_many_who_make_the_same_named_call_at_once_one_runs_it(il: Interlock) -> None:
    ran: list[int] = []
    ends: list[str] = []
    go = threading.Barrier(6)

    @il.gate("a", key=lambda n: f"intent {n}")
    def run(n: int) -> None:
        ran.append(n)

    def call() -> None:
        go.wait()
        try:
            run(7)
            ends.append("ran")
        except Conflict:
            ends.append("conflict")

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ran == [7]
    assert sorted(ends) == ["conflict"] * 5 + ["ran"]


def test_a_policy_tightened_between_yes_and_run_stops_the_call(il: Interlock) -> None:
    @il.gate("a", key=lambda: "same")
    def run() -> None:
        raise ValueError("first time")

    with pytest.raises(ValueError, match="first time"):
        run()
    il.policy_put("version: v1\ndefault: deny\n")
    with pytest.raises(Denied):
        run()
    assert only_job(il)[0] == "DENIED"


def test_a_generator_has_done_its_job_when_it_is_through_or_no_longer_wanted(il: Interlock) -> None:
    @il.gate("a")
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    assert list(count(3)) == [0, 1, 2]
    part = count(3)
    next(part)
    part.close()  # type: ignore[attr-defined]
    assert [job.state for job in il.jobs().items] == ["SUCCEEDED", "SUCCEEDED"]


def test_coroutines_and_async_generators_do_alike(il: Interlock) -> None:
    ail = AsyncInterlock(store=il.store)

    @ail.gate("a")
    async def run(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @ail.gate("a")
    async def count(to: int) -> AsyncIterator[int]:
        for n in range(to):
            yield n

    @ail.gate("a")
    async def fail() -> None:
        raise ValueError("no")

    async def all_of_them() -> None:
        assert await run(1) == 1
        assert [n async for n in count(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="no"):
            await fail()
        await ail.close()

    asyncio.run(all_of_them())
    assert sorted(job.state for job in il.jobs().items) == ["FAILED", "SUCCEEDED", "SUCCEEDED"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_whose_job_is_lost_stops_renewing_it(
    il: Interlock, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr("interlock.sdk.gate_running._RENEW_SECONDS", 0.02)

    def lose_it() -> None:
        (job,) = il.jobs().items
        assert job.fence is not None
        il.release(job.id, job.fence)

    def is_refused() -> bool:
        return bool(il.conflicts(kind="stale_fence").items)

    @il.gate("a")
    def run() -> None:
        lose_it()
        while not is_refused():
            time.sleep(0.02)
        time.sleep(0.2)

    @il.gate("a")
    async def run_in_loop() -> None:
        lose_it()
        while not is_refused():
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)

    _ = asyncio.run(run_in_loop()) if is_async else run()
    (conflict,) = il.conflicts(kind="stale_fence").items
    assert conflict.count == 2  # one renewal, and how the call ended


NOBODY = Response(status=404, body=b"<html>nobody is there</html>")


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """As many renewals as find nobody; after that many seconds each, nobody would wait for the one that does."""
    monkeypatch.setattr("interlock.sdk.gate_running._RENEW_SECONDS", 1)
    monkeypatch.setattr("interlock.sdk.gate_running._RENEW_AGAIN_SECONDS", 0.01)
    return iter(range(40))


def test_a_renewal_that_found_nobody_is_soon_sent_again(
    monkeypatch: pytest.MonkeyPatch, il: Interlock, renewals: Iterator[int]
) -> None:
    answered = threading.Event()

    def sent(request: Request) -> Response:
        if request.path.endswith("/renew"):
            if next(renewals, None) is not None:
                return NOBODY
            answered.set()
        return send(request)

    with Interlock(store=il.store, retry=NO_RETRIES) as client:
        send = client.transport.send
        monkeypatch.setattr(client.transport, "send", sent)

        @client.gate("a")
        def run() -> bool:
            return answered.wait(20)

        assert run()


async def test_one_in_a_loop_is_soon_sent_again(
    monkeypatch: pytest.MonkeyPatch, il: Interlock, renewals: Iterator[int]
) -> None:
    async with AsyncInterlock(store=il.store, retry=NO_RETRIES) as client:
        answered, send = asyncio.Event(), client.transport.send

        async def sent(request: Request) -> Response:
            if request.path.endswith("/renew"):
                if next(renewals, None) is not None:
                    return NOBODY
                answered.set()
            return await send(request)

        monkeypatch.setattr(client.transport, "send", sent)

        @client.gate("a")
        async def run() -> None:
            async with asyncio.timeout(20):
                await answered.wait()

        await run()
