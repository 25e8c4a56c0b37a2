"""An agent repeats a request under one idempotency key: same answer, no second payment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.demo.story import Answer, Promise, histogram_of

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.story import Story

REPEATS = 10
KEY = "pay-invoice-1007"


def play(company: Company, story: Story) -> list[Promise]:
    """One submit, the same again from ten clients at once, and the key used for another amount."""
    story.tell(f"The agent submits a payment under the key {KEY}, loses the answer, and asks again.")
    first = story.step("the agent submits", company.propose_payment(50_000, key=KEY))
    story.tell(f"The same request {REPEATS} more times, at once:")
    calls = [lambda: company.propose_payment(50_000, key=KEY)] * REPEATS
    repeats = company.stage.at_once(calls)
    story.show(histogram_of(repeats))
    other = story.step("the same key with another amount", company.propose_payment(51_000, key=KEY))
    jobs = company.admin.get("jobs?topic=finance.payment.execute&limit=200").body["items"]
    kept = [job["id"] for job in jobs if job["payload"]["amount_cents"] in (50_000, 51_000)]
    return [*same_answer(first, repeats), *one_intent(first, other, kept)]


def same_answer(first: Answer, repeats: Sequence[Answer]) -> list[Promise]:
    """What a repeat gets."""
    return [
        Promise("the first submit is answered and not a replay", first.status == 202 and not first.replayed),
        Promise(
            "every repeat gets the first answer, byte for byte",
            bool(repeats)
            and all((again.status, again.raw) == (first.status, first.raw) for again in repeats),
        ),
        Promise("and is marked Idempotency-Replayed", all(again.replayed for again in repeats)),
    ]


def one_intent(first: Answer, other: Answer, kept: Sequence[str]) -> list[Promise]:
    """What a key stands for."""
    return [
        Promise(
            "the same key for another amount is refused",
            (other.status, other.word) == (422, "idempotency_key_reused"),
        ),
        Promise("there is one payment, not twelve", list(kept) == [first.body.get("id")]),
    ]
