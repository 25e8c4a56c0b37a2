"""The contract's table of repeats, for every kind of function that can be gated, by either client.

Coroutines, methods, generators and async generators; of an `AsyncInterlock` and of an `Interlock`. And a gate
inside a gate: each of the two is an intent of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import pytest

from interlock import (
    AlreadyDone,
    Ambiguous,
    AsyncInterlock,
    Busy,
    Committed,
    Conflict,
    Denied,
    Interlock,
    NotCommitted,
    NotDone,
    Rejected,
)
from tests.sdk.gate_place import Bank, Place

Pay: TypeAlias = Callable[[str], Coroutine[Any, Any, str]]
KINDS = (
    "coroutine",
    "async method",
    "async generator",
    "coroutine of a blocking client",
    "async generator of a blocking client",
    "method",
    "generator",
)


def _invoice(invoice: str) -> str:
    return invoice


@contextlib.asynccontextmanager
async def twin(il: Interlock) -> AsyncIterator[AsyncInterlock]:
    """An async client of the same caller."""
    made = AsyncInterlock(il.url, il.session.key) if il.url else AsyncInterlock(store=il.store)
    async with made as client:
        yield client


def payer(
    kind: str, il: Interlock, ail: AsyncInterlock, bank: Bank, topic: str = "pay", **options: Any
) -> Pay:
    """A gated function of this kind, called alike."""
    client = il if "blocking" in kind else ail
    if kind.startswith("coroutine"):
        return _coroutine(client.gate(topic, key=_invoice, **options), bank)
    if kind.startswith("async generator"):
        return _async_generator(client.gate(topic, key=_invoice, **options), bank)
    if kind == "async method":
        return _AsyncAccount(client.gate(topic, key=_invoice, **options), bank).pay
    plain = _method if kind == "method" else _generator
    blocking = plain(il.gate(topic, key=_invoice, **options), bank)
    return lambda invoice: asyncio.to_thread(blocking, invoice)


def _coroutine(gate: Any, bank: Bank) -> Pay:
    @gate
    async def pay(invoice: str) -> str:
        await asyncio.sleep(0)
        return bank.transfer(invoice)

    return pay


class _AsyncAccount:
    def __init__(self, gate: Any, bank: Bank) -> None:
        self.bank = bank
        self.pay = gate(_AsyncAccount._pay).__get__(self)

    async def _pay(self, invoice: str) -> str:
        await asyncio.sleep(0)
        return self.bank.transfer(invoice)


def _async_generator(gate: Any, bank: Bank) -> Pay:
    @gate
    async def paying(invoice: str) -> AsyncIterator[str]:
        yield "paying"
        yield bank.transfer(invoice)

    async def pay(invoice: str) -> str:
        first, receipt = [item async for item in paying(invoice)]
        assert first == "paying"
        return receipt

    return pay


def _method(gate: Any, bank: Bank) -> Callable[[str], str]:
    class Account:
        @gate
        def pay(self, invoice: str) -> str:
            return bank.transfer(invoice)

    return Account().pay


def _generator(gate: Any, bank: Bank) -> Callable[[str], str]:
    @gate
    def paying(invoice: str) -> Iterator[str]:
        yield "paying"
        yield bank.transfer(invoice)

    def pay(invoice: str) -> str:
        first, receipt = paying(invoice)
        assert first == "paying"
        return receipt

    return pay


async def test_a_call_that_finished_returns_its_recorded_result_without_running(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank = Bank()
            said = [await payer(kind, place.il, ail, bank)(kind) for _ in range(3)]
            assert said == [f"receipt for {kind}"] * 3, kind
            assert bank.paid == [kind], kind


async def test_a_call_that_surely_did_nothing_runs_again(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank = Bank()
            pay = payer(kind, place.il, ail, bank, not_done=(ConnectionRefusedError,))
            for raised in (NotDone("no"), ConnectionRefusedError("no")):
                bank.raises = raised
                with pytest.raises(type(raised)):
                    await pay(kind)
            bank.raises = None
            assert [await pay(kind), await pay(kind)] == [f"receipt for {kind}"] * 2, kind
            assert len(bank.paid) == 3, kind


async def test_a_call_that_raised_anything_else_is_ambiguous_until_a_person_says_what_happened(
    place: Place,
) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            for outcome in ("committed", "not_committed"):
                await _doubt_and_resolve(place, ail, kind, outcome)


async def _doubt_and_resolve(place: Place, ail: AsyncInterlock, kind: str, outcome: Any) -> None:
    bank, invoice = Bank(), f"{kind} {outcome}"
    bank.raises = ValueError("half way")
    pay = payer(kind, place.il, ail, bank)
    with pytest.raises(ValueError, match="half way"):
        await pay(invoice)
    bank.raises = None
    with pytest.raises(Ambiguous, match="resolve_effect") as doubt:
        await pay(invoice)
    assert bank.paid == [invoice], invoice
    by_hand = {"yielded": ["paying", "by hand"], "returned": None} if "generator" in kind else "by hand"
    place.person.resolve_effect(f"call:{doubt.value.job_id}", outcome, evidence="asked", result=by_hand)
    happened = outcome == "committed"
    said = [await pay(invoice), await pay(invoice)]
    assert said == ["by hand" if happened else f"receipt for {invoice}"] * 2
    assert bank.paid == [invoice] * (1 if happened else 2)


async def test_reconcile_is_asked_first(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank, invoice = Bank(), f"{kind} reconciled"
            bank.raises = ValueError("half way")
            with pytest.raises(ValueError, match="half way"):
                await payer(kind, place.il, ail, bank)(invoice)
            bank.raises = None
            pay = payer(kind, place.il, ail, bank, reconcile=lambda effect: NotCommitted())
            assert [await pay(invoice), await pay(invoice)] == [f"receipt for {invoice}"] * 2, kind
            assert len(bank.paid) == 2, kind


async def test_what_a_generators_reconcile_found_is_what_it_would_have_yielded(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            if "generator" not in kind:
                continue
            bank, invoice = Bank(), f"{kind} found"
            bank.raises = ValueError("half way")
            with pytest.raises(ValueError, match="half way"):
                await payer(kind, place.il, ail, bank)(invoice)
            bank.raises = None
            pay = payer(kind, place.il, ail, bank, reconcile=lambda effect: Committed(["paying", "found"]))
            assert [await pay(invoice), await pay(invoice)] == ["found"] * 2, kind
            assert bank.paid == [invoice], kind


async def test_what_reconcile_found_must_be_what_the_function_returns_or_be_left_out(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank, invoice = Bank(), f"{kind} odd"
            bank.raises = ValueError("half way")
            with pytest.raises(ValueError, match="half way"):
                await payer(kind, place.il, ail, bank)(invoice)
            for odd in (object(), 5, [5]):
                wrong = payer(kind, place.il, ail, bank, reconcile=lambda effect, odd=odd: Committed(odd))
                with pytest.raises(TypeError, match="Nothing was recorded"):
                    await wrong(invoice)
            unknown = payer(kind, place.il, ail, bank, reconcile=lambda effect: Committed())
            for _ in range(2):
                with pytest.raises(AlreadyDone):
                    await unknown(invoice)
            assert bank.paid == [invoice], kind


async def test_a_call_that_is_running_is_busy_or_waited_for(place: Place) -> None:
    async with twin(place.il) as ail:
        begun, go = asyncio.Event(), asyncio.Event()

        @ail.gate("pay", key=_invoice)
        async def pay(invoice: str) -> str:
            begun.set()
            await go.wait()
            return invoice

        running = asyncio.create_task(pay("i-1"))
        await begun.wait()
        for kind in KINDS:
            with pytest.raises(Busy, match="is running this call"):
                await payer(kind, place.il, ail, Bank(), wait=0)("i-1")
        waiting = asyncio.create_task(payer("coroutine", place.il, ail, Bank(), wait=60)("i-1"))
        go.set()
        assert [await running, await waiting] == ["i-1"] * 2


async def test_policy_and_people_say_no_again_without_being_asked_twice(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank = Bank()
            denied = payer(kind, place.il, ail, bank, "delete")
            rejected = payer(
                kind,
                place.il,
                ail,
                bank,
                "ask",
                on_pending=lambda job: place.person.reject(job.id, reason="not now"),
            )
            for _ in range(2):
                with pytest.raises(Denied):
                    await denied(f"{kind} denied")
                with pytest.raises(Rejected, match="not now"):
                    await rejected(f"{kind} rejected")
            assert bank.paid == [], kind
    assert len(place.il.jobs(limit=100).items) == 2 * len(KINDS)


async def test_other_arguments_under_the_same_key_are_a_conflict(place: Place) -> None:
    async with twin(place.il) as ail:

        @ail.gate("pay", key=lambda invoice, **_: invoice)
        async def pay(invoice: str, cents: int) -> int:
            return cents

        assert await pay("i-1", 5) == 5
        with pytest.raises(Conflict, match="other arguments"):
            await pay("i-1", 6)


async def test_a_repeatable_function_runs_again_after_it_raised(place: Place) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank = Bank()
            bank.raises = ValueError("half way")
            read = payer(kind, place.il, ail, bank, repeatable=True)
            for _ in range(2):
                with pytest.raises(ValueError, match="half way"):
                    await read(kind)
            bank.raises = None
            assert [await read(kind), await read(kind)] == [f"receipt for {kind}"] * 2, kind
            assert len(bank.paid) == 3, kind


async def test_a_coroutine_cancelled_while_it_runs_is_in_doubt(place: Place) -> None:
    async with twin(place.il) as ail:
        for client in (ail, place.il):
            bank, begun = Bank(), asyncio.Event()
            name = type(client).__name__
            running = asyncio.create_task(_paying(client, bank, begun)(name))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            with pytest.raises(Ambiguous):
                await _paying(client, bank, begun)(name)
            assert bank.paid == [name]


def _paying(client: Interlock | AsyncInterlock, bank: Bank, begun: asyncio.Event) -> Pay:
    @client.gate("pay", key=_invoice)
    async def pay(invoice: str) -> str:
        bank.transfer(invoice)
        begun.set()
        await asyncio.sleep(600)
        return "never"

    return pay


async def test_an_async_generator_that_is_left_is_done_and_one_that_raises_between_items_is_in_doubt(
    place: Place,
) -> None:
    async with twin(place.il) as ail:

        @ail.gate("pay", key=_invoice)
        async def paying(invoice: str) -> AsyncIterator[int]:
            yield 1
            if invoice == "breaks":
                raise ValueError("half way")
            yield 2

        left = paying("left")
        assert await anext(left) == 1
        await left.aclose()  # type: ignore[attr-defined]
        with pytest.raises(AlreadyDone, match="finished before") as done:
            await anext(paying("left"))
        # What it yielded was JSON: only there is not all of it.
        assert "is not JSON" not in str(done.value)
        assert done.value.result_text == "a generator that yielded 1 item; its consumer did not want the rest"
        with pytest.raises(ValueError, match="half way"):
            _ = [item async for item in paying("breaks")]
        with pytest.raises(Ambiguous):
            await anext(paying("breaks"))


async def test_a_running_call_is_current_in_its_own_task_alone(place: Place) -> None:
    async with twin(place.il) as ail:
        met = asyncio.Barrier(2)

        @ail.gate("pay", key=_invoice)
        async def pay(invoice: str) -> tuple[str, bool]:
            call = ail.current()
            await met.wait()
            assert ail.current() is call
            effect = await ail.get_effect(f"call:{call.job.id}")
            assert effect.downstream_key == call.downstream_key
            return call.job.payload["invoice"], call.lost

        assert await asyncio.gather(pay("a"), pay("b")) == [("a", False), ("b", False)]
        with pytest.raises(RuntimeError, match="no gated call"):
            ail.current()


async def test_a_gate_inside_a_gate_is_an_intent_of_its_own(place: Place) -> None:
    """The outer call failed after the inner one had finished: once more, and the inner one is not run again."""
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank, trouble = Bank(), [ValueError("after it paid")]
            inner = payer(kind, place.il, ail, bank)
            order = _order(ail, inner, trouble)
            with pytest.raises(ValueError, match="after it paid"):
                await order(kind)
            with pytest.raises(Ambiguous) as doubt:
                await order(kind)
            place.person.resolve_effect(f"call:{doubt.value.job_id}", "not_committed", evidence="no order")
            assert [await order(kind), await order(kind)] == [f"receipt for {kind}, ordered"] * 2
            assert bank.paid == [kind]


def _order(ail: AsyncInterlock, inner: Pay, trouble: list[ValueError]) -> Pay:
    @ail.gate("pay", key=lambda invoice: f"order {invoice}")
    async def order(invoice: str) -> str:
        outer = ail.current()
        receipt = await inner(invoice)
        assert ail.current() is outer
        if trouble:
            raise trouble.pop()
        return f"{receipt}, ordered"

    return order


async def test_an_inner_call_in_doubt_leaves_the_outer_one_in_doubt_unless_it_says_otherwise(
    place: Place,
) -> None:
    async with twin(place.il) as ail:
        for kind in KINDS:
            bank = Bank()
            bank.raises = ValueError("half way")
            inner = payer(kind, place.il, ail, bank)
            order = _order(ail, inner, [])
            with pytest.raises(ValueError, match="half way"):
                await order(kind)
            with pytest.raises(Ambiguous):
                await order(kind)
            forgiving = _forgiving(ail, inner)
            for _ in range(2):  # the outer one only asks the inner one, which is not run again
                with pytest.raises(Ambiguous) as doubt:
                    await forgiving(kind)
            place.person.resolve_effect(f"call:{doubt.value.job_id}", "not_committed", evidence="asked")
            bank.raises = None
            assert [await forgiving(kind), await forgiving(kind)] == [f"receipt for {kind}"] * 2
            assert bank.paid == [kind] * 2


def _forgiving(ail: AsyncInterlock, inner: Pay) -> Pay:
    @ail.gate("pay", key=lambda invoice: f"forgiving {invoice}", not_done=(Ambiguous,))
    async def order(invoice: str) -> str:
        return await inner(invoice)

    return order
