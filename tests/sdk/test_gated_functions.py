"""A gated function stays what it was: plain, method, generator, async, with its name and signature."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from interlock import AsyncInterlock, Interlock, Job
from tests.sdk.approval_team import ApprovalTeam


def test_a_gated_function_keeps_name_doc_signature_and_kind(team: ApprovalTeam) -> None:
    async def fetch(page: str, *, depth: int = 1) -> str:
        """Fetch a page."""
        return page

    gated = team.il.gate("read.page")(fetch)
    assert (gated.__name__, gated.__doc__, gated.__module__) == ("fetch", "Fetch a page.", __name__)
    assert inspect.signature(gated) == inspect.signature(fetch)
    assert inspect.iscoroutinefunction(gated)


class Payer:
    def __init__(self, name: str) -> None:
        self.name = name

    def pay(self, invoice: str, amount: int = 5) -> str:
        return f"{self.name} paid {amount} for {invoice}"

    @classmethod
    def open(cls, name: str) -> Payer:
        return cls(name)

    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b


def test_methods_of_every_kind_are_gated_without_their_object(team: ApprovalTeam) -> None:
    gate = team.il.gate("read.payer")

    class Gated(Payer):
        pay = gate(Payer.pay)
        open = gate(Payer.__dict__["open"])
        open_too = classmethod(gate(Payer.__dict__["open"].__func__))
        add = gate(Payer.__dict__["add"])
        add_too = staticmethod(gate(Payer.add))

    payer = Gated.open("front")
    assert type(payer) is Gated
    assert type(Gated.open_too("back")) is Gated
    assert payer.pay("i-1") == "front paid 5 for i-1"
    assert Gated.pay(payer, invoice="i-2", amount=6) == "front paid 6 for i-2"
    assert (Gated.add(1, b=2), payer.add_too(3, 4)) == (3, 7)
    shown = [job.payload for job in team.il.jobs().items][::-1]
    assert shown == [
        {"name": "front"},
        {"name": "back"},
        {"invoice": "i-1", "amount": 5},
        {"invoice": "i-2", "amount": 6},
        {"a": 1, "b": 2},
        {"a": 3, "b": 4},
    ]


def test_a_generator_asks_when_it_is_begun(team: ApprovalTeam) -> None:
    @team.il.gate("pay.many", on_pending=team.approve)
    def pay(n: int) -> Generator[int, str, str]:
        received = yield n
        yield len(received)
        return "done"

    payments = pay(3)
    assert team.il.jobs().items == ()
    assert (next(payments), payments.send("four")) == (3, 4)
    with pytest.raises(StopIteration) as end:
        next(payments)
    assert end.value.value == "done"
    assert len(team.seen) == 1


@pytest.fixture(params=["il", "ail"], ids=["blocking client", "async client"])
def client(request: pytest.FixtureRequest, team: ApprovalTeam) -> Interlock | AsyncInterlock:
    return getattr(team, request.param)


async def test_an_async_function_waits_without_holding_up_the_loop(
    team: ApprovalTeam, client: Interlock | AsyncInterlock
) -> None:
    asked: asyncio.Queue[Job] = asyncio.Queue()

    @client.gate("pay.invoice", on_pending=asked.put_nowait)
    async def pay(invoice: str) -> str:
        return f"paid {invoice}"

    async def decide() -> None:
        job = await asked.get()
        await asyncio.to_thread(team.approve, job)

    paid, _ = await asyncio.gather(pay("i-1"), decide())
    assert paid == "paid i-1"


async def test_an_async_generator_asks_when_it_is_begun_and_passes_everything_through(
    team: ApprovalTeam, client: Interlock | AsyncInterlock
) -> None:
    closed: list[bool] = []

    @client.gate("read.many")
    async def read(n: int) -> AsyncGenerator[Any, Any]:
        try:
            sent = yield n
            try:
                yield sent
            except KeyError as thrown:
                yield f"caught {thrown}"
            yield "last"
        finally:
            closed.append(True)

    pages = read(1)
    assert team.il.jobs().items == ()
    assert await anext(pages) == 1
    assert await pages.asend("two") == "two"
    assert await pages.athrow(KeyError("k")) == "caught 'k'"
    await pages.aclose()
    assert closed == [True]
    assert [item async for item in read(7)] == [7, None, "last"]


async def test_a_cancelled_wait_ends_at_once_and_runs_nothing(
    team: ApprovalTeam, client: Interlock | AsyncInterlock
) -> None:
    asked = asyncio.Event()
    ran: list[str] = []

    @client.gate("pay.invoice", on_pending=lambda job: asked.set())
    async def pay(invoice: str) -> None:
        ran.append(invoice)

    paying = asyncio.create_task(pay("i-1"))
    await asked.wait()
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    assert ran == []


def test_an_async_client_refuses_a_function_that_would_block(team: ApprovalTeam) -> None:
    with pytest.raises(TypeError, match="make it async def"):
        team.ail.gate("read.page")(lambda page: page)


def test_what_is_not_a_function_is_refused(team: ApprovalTeam) -> None:
    for thing in (Payer, Payer("x").pay, print, 5):
        with pytest.raises(TypeError, match="goes around a function"):
            team.il.gate("read.page")(thing)  # type: ignore[type-var]


def test_a_coroutine_that_comes_back_unawaited_is_not_taken_for_done(team: ApprovalTeam) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    @team.il.gate("read.file")
    @logged
    async def read(name: str) -> None:
        raise AssertionError(name)

    with pytest.raises(TypeError, match="put the gate on the `async def` itself"):
        read("notes")
    (job,) = team.il.jobs(topic="read.file").items
    assert job.state == "CANCELLED"
    assert [effect.state for effect in team.il.effects().items] == ["FAILED"]


async def test_calls_that_wait_behind_a_blocking_client_keep_no_other_call_waiting(
    team: ApprovalTeam,
) -> None:
    asked: list[Job] = []

    @team.il.gate("pay.invoice", on_pending=asked.append)
    async def pay(number: int) -> int:
        return number

    waiting = [asyncio.create_task(pay(number)) for number in range(40)]
    async with asyncio.timeout(30):
        while len(asked) < len(waiting):
            await asyncio.sleep(0.01)
        last = asked[-1]
        await asyncio.to_thread(team.approve, last)
        (done,), _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert done.result() == last.payload["number"]
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
