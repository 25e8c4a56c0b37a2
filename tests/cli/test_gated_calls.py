"""The jobs of gated calls at a terminal: who carries them out, which are in doubt, and how a person settles them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock import Ambiguous, Interlock
from tests.cli.aged_store import age
from tests.cli.terminal import Terminal
from tests.cli.test_doctor_findings import found, one, store_of

TOPIC = "knowledge.read"


def pay_of(il: Interlock, paid: list[str]) -> Callable[[str], str]:
    """A payment that breaks half way the first time."""

    @il.gate(TOPIC, key=lambda invoice: invoice)
    def pay(invoice: str) -> str:
        paid.append(invoice)
        if len(paid) == 1:
            raise ValueError("half way")
        return f"receipt for {invoice}"

    return pay


@pytest.fixture
def doubt(policy_terminal: Terminal) -> str:
    """The job of a call in doubt."""
    with store_of(policy_terminal) as il, pytest.raises(ValueError, match="half way"):
        pay_of(il, [])("i-1")
    return policy_terminal("jobs", "--json").json["items"][0]["id"]


def test_a_job_can_be_submitted_for_its_caller_alone(policy_terminal: Terminal) -> None:
    mine = policy_terminal("submit", TOPIC, "--executor", "caller", "--json").json
    theirs = policy_terminal("submit", TOPIC, "--json").json
    assert (mine["executor"], theirs["executor"]) == ("caller", "worker")
    ran = policy_terminal("worker", "--topic", TOPIC, "--exec", "true", "--once")
    assert theirs["id"] in ran.out + ran.err
    assert mine["id"] not in ran.out + ran.err
    assert policy_terminal("submit", TOPIC, "--executor", "nobody").code == 2


def test_who_carries_a_job_out_is_shown_in_lists_and_on_its_page(policy_terminal: Terminal) -> None:
    mine = policy_terminal("submit", TOPIC, "--executor", "caller", "--json").json
    theirs = policy_terminal("submit", TOPIC, "--json").json
    policy_terminal.use(COLUMNS="200")
    lines = {words[0]: words for line in policy_terminal("jobs").out.splitlines() if (words := line.split())}
    assert "EXECUTOR" in lines["ID"]
    assert "caller" in lines[mine["id"]]
    assert "worker" in lines[theirs["id"]]
    listed = {job["id"]: job["executor"] for job in policy_terminal("jobs", "--json").json["items"]}
    assert listed == {mine["id"]: "caller", theirs["id"]: "worker"}
    assert policy_terminal("job", mine["id"], "--json").json["executor"] == "caller"
    page = policy_terminal("job", mine["id"]).out
    assert "executor" in page
    assert "it may run, and waits for its caller" in page
    assert "executor" not in policy_terminal("job", theirs["id"]).out


def test_a_reviewer_is_told_who_will_run_it(policy_terminal: Terminal) -> None:
    payload = '{"amount_cents": 5}'
    job = policy_terminal(
        "submit", "finance.payment.execute", "--executor", "caller", "--payload", payload, "--json"
    ).json
    assert "is released to its caller with exactly this payload" in policy_terminal("approval", job["id"]).out


def test_a_call_in_doubt_says_so_and_what_to_do(policy_terminal: Terminal, doubt: str) -> None:
    page = policy_terminal("job", doubt).out
    assert "whether it happened is not known" in page
    assert f"interlock effect call:{doubt}" in page
    assert " of 3" not in page  # its caller decides how often, not the count of attempts
    refused = policy_terminal("retry", doubt)
    assert refused.code != 0
    assert f"interlock effect resolve call:{doubt}" in refused.err
    shown = policy_terminal("effect", "show", f"call:{doubt}").out
    assert f"interlock effect resolve call:{doubt} committed|not_committed --evidence" in shown


def test_the_doctor_notes_calls_in_doubt_and_does_not_advise_to_retry_them(
    policy_terminal: Terminal, doubt: str
) -> None:
    finding = one(policy_terminal, "calls")
    assert (finding["level"], doubt in finding["text"]) == ("note", True)
    assert f"interlock effect call:{doubt}" in finding["next_step"]
    assert found(policy_terminal("doctor", "--json"), "dead letters") == []


def test_the_doctor_wants_no_worker_for_what_waits_for_its_caller(policy_terminal: Terminal) -> None:
    policy_terminal("submit", TOPIC, "--executor", "caller")
    age(policy_terminal.folder, "jobs", hours=2)
    said = policy_terminal("doctor", "--json")
    assert found(said, "work") == found(said, "jobs") == []


def test_a_person_settles_a_call_at_a_terminal_and_the_next_call_goes_by_it(
    policy_terminal: Terminal, doubt: str
) -> None:
    paid = ["i-1"]
    with store_of(policy_terminal) as il:
        with pytest.raises(Ambiguous):
            pay_of(il, paid)("i-1")
        resolve = ("effect", "resolve", f"call:{doubt}")
        said = policy_terminal(*resolve, "committed", "--evidence", "statement 12", "--result", '"r-12"')
        assert said.code == 0
        assert pay_of(il, paid)("i-1") == "r-12"
    assert "SUCCEEDED" in policy_terminal("job", doubt).out
    assert paid == ["i-1"]


def test_after_a_person_said_that_it_did_not_happen_it_waits_for_its_caller(
    policy_terminal: Terminal, doubt: str
) -> None:
    paid = ["i-1"]
    assert (
        policy_terminal("effect", "resolve", f"call:{doubt}", "not_committed", "--evidence", "no trace").code
        == 0
    )
    assert "waits for its caller" in policy_terminal("job", doubt).out
    with store_of(policy_terminal) as il:
        assert pay_of(il, paid)("i-1") == "receipt for i-1"
    assert paid == ["i-1", "i-1"]
