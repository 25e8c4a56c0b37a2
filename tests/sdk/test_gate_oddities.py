"""Odd things around a gated call: what it returns, what it is told, and where it is when it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from interlock import AlreadyDone, Ambiguous, AsyncInterlock, Interlock, InvalidRequest
from interlock.sdk.gate import Gate
from tests.sdk.gate_place import POLICY, Bank, Place


@dataclass
class Incomparable:
    """What equals nothing without a fault."""

    amount: int

    def __eq__(self, other: object) -> bool:
        raise AttributeError("no comparison")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@dataclass
class MadeOnce:
    """What cannot be made a second time, as when it is decoded."""

    amount: int
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        type(self).made += 1
        if self.made > 1:
            raise KeyError("there is one already")


def payer(il: Interlock, bank: Bank, **options: Any) -> Callable[[str], str]:
    @il.gate("pay", key=lambda invoice: invoice, **options)
    def pay(invoice: str) -> str:
        return bank.transfer(invoice)

    return pay


@pytest.mark.parametrize("kind", [Incomparable, MadeOnce])
def test_a_result_whose_own_code_is_broken_is_returned_and_recorded_as_text(place: Place, kind: Any) -> None:
    bank = Bank()

    def pay(invoice: str) -> Any:
        bank.transfer(invoice)
        return result

    MadeOnce.made = 0
    result = kind(5)
    pay.__annotations__["return"] = kind
    paying = place.il.gate("pay", key=lambda invoice: invoice)(pay)

    assert paying("i-1") is result
    with pytest.raises(AlreadyDone):
        paying("i-1")
    assert bank.paid == ["i-1"]


def test_a_reconcile_that_raises_leaves_the_call_ambiguous(place: Place) -> None:
    bank = Bank()

    def unreachable(effect: object) -> Any:
        raise ConnectionError("the bank does not answer")

    pay = payer(place.il, bank, reconcile=unreachable)
    bank.raises = ValueError("half way")
    with pytest.raises(ValueError, match="half way"):
        pay("i-1")
    bank.raises = None

    with pytest.raises(Ambiguous, match="raised ConnectionError") as doubt:
        pay("i-1")
    assert isinstance(doubt.value.__cause__, ConnectionError)
    assert bank.paid == ["i-1"]


@pytest.mark.parametrize("wrong", ["ValueError", ("ValueError",), (ValueError, 1), int])
def test_what_is_no_exception_in_not_done_is_refused_before_anything_runs(
    embedded: Interlock, wrong: Any
) -> None:
    with pytest.raises(TypeError, match="not_done takes classes of exceptions"):
        embedded.gate("pay", not_done=wrong)


def test_a_gate_without_a_topic_says_how_to_write_one(embedded: Interlock) -> None:
    def pay() -> None: ...

    bare: Any = embedded.gate
    with pytest.raises(TypeError, match=r"takes the topic of its calls first, such as @il\.gate\('"):
        bare(pay)


@pytest.mark.parametrize("name", ["key", "on_pending", "reconcile"])
def test_what_cannot_be_called_is_refused_before_anything_runs(embedded: Interlock, name: str) -> None:
    options: dict[str, Any] = {name: "invoice"}
    with pytest.raises(TypeError, match=f"{name} takes a function, not 'invoice'"):
        embedded.gate("pay", **options)


@pytest.mark.parametrize("name", ["wait", "lease"])
@pytest.mark.parametrize("wrong", ["5", "", True, (5,)])
def test_seconds_that_are_no_number_are_refused_before_anything_runs(
    embedded: Interlock, name: str, wrong: Any
) -> None:
    options: dict[str, Any] = {name: wrong}
    with pytest.raises(TypeError, match=f"{name} takes a number of seconds"):
        embedded.gate("pay", **options)


def test_not_done_takes_one_class_a_tuple_or_a_list(embedded: Interlock) -> None:
    for number, named in enumerate((ValueError, (ValueError,), [ValueError])):
        bank, invoice = Bank(), f"i-{number}"
        pay = payer(embedded, bank, not_done=named)
        bank.raises = ValueError("not sent")
        with pytest.raises(ValueError, match="not sent"):
            pay(invoice)
        bank.raises = None
        assert pay(invoice) == f"receipt for {invoice}"


def test_half_a_character_is_no_key(embedded: Interlock) -> None:
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        embedded.gate("pay", key=lambda invoice: "\ud800")(lambda invoice: invoice)("i-1")


def test_a_child_that_is_forked_in_a_call_does_not_end_it(place: Place) -> None:
    bank, parent = Bank(), os.getpid()

    @place.il.gate("pay", key=lambda invoice: invoice)
    def pay(invoice: str) -> str:
        for leave in (lambda: sys.exit(0), lambda: None):
            child = os.fork()
            if child == 0:
                leave()
                return "the child's"
            assert os.waitpid(child, 0)[1] == 0
        return bank.transfer(invoice)

    try:
        receipts = [pay("i-1")]
    finally:
        if os.getpid() != parent:
            os._exit(0)
    receipts.append(pay("i-1"))

    assert receipts == ["receipt for i-1"] * 2
    assert bank.paid == ["i-1"]


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_hold_that_is_lost_before_the_function_begins_is_ambiguous_and_runs_nothing(
    embedded: Interlock, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, passage = Bank(), Gate.passage

    def slow_passage(*args: Any) -> Any:
        found = yield from passage(*args)
        time.sleep(0.3)  # as a process that is stopped here
        return found

    monkeypatch.setattr(Gate, "passage", slow_passage)

    async def pay_in_loop() -> None:
        async with AsyncInterlock(store=embedded.store) as ail:

            @ail.gate("pay", key=lambda invoice: invoice, lease=0.1)
            async def pay(invoice: str) -> str:
                return bank.transfer(invoice)

            await pay("i-1")

    pays = {"async": lambda: asyncio.run(pay_in_loop()), "blocking": lambda: blocking("i-1")}
    blocking = payer(embedded, bank, lease=0.1)
    with pytest.raises(Ambiguous, match="lost before the function was begun"):
        pays[kind]()
    assert bank.paid == []


@pytest.fixture
def embedded(sqlite_url: str) -> Any:
    with Interlock(store=sqlite_url) as il:
        il.apply_policy(POLICY)
        yield il
