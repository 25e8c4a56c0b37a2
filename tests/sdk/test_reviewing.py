"""Reviewing through the SDK: a decision is about what was shown, and a denial says what was wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Busy, Conflict, Denied, Interlock

POLICY = """
version: v1
rules:
  - {id: pays, when: {topic: pay.**}, decision: require_human, approval: {self_approval: true}}
  - {id: large, when: {topic: finance.**}, if: payload.amount_cents > 10000, decision: allow}
  - {id: slow, when: {topic: think.**}, decision: require_human, approval: {self_approval: true, grace: 1h}}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def il(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Interlock]:
    """A client on an empty store of either kind."""
    url = f"sqlite:///{tmp_path}/interlock.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    with Interlock(store=url) as client:
        client.apply_policy(POLICY)
        yield client


def test_a_yes_to_what_was_shown_is_no_yes_to_what_it_became(il: Interlock) -> None:
    job = il.submit("pay.invoice", {"amount": 1})
    shown = il.get_approval(job.id)
    il.edit(job.id, {"amount": 9}, reason="more")

    for seen in (job, shown, job.id):
        with pytest.raises(Conflict) as caught:
            il.approve(seen)
        assert caught.value.code == "hash_mismatch"
        assert "payload.amount changed" in str(caught.value)
    with pytest.raises(Conflict):
        il.reject(shown, "no")
    assert il.get_job(job.id).state == "APPROVAL"
    assert il.approve(il.get_approval(job.id)).outcome == "approved"


def test_the_async_client_binds_its_yes_in_the_same_way(il: Interlock) -> None:
    async def story() -> str:
        async with AsyncInterlock(store=il.store) as ail:
            shown = await ail.get_approval((await ail.submit("pay.invoice", {"amount": 1})).id)
            await ail.edit(shown.job_id, {"amount": 9}, reason="more")
            with pytest.raises(Conflict, match=r"payload\.amount changed"):
                await ail.approve(shown)
            return (await ail.approve(await ail.get_approval(shown.job_id))).outcome

    assert asyncio.run(story()) == "approved"


def test_a_job_without_a_payload_is_an_empty_object(il: Interlock) -> None:
    assert il.submit("pay.invoice", priority="high").payload == {}
    assert il.submit("pay.invoice", None).payload is None


def test_a_request_that_a_rule_fails_on_is_denied_with_rule_expression_and_field(il: Interlock) -> None:
    with pytest.raises(Denied) as caught:
        il.submit("finance.payment.execute", priority="high")
    denied = caught.value
    assert (denied.rule, denied.expression, denied.field) == (
        "large", "payload.amount_cents > 10000", "payload.amount_cents",
    )  # fmt: skip
    decision = il.get_job(denied.job_id or "").decision
    assert decision is not None
    assert decision.failure is not None
    assert decision.failure.field == "payload.amount_cents"


def test_a_policy_that_is_put_in_force_tells_what_it_reads_without_a_test(il: Interlock) -> None:
    [warning] = il.apply_policy(POLICY).warnings
    assert (warning.path, warning.line) == ("rules[1].if", 5)
    assert "has(payload.amount_cents)" in warning.reason


def test_a_yes_is_withdrawn_within_the_grace_and_says_where_it_was_given(il: Interlock) -> None:
    job = il.submit("think.twice")
    review = il.approve(job)
    assert review.grace_until is not None
    seen = il.get_job(job.id)
    assert (seen.state, seen.is_decided) == ("PENDING", False)
    assert seen.approval is not None
    assert seen.approval.votes[0].via == "sdk"
    with pytest.raises(Busy) as busy:
        il.claim_job(job.id, busy_seconds=0)
    assert busy.value.code == "in_grace"

    undone = il.withdraw(job.id, "the wrong one")

    assert (undone.outcome, undone.state, undone.votes) == ("withdrawn", "APPROVAL", 0)
    assert il.get_approval(job.id).on_approve == (
        "think.twice is released to workers with exactly this payload, 3600 seconds later unless a person who agreed "
        "takes it back"
    )


def test_the_inbox_is_the_same_from_both_clients(il: Interlock) -> None:
    job = il.submit("pay.invoice")
    mine = il.get_inbox()

    async def ask() -> tuple[list[str], int]:
        async with AsyncInterlock(store=il.store) as ail:
            page = await ail.get_inbox(mine=False, topic="pay.*", order="newest")
            return [item.job_id for item in page.items], (await ail.get_inbox_counts()).waiting

    assert asyncio.run(ask()) == ([job.id], 1)
    assert [(item.job_id, item.mine, item.why_not) for item in mine.items] == [(job.id, True, None)]
    assert mine.counts == il.get_inbox_counts()


def test_comments_and_questions_are_read_back_by_both_clients(il: Interlock) -> None:
    job = il.submit("pay.invoice")
    asked = il.ask(job.id, "why twice?")
    assert (asked.kind, asked.open) == ("ask", True)

    async def answer() -> list[tuple[str, bool]]:
        async with AsyncInterlock(store=il.store) as ail:
            await ail.comment(job.id, "the first one bounced")
            return [(each.kind, each.open) for each in (await ail.get_approval(job.id)).comments]

    assert asyncio.run(answer()) == [("ask", False), ("comment", False)]
