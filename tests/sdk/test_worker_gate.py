"""A gated call holds its own job while it runs, so that one process runs it, and says how it ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock import Ambiguous, Busy, Denied, Interlock, NotDone
from interlock.sdk.async_client import AsyncInterlock
from interlock.sdk.flow import Request, Response
from interlock.sdk.retry import NO_RETRIES


@pytest.fixture
def il(tmp_path: Path) -> Iterator[Interlock]:
    """A client of an embedded store that allows everything."""
    with Interlock(store=f"sqlite:///{tmp_path}/interlock.db") as client:
        client.apply_policy("version: v1\ndefault: allow\n")
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


def test_of_many_who_make_the_same_named_call_at_once_one_runs_it(il: Interlock) -> None:
    ran: list[int] = []
    ends: list[object] = []
    go, done = threading.Barrier(6), threading.Event()

    @il.gate("a", key=lambda n: f"intent {n}")
    def run(n: int) -> int:
        ran.append(n)
        assert done.wait(20)
        return n

    def call() -> None:
        go.wait()
        try:
            ends.append(run(7))
        except Busy as busy:
            ends.append(type(busy))
        if len(ends) == 5:
            done.set()

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ran == [7]
    assert ends == [Busy] * 5 + [7]
    assert run(7) == 7
    assert ran == [7]


def test_a_policy_tightened_between_yes_and_run_stops_the_call(il: Interlock) -> None:
    @il.gate("a", key=lambda: "same")
    def run() -> None:
        raise NotDone("first time")

    with pytest.raises(NotDone, match="first time"):
        run()
    il.apply_policy("version: v1\ndefault: deny\n")
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
def test_a_call_whose_job_is_lost_stops_renewing_it_and_its_result_is_refused(
    il: Interlock, is_async: bool
) -> None:
    seen: list[bool] = []

    def lose_it() -> None:
        call = il.current()
        seen.append(call.lost)
        il.release_job(call.job.id, call.fence)

    def is_refused() -> bool:
        return bool(il.conflicts(kind="stale_fence").items)

    @il.gate("a", lease=0.3)
    def run() -> None:
        lose_it()
        while not is_refused():
            time.sleep(0.02)
        time.sleep(0.3)
        seen.append(il.current().lost)

    @il.gate("a", lease=0.3)
    async def run_in_loop() -> None:
        lose_it()
        while not is_refused():
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        seen.append(il.current().lost)

    with pytest.raises(Ambiguous, match="hold on this call"):
        _ = asyncio.run(run_in_loop()) if is_async else run()
    assert seen == [False, True]
    (conflict,) = il.conflicts(kind="stale_fence").items
    assert conflict.count == 2  # one renewal, and how the call ended


NOBODY = Response(status=404, body=b"<html>nobody is there</html>")


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """As many renewals as find nobody; after that many seconds each, nobody would wait for the one that does."""
    monkeypatch.setattr("interlock.kernel.hold._RETRY_SECONDS_MAX", 0.01)
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

        @client.gate("a", lease=3)
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

        @client.gate("a", lease=3)
        async def run() -> None:
            async with asyncio.timeout(20):
                await answered.wait()

        await run()
