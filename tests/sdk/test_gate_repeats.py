"""A gated function runs at most once per intent: what a repeat of a call does, row by row of the contract's table.

Every row holds embedded and through a server, on SQLite and on PostgreSQL, for a person's and for an agent's key.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from interlock import (
    AlreadyDone,
    Ambiguous,
    Busy,
    Committed,
    Conflict,
    Denied,
    Expired,
    Forbidden,
    Interlock,
    NotCommitted,
    NotDone,
    Rejected,
    Unknown,
    Work,
    Worker,
)
from interlock.wire.effects import Effect
from tests.sdk.gate_place import Bank, Place


def payer(il: Interlock, bank: Bank, topic: str = "pay", **options: Any) -> Callable[[str], str]:
    @il.gate(topic, key=lambda invoice: invoice, **options)
    def pay(invoice: str) -> str:
        return bank.transfer(invoice)

    return pay


def test_a_call_that_finished_returns_its_recorded_result_without_running(place: Place) -> None:
    bank = Bank()
    assert payer(place.il, bank)("i-1") == "receipt for i-1"
    assert payer(place.il, bank)("i-1") == "receipt for i-1"
    assert bank.paid == ["i-1"]
    (job,) = place.il.jobs().items
    assert (job.executor, job.state, job.result) == ("caller", "SUCCEEDED", "receipt for i-1")
    (effect,) = place.il.effects().items
    assert (effect.state, effect.result, effect.job_id) == ("COMMITTED", "receipt for i-1", job.id)


def test_a_call_that_is_running_is_busy_or_waited_for(place: Place) -> None:
    bank, begun, go = Bank(), threading.Event(), threading.Event()
    ended: list[str] = []

    @place.il.gate("pay", key=lambda invoice: invoice)
    def pay(invoice: str) -> str:
        begun.set()
        assert go.wait(30)
        return bank.transfer(invoice)

    running = threading.Thread(target=lambda: ended.append(pay("i-1")))
    running.start()
    assert begun.wait(30)
    for wait in (None, 0, 0.1):
        with pytest.raises(Busy, match="is running this call"):
            payer(place.il, bank, wait=wait)("i-1")
    waiting = threading.Thread(target=lambda: ended.append(payer(place.il, bank, wait=30)("i-1")))
    waiting.start()
    go.set()
    running.join()
    waiting.join()
    assert ended == ["receipt for i-1"] * 2
    assert bank.paid == ["i-1"]


@pytest.mark.parametrize("raised", [NotDone("no"), ConnectionRefusedError("no")])
def test_a_call_that_surely_did_nothing_runs_again(place: Place, raised: Exception) -> None:
    bank = Bank()
    bank.raises = raised
    pay = payer(place.il, bank, not_done=(ConnectionRefusedError,))
    for _ in range(4):  # more often than a worker would be given: each attempt is the caller's own decision
        with pytest.raises(type(raised)):
            pay("i-1")
    bank.raises = None
    assert pay("i-1") == "receipt for i-1"
    assert pay("i-1") == "receipt for i-1"
    assert len(bank.paid) == 5


def test_a_call_that_raised_anything_else_is_ambiguous_until_a_person_says_that_it_happened(
    place: Place,
) -> None:
    bank = Bank()
    bank.raises = ValueError("half way")
    pay = payer(place.il, bank)
    with pytest.raises(ValueError, match="half way") as first:
        pay("i-1")
    assert any("not known" in note for note in first.value.__notes__)
    bank.raises = None
    with pytest.raises(Ambiguous, match="resolve_effect") as caught:
        pay("i-1")
    job_id = caught.value.job_id
    assert job_id is not None
    assert place.il.get_job(job_id).state == "FAILED"
    with pytest.raises(Ambiguous):
        place.il.retry_job(job_id)
    place.person.resolve_effect(f"call:{job_id}", "committed", evidence="I saw it", result="receipt by hand")
    assert pay("i-1") == "receipt by hand"
    assert place.il.get_job(job_id).state == "SUCCEEDED"
    assert bank.paid == ["i-1"]


def test_cancelling_a_call_that_was_begun_leaves_it_ambiguous(place: Place) -> None:
    bank, seen = Bank(), list[str]()

    @place.il.gate("pay", key=lambda invoice: invoice)
    def pay(invoice: str) -> str:
        receipt = bank.transfer(invoice)
        seen.append(place.il.current().job.id)
        if invoice == "while it runs":
            place.il.cancel_job(seen[-1])
            return receipt
        raise RuntimeError("cut off")

    with pytest.raises(Ambiguous):
        pay("while it runs")
    with pytest.raises(RuntimeError):
        pay("in doubt")
    place.il.cancel_job(seen[-1])
    for invoice, job_id in zip(("while it runs", "in doubt"), seen, strict=True):
        assert place.il.get_job(job_id).state == "CANCELLED"
        with pytest.raises(Ambiguous, match="resolve_effect"):
            pay(invoice)
    assert bank.paid == ["while it runs", "in doubt"]


def test_after_a_person_said_that_it_did_not_happen_there_is_exactly_one_more_attempt(place: Place) -> None:
    bank = Bank()
    bank.raises = ValueError("half way")
    pay = payer(place.il, bank)
    with pytest.raises(ValueError, match="half way"):
        pay("i-1")
    bank.raises = None
    (job,) = place.il.jobs().items
    place.person.resolve_effect(f"call:{job.id}", "not_committed", evidence="the bank knows nothing of it")
    assert [pay("i-1"), pay("i-1")] == ["receipt for i-1"] * 2
    assert bank.paid == ["i-1", "i-1"]


def test_reconcile_is_asked_first(place: Place) -> None:
    bank, asked = Bank(), list[str]()
    found: Any = Unknown()

    def ask_the_bank(effect: Effect) -> Any:
        asked.append(effect.downstream_key)
        return found

    pay = payer(place.il, bank, reconcile=ask_the_bank)
    for invoice in ("i-1", "i-2"):
        bank.raises = ValueError("half way")
        with pytest.raises(ValueError, match="half way"):
            pay(invoice)
        bank.raises = None
        found = Unknown()
        with pytest.raises(Ambiguous):
            pay(invoice)
    found = Committed("receipt of the bank")
    assert [pay("i-1"), pay("i-1")] == ["receipt of the bank"] * 2
    found = NotCommitted()
    assert [pay("i-2"), pay("i-2")] == ["receipt for i-2"] * 2
    assert bank.paid == ["i-1", "i-2", "i-2"]
    assert len(set(asked)) == 2  # the same key for every question about one call
    assert all(key.startswith("ilk_") for key in asked)


def test_a_call_whose_lease_was_lost_is_ambiguous_and_its_late_result_refused(place: Place) -> None:
    bank, seen, results = Bank(), list[bool](), list[str]()

    @place.il.gate("pay", key=lambda invoice: invoice, lease=1)
    def pay(invoice: str) -> str:
        receipt = bank.transfer(invoice)
        call = place.il.current()
        seen.append(call.lost)
        call._held.hold.failed(NotDoneYet(call))  # a renewal that was refused: no more of them
        deadline = time.monotonic() + 30
        while place.il.get_job(call.job.id).state == "RUNNING" and not results:
            assert time.monotonic() < deadline
            time.sleep(0.2)
            try:
                payer(place.il, bank)("i-1")
            except Busy:
                continue
            except Ambiguous as doubt:
                results.append(str(doubt.job_id))
        seen.append(call.lost)
        return receipt

    with pytest.raises(Ambiguous, match="was lost before it ended"):
        pay("i-1")
    assert seen == [False, True]
    assert bank.paid == ["i-1"]
    with pytest.raises(Ambiguous):
        payer(place.il, bank)("i-1")
    (job,) = place.il.jobs().items
    assert (job.state, job.result, results) == ("FAILED", None, [job.id])


class NotDoneYet(Conflict):
    """What a renewal would be told if somebody else had the job."""

    def __init__(self, call: Any) -> None:
        from interlock.wire.problem import Problem

        super().__init__(Problem(status=409, code="fence_stale", detail=f"{call.fence} is stale"))


def test_a_late_result_that_contradicts_what_was_said_stops_the_next_attempt(place: Place) -> None:
    bank = Bank()
    bank.raises = ValueError("half way")
    pay = payer(place.il, bank)
    with pytest.raises(ValueError, match="half way"):
        pay("i-1")
    bank.raises = None
    (job,) = place.il.jobs().items
    place.person.resolve_effect(f"call:{job.id}", "not_committed", evidence="a wrong guess")
    assert place.il.get_job(job.id).state == "PENDING"
    with pytest.raises(Conflict):
        place.il.complete_job(job.id, 1, "it did happen")
    assert place.il.get_job(job.id).state == "FAILED"
    with pytest.raises(Ambiguous):
        pay("i-1")
    assert bank.paid == ["i-1"]


def test_policy_and_people_say_no_again_without_being_asked_twice(place: Place) -> None:
    bank = Bank()
    for _ in range(2):
        with pytest.raises(Denied):
            payer(place.il, bank, "delete")("i-1")
    rejecting = payer(
        place.il, bank, "ask", on_pending=lambda job: place.person.reject(job.id, reason="not now")
    )
    for _ in range(2):
        with pytest.raises(Rejected, match="not now"):
            rejecting("i-1")
    for _ in range(2):
        with pytest.raises(Expired):
            payer(place.il, bank, "hurry")("i-1")
    assert bank.paid == []
    assert len(place.il.jobs().items) == 3


def test_other_arguments_under_the_same_key_are_a_conflict(place: Place) -> None:
    @place.il.gate("pay", key=lambda invoice, **_: invoice)
    def pay(invoice: str, cents: int) -> int:
        return cents

    assert pay("i-1", 5) == 5
    with pytest.raises(Conflict, match="other arguments"):
        pay("i-1", 6)


def test_a_repeatable_function_runs_again_after_a_crash_but_not_after_it_finished(place: Place) -> None:
    bank = Bank()
    bank.raises = ValueError("half way")
    read = payer(place.il, bank, repeatable=True)
    for _ in range(4):
        with pytest.raises(ValueError, match="half way"):
            read("i-1")
    bank.raises = None
    assert [read("i-1"), read("i-1")] == ["receipt for i-1"] * 2
    assert len(bank.paid) == 5
    assert place.il.effects().items == ()


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_call_whose_process_vanished_is_busy_until_its_lease_ends_and_then_ambiguous_or_repeated(
    place: Place, *, repeatable: bool
) -> None:
    bank = Bank()
    asked = place.il.submit("pay", {"invoice": "i-1"}, executor="caller", key="i-1")
    place.il.claim_job(asked.id, lease_seconds=2, repeatable=repeatable)  # and nothing more is heard of it
    with pytest.raises(Busy, match="If its process died"):
        payer(place.il, bank, wait=0)("i-1")
    again = payer(place.il, bank, wait=60, repeatable=repeatable)
    if repeatable:
        assert again("i-1") == "receipt for i-1"
    else:
        with pytest.raises(Ambiguous):
            again("i-1")
        with pytest.raises(Ambiguous):  # that it may be repeated is for the call that began to say
            payer(place.il, bank, repeatable=True)("i-1")
    assert bank.paid == (["i-1"] if repeatable else [])


@dataclass(frozen=True)
class Receipt:
    """What a bank returns."""

    invoice: str
    amount: Decimal
    at: datetime


def test_a_result_is_decoded_to_the_return_annotation(place: Place) -> None:
    @place.il.gate("pay", key=lambda: "receipt")
    def pay() -> Receipt:
        return Receipt("i-1", Decimal("2.50"), datetime(2026, 1, 2, tzinfo=UTC))

    @place.il.gate("pay", key=lambda: "pair")
    def pair() -> tuple[int, list[str]]:
        return 1, ["a"]

    @place.il.gate("pay", key=lambda: "none")
    def nothing():
        return None

    assert pay() == pay()
    assert isinstance(pay(), Receipt)
    assert [pair(), pair()] == [(1, ["a"])] * 2
    assert [nothing(), nothing()] == [None, None]


@pytest.mark.parametrize("result", [object(), {1, 2}, (1, 2), float("nan"), b"x", "x" * 300_000, {1: 2}])
def test_a_result_that_is_not_json_is_already_done(place: Place, result: object) -> None:
    ran: list[object] = []

    @place.il.gate("pay", key=lambda: "odd")
    def odd():
        ran.append(result)
        return result

    assert odd() is result
    with pytest.raises(AlreadyDone) as caught:
        odd()
    assert caught.value.job_id == place.il.jobs().items[0].id
    assert caught.value.result_text
    assert len(ran) == 1


def test_a_running_call_knows_its_job_fence_permit_and_downstream_key(place: Place) -> None:
    seen: list[Any] = []

    @place.il.gate("pay", key=lambda: "inner")
    def inner() -> None:
        seen.append(place.il.current().job.id)

    @place.il.gate("pay", key=lambda: "outer")
    def outer() -> None:
        call = place.il.current()
        inner()
        assert place.il.current() is call
        assert call.permit.count(".") == 2
        seen.append((call.job.id, call.fence, call.downstream_key, call.lost))

    outer()
    inner_id, (outer_id, fence, key, lost) = seen
    assert inner_id != outer_id
    assert (fence, lost) == (1, False)
    assert key == place.il.get_effect(f"call:{outer_id}").downstream_key
    with pytest.raises(RuntimeError, match="no gated call"):
        place.il.current()


def test_methods_and_generators_are_repeated_alike(place: Place) -> None:
    ran: list[str] = []

    class Account:
        @place.il.gate("pay", key=lambda cents: f"method {cents}")
        def pay(self, cents: int) -> int:
            ran.append("method")
            return cents

        @place.il.gate("pay", key=lambda to: f"generator {to}")
        def count(self, to: int) -> Iterator[int]:
            ran.append("generator")
            yield from range(to)

    assert [Account().pay(3), Account().pay(3)] == [3, 3]
    assert [list(Account().count(3)), list(Account().count(3))] == [[0, 1, 2]] * 2
    part = Account().count(4)
    next(part)
    part.close()  # type: ignore[attr-defined]
    with pytest.raises(AlreadyDone, match="finished before"):
        list(Account().count(4))
    assert ran == ["method", "generator", "generator"]


def test_nobody_else_may_claim_begin_or_settle_the_call(place: Place) -> None:
    job = place.il.submit("pay", {}, executor="caller")
    with pytest.raises(Forbidden):
        place.person.claim_job(job.id)
    held = place.il.claim_job(job.id)
    action = f"call:{job.id}"
    for attempt in (
        lambda: place.il.begin_effect(action, request_hash="sha256:" + "0" * 64),
        lambda: place.il.commit_effect(action, held.fence, "forged"),
        lambda: place.il.fail_effect(action, held.fence, "no", safe_to_retry=True),
    ):
        with pytest.raises(Conflict, match="effect of a gated call"):
            attempt()
    with pytest.raises(Forbidden):
        place.person.reconcile_job(job.id, "committed", "forged")
    place.il.complete_job(job.id, held.fence, "done")
    assert place.il.get_job(job.id).result == "done"


def test_a_worker_of_the_same_topic_is_offered_none_of_fifty_calls(place: Place) -> None:
    given: list[str] = []
    with _client_of_a_worker(place) as client, _working(client, given):
        for number in range(50):
            _call_and_leave_it(place, f"i-{number}", number % 5)
        ordinary = place.il.submit("pay", {"invoice": "for a worker"})
        assert place.il.wait(ordinary.id, timeout=120).state == "SUCCEEDED"
        assert place.il.get_job(ordinary.id).executor == "worker"
    assert given == [ordinary.id]
    assert len(place.il.jobs(limit=100).items) == 51


def _call_and_leave_it(place: Place, invoice: str, how: int) -> None:
    """One call, left in one of the five ways that a worker might mistake for work to do."""
    bank = Bank()
    bank.raises = (None, NotDone("no"), ValueError("half way"), ValueError("half way"), ValueError("again"))[
        how
    ]
    pay = payer(place.il, bank, repeatable=how == 4)
    if bank.raises is None:
        pay(invoice)
        return
    with pytest.raises(type(bank.raises)):
        pay(invoice)
    job = place.il.jobs(limit=1).items[0]
    if how == 3:  # a person puts it back: it waits, for its caller
        place.person.resolve_effect(f"call:{job.id}", "not_committed", evidence="asked the bank")
    assert place.il.get_job(job.id).state == ("FAILED" if how == 2 else "PENDING")


def _client_of_a_worker(place: Place) -> Interlock:
    """Of a principal of its own through a server; on a store, of whoever made the calls itself."""
    if place.il.url is None:
        return Interlock(store=place.il.store)
    body = {"kind": "worker", "roles": ["work"]}
    return Interlock(
        place.il.url, place.person.call("POST", "principals", "drudge", "keys", body=body)["key"]
    )


@contextlib.contextmanager
def _working(client: Interlock, given: list[str]) -> Iterator[None]:
    """A worker of the calls' topic and of every other, beside the block."""
    worker = Worker(client)

    @worker.handler("pay", "**")
    def work(work: Work) -> None:
        given.append(work.job.id)

    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()
