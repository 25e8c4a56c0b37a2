"""The gate around real functions, against a real service on a real store, with people who decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import interlock
from interlock import Interlock, Job, NotJson, StillPending
from interlock.kernel.codec.canonical import canonical
from tests.sdk.approval_team import ApprovalTeam


def test_what_policy_allows_runs_without_asking(team: ApprovalTeam) -> None:
    @team.il.gate("read.page", on_pending=team.reject)
    def read(page: str) -> str:
        return page.upper()

    assert read("a") == "A"


def test_what_policy_denies_does_not_run(team: ApprovalTeam) -> None:
    ran: list[int] = []

    @team.il.gate("delete.everything")
    def delete(n: int) -> None:
        ran.append(n)

    with pytest.raises(interlock.Denied) as caught:
        delete(1)
    assert ran == []
    assert caught.value.job_id
    assert "look for another way" in caught.value.for_agent()


def test_what_a_person_approves_runs_with_exactly_what_they_saw(team: ApprovalTeam) -> None:
    ran: list[bytes] = []

    @team.il.gate("pay.invoice", env="production", on_pending=team.approve)
    def pay(invoice: str, /, amount: float, *tags: str, currency: str = "EUR", **extra: Any) -> str:
        ran.append(
            canonical(
                {
                    "invoice": invoice,
                    "amount": amount,
                    "tags": list(tags),
                    "currency": currency,
                    "extra": extra,
                }
            )
        )
        return "paid"

    assert pay("i-1", 12.5, "urgent", memo={"née": ["x", None, True]}) == "paid"
    assert ran == team.seen
    assert len(ran) == 1


def test_what_changes_while_people_decide_does_not_get_through(team: ApprovalTeam) -> None:
    lines = [{"amount": 1}]
    ran: list[Any] = []

    def approve_then_change(job: Job) -> None:
        team.approve(job)
        lines[0]["amount"] = 1_000_000
        lines.append({"amount": 2})

    @team.il.gate("pay.lines", on_pending=approve_then_change)
    def pay(lines: list[dict[str, int]]) -> None:
        ran.append(lines)

    pay(lines)
    assert ran == [[{"amount": 1}]]


def test_a_rejected_call_carries_the_reviewers_reason_for_the_agent(team: ApprovalTeam) -> None:
    @team.il.gate("pay.invoice", on_pending=team.reject)
    def pay(invoice: str) -> None:
        raise AssertionError("ran")

    with pytest.raises(interlock.Rejected) as caught:
        pay("i-1")
    assert caught.value.reason == "The invoice is from last year."
    assert caught.value.reviewer == "ann"
    assert '"The invoice is from last year."' in caught.value.for_agent()


def test_a_call_nobody_decides_in_time_is_expired(team: ApprovalTeam) -> None:
    @team.il.gate("hurry.up")
    def act() -> None:
        raise AssertionError("ran")

    with pytest.raises(interlock.Expired):
        act()


def test_a_cancelled_request_is_a_conflict(team: ApprovalTeam) -> None:
    @team.il.gate("pay.invoice", on_pending=lambda job: team.il.cancel_job(job.id))
    def pay(invoice: str) -> None:
        raise AssertionError("ran")

    with pytest.raises(interlock.Conflict, match="CANCELLED"):
        pay("i-1")


def test_without_waiting_it_is_still_pending_and_the_same_call_finds_it_again(team: ApprovalTeam) -> None:
    ran: list[str] = []

    @team.il.gate("pay.invoice", key=lambda invoice, **_: invoice, wait=0)
    def pay(invoice: str, amount: int = 5) -> None:
        ran.append(invoice)

    with pytest.raises(interlock.StillPending) as first:
        pay("i-1")
    with pytest.raises(interlock.StillPending) as second:
        pay("i-1")
    assert first.value.job_id == second.value.job_id
    assert "call again" in str(first.value)
    assert len(team.il.jobs().items) == 1
    team.approve(team.il.get_job(str(first.value.job_id)))
    pay("i-1")
    assert ran == ["i-1"]
    assert len(team.il.jobs().items) == 1


def test_without_a_key_every_call_asks_anew_and_says_what_to_do_about_it(team: ApprovalTeam) -> None:
    @team.il.gate("pay.invoice", wait=0)
    def pay(invoice: str) -> None: ...

    for _ in range(2):
        with pytest.raises(interlock.StillPending, match="key="):
            pay("i-1")
    assert len(team.il.jobs().items) == 2


def test_a_new_process_finds_the_decision_that_was_made_meanwhile(team: ApprovalTeam) -> None:
    def gate_of(client: Interlock) -> Callable[[str], str]:
        @client.gate("pay.invoice", key=lambda invoice: invoice, wait=0)
        def pay(invoice: str) -> str:
            return f"paid {invoice}"

        return pay

    with pytest.raises(interlock.StillPending) as caught:
        gate_of(team.il)("i-1")
    team.reject(team.il.get_job(str(caught.value.job_id)))
    with Interlock(store=team.il.store) as restarted, pytest.raises(interlock.Rejected):
        gate_of(restarted)("i-1")


def test_one_key_for_two_different_calls_is_a_conflict_that_explains_itself(team: ApprovalTeam) -> None:
    @team.il.gate("read.page", key=lambda **_: "same")
    def read(page: str) -> str:
        return page

    read("a")
    with pytest.raises(interlock.Conflict, match="other arguments"):
        read("b")


def test_a_key_must_be_text_or_an_integer(team: ApprovalTeam) -> None:
    @team.il.gate("read.page", key=lambda **_: None)  # type: ignore[arg-type,return-value]
    def read(page: str) -> str:
        return page

    with pytest.raises(interlock.InvalidRequest, match="NoneType"):
        read("a")


def test_an_edited_request_does_not_run_the_old_arguments(team: ApprovalTeam) -> None:
    ran: list[int] = []

    @team.il.gate("pay.invoice", on_pending=team.edit({"amount": 1}))
    def pay(invoice: str, amount: int) -> None:
        ran.append(amount)

    with pytest.raises(interlock.Conflict, match="accept_edits"):
        pay("i-1", 100)
    assert ran == []


def test_an_edited_request_runs_as_edited_where_that_is_accepted(team: ApprovalTeam) -> None:
    ran: list[tuple[str, int]] = []

    @team.il.gate("pay.invoice", on_pending=team.edit({"amount": 1}), accept_edits=True)
    def pay(invoice: str, amount: int) -> None:
        ran.append((invoice, amount))

    pay("i-1", 100)
    assert ran == [("i-1", 1)]
    assert team.seen == [canonical({"invoice": "i-1", "amount": 1})]


def test_an_edit_that_does_not_fit_the_function_is_a_conflict(team: ApprovalTeam) -> None:
    @team.il.gate("pay.invoice", on_pending=team.edit({"colour": "red"}), accept_edits=True)
    def pay(invoice: str) -> None:
        raise AssertionError("ran")

    with pytest.raises(interlock.Conflict, match="colour"):
        pay("i-1")


def test_an_argument_that_is_not_json_is_refused_before_anybody_is_asked(team: ApprovalTeam) -> None:
    @team.il.gate("pay.invoice")
    def pay(invoice: str, due: object) -> None: ...

    with pytest.raises(NotJson, match="argument 'due'"):
        pay("i-1", object())
    assert team.il.jobs().items == ()


def test_options_may_be_computed_from_the_arguments(team: ApprovalTeam) -> None:
    @team.il.gate(
        "read.page",
        labels=lambda page: {"page": page},
        risk=lambda page: ["low"],
        target=lambda page: interlock.Target(key=f"page:{page}", version="1"),
        evidence=lambda page: [interlock.Evidence(title="Page", kind="text", content=page)],
        channel="web",
        priority="high",
    )
    def read(page: str) -> str:
        return page

    read("a")
    (job,) = team.il.jobs().items
    assert (job.labels["page"], job.risk, job.channel, job.priority) == ("a", ("low",), "web", "high")
    assert job.target == interlock.Target(key="page:a", version="1")
    assert job.evidence[0].content == "a"


def test_a_gated_call_waits_for_the_grace_and_for_a_second_yes_after_a_withdrawal(team: ApprovalTeam) -> None:
    ran: list[str] = []

    def second_thoughts(job: Job) -> None:
        team.approve(job)
        assert team.il.get_job(job.id).state == "PENDING"
        team.ann.withdraw(job.id, "a moment")
        assert ran == []
        team.approve(job)

    @team.il.gate("think.pay", wait=60, on_pending=second_thoughts)
    def pay(invoice: str) -> str:
        ran.append(invoice)
        return invoice

    assert pay("i-1") == "i-1"
    assert ran == ["i-1"]
    entries = team.il.get_job_history(team.il.jobs().items[0].id).items
    at = {entry.action: entry.at for entry in reversed(entries) if entry.at}
    assert (at["claim"] - at["approve"]).total_seconds() >= 2


def test_a_gated_call_that_does_not_wait_is_still_pending_within_the_grace(team: ApprovalTeam) -> None:
    @team.il.gate("think.pay", wait=0, key=lambda invoice: invoice)
    def pay(invoice: str) -> str:
        return invoice

    with pytest.raises(StillPending):
        pay("i-1")
    team.approve(team.il.jobs().items[0])
    with pytest.raises(StillPending) as pending:
        pay("i-1")
    assert pending.value.state == "PENDING"
