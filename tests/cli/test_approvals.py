"""Deciding from a terminal: what the reviewer sees, and what each answer comes to."""

from __future__ import annotations

import json

import pytest

from interlock import Interlock, Job
from tests.cli.aged_store import age
from tests.cli.terminal import POLICY, Terminal


@pytest.fixture
def finance(policy_terminal: Terminal) -> dict[str, str]:
    """Keys of two people of finance."""
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    return {name: policy_terminal.key(name, *words) for name in ("noor", "omar")}


def test_the_inbox_shows_what_is_pending_and_how_many_agreed(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    job = policy_terminal.submit(cents=20_000)
    decided = policy_terminal.submit()
    policy_terminal("reject", decided["id"], "--reason", "no")
    policy_terminal("approve", job["id"], "--api-key", finance["noor"])
    listed = policy_terminal("approvals").out
    assert job["id"] in listed
    assert "1 of 2" in listed
    assert "finance" in listed
    assert decided["id"] not in listed
    assert decided["id"] in policy_terminal("approvals", "--state", "all").out
    assert [
        each["id"] for each in policy_terminal("approvals", "--state", "rejected", "--json").json["items"]
    ] == [decided["id"]]


def test_a_vote_that_no_longer_counts_is_not_counted_in_the_inbox(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    job = policy_terminal.submit(cents=20_000)
    policy_terminal("approve", job["id"], "--api-key", finance["noor"])
    policy_terminal.key("noor", "--kind", "person", "--roles", "audit")
    assert "0 of 2" in policy_terminal("approvals").out


def test_mine_is_what_waits_for_me_the_most_urgent_first(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    small, large = policy_terminal.submit(), policy_terminal.submit(cents=20_000)
    noor = ("--api-key", finance["noor"])
    mine = policy_terminal("approvals", "--mine", "--json", *noor).json["items"]
    assert [each["id"] for each in mine] == [large["id"], small["id"]]
    assert policy_terminal("approvals", "--json").json["items"][0]["id"] == large["id"]
    assert large["id"] not in policy_terminal("approvals", "--mine").out

    policy_terminal("approve", large["id"], *noor)

    shown = policy_terminal("approvals", "--mine", *noor).out
    assert (large["id"] in shown, small["id"] in shown) == (False, True)
    policy_terminal("reject", small["id"], "--reason", "no")
    assert "nothing waits for your decision" in policy_terminal("approvals", "--mine", *noor).out
    assert policy_terminal("approvals", "--mine", "--state", "all").code == 2


def test_an_empty_inbox_says_so(policy_terminal: Terminal) -> None:
    assert "nothing waits for a decision" in policy_terminal("approvals").out


def test_the_page_has_everything_and_the_commands_to_decide(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    job = policy_terminal.submit(
        "finance.payment.execute", 20_000, "--env", "production", "--evidence", "invoice=No. 7"
    )
    policy_terminal("approve", job["id"], "--api-key", finance["noor"], "--reason", "checked")
    page = policy_terminal("approval", job["id"]).out
    for part in (
        '"amount_cents": 20000',
        "production",
        "two-for-large",
        "2 different people of finance; never the submitter",
        "No. 7",
        "noor",
        "checked",
        f"interlock approve {job['id']} --job-hash {job['job_hash']}",
        f"interlock reject {job['id']}",
    ):
        assert part in page


def test_the_page_names_the_person_that_an_agent_asks_for(policy_terminal: Terminal) -> None:
    policy_terminal.key("mia", "--kind", "person", "--roles", "submit")
    bot = policy_terminal.key("bot", "--kind", "agent", "--roles", "submit", "--owner", "mia")
    job = policy_terminal("submit", "finance.payment.execute", "--api-key", bot, "--json").json
    assert "bot for mia, " in policy_terminal("approval", job["id"]).out


def test_the_page_warns_while_too_few_people_may_decide(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("finance.payment.execute", 20_000, "--env", "production")
    page = policy_terminal("approval", job["id"]).out
    assert "! it needs 2 people of finance; nobody may decide it" in page
    assert "interlock key create NAME --kind person --roles review --groups finance" in page
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    policy_terminal.key("noor", *words)
    assert "needs 2 people of finance; only 1 may decide it" in policy_terminal("approval", job["id"]).out
    policy_terminal.key("omar", *words)
    assert "may decide it" not in policy_terminal("approval", job["id"]).out


def test_the_page_warns_when_the_policy_moved_on(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", POLICY.replace("10000", "20000")))
    page = policy_terminal("approval", job["id"]).out
    assert "the policy changed since this was asked" in page
    assert f"interlock refresh {job['id']}" in page
    assert "interlock approve" not in page


def test_a_request_that_expired_is_asked_anew_unless_the_jobs_own_time_is_over(
    policy_terminal: Terminal,
) -> None:
    asked, late = (
        policy_terminal.submit(),
        policy_terminal.submit("finance.payment.execute", 500, "--expires-in", "26h"),
    )
    age(policy_terminal.folder, "jobs", hours=25)
    assert f"interlock refresh {late['id']}" in policy_terminal("approval", late["id"]).out
    age(policy_terminal.folder, "jobs", hours=2)
    assert "submit it again" in policy_terminal("approval", late["id"]).out
    assert policy_terminal("refresh", late["id"]).code == 3
    assert f"`interlock refresh {asked['id']}`" in policy_terminal("approve", asked["id"]).err
    assert policy_terminal("refresh", asked["id"]).code == 0


def test_nothing_that_was_submitted_can_pose_as_interlock(policy_terminal: Terminal) -> None:
    policy_terminal.file("evidence.txt", "harmless\x1b[2J\nstate  approved\u202e\n")
    payload = json.dumps({"to": "\u001b]0;approved\u0007 \u202eevil\u3164\u2800"})
    job = policy_terminal(
        "submit", "finance.payment.execute", "--payload", '{"amount_cents": 1, "x": ' + payload + "}",
        "--label", "note=a", "--evidence", "text=@evidence.txt", "--json",
    ).json  # fmt: skip
    for command in (("approval", job["id"]), ("job", job["id"]), ("jobs",), ("approvals",)):
        shown = policy_terminal(*command).out
        assert not [
            char for char in shown if char in "\u3164\u2800" or (not char.isprintable() and char != "\n")
        ]
    page = policy_terminal("approval", job["id"]).out
    assert "\\u001b]0;approved" in page
    assert "evil\\u3164\\u2800" in page
    assert "  │ state  approved\\u202e" in page


def test_one_yes_of_two_is_counted_and_the_second_decides(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    job = policy_terminal.submit(cents=20_000)
    first = policy_terminal("approve", job["id"], "--api-key", finance["noor"])
    assert (first.code, "1 more needed" in first.out) == (0, True)
    second = policy_terminal("approve", job["id"], "--api-key", finance["omar"], "--json")
    assert (second.code, second.json["outcome"], second.json["state"]) == (0, "approved", "PENDING")


def test_deciding_again_the_same_way_changes_nothing(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("approve", job["id"])
    again = policy_terminal("approve", job["id"])
    assert (again.code, "nothing changed" in again.out) == (0, True)


def test_deciding_the_other_way_is_refused_and_names_who_decided(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("approve", job["id"])
    said = policy_terminal("reject", job["id"], "--reason", "too late")
    assert said.code == 1
    assert "was approved by local:" in said.err


def test_a_yes_to_another_version_is_refused(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    said = policy_terminal("approve", job["id"], "--job-hash", "sha256:" + "0" * 64, "--json")
    assert (said.code, said.problem["code"]) == (1, "hash_mismatch")
    assert policy_terminal("approve", job["id"], "--job-hash", job["job_hash"]).code == 0


def test_advice_names_commands_not_routes(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", POLICY.replace("10000", "20000")))
    said = policy_terminal("approve", job["id"])
    assert said.code == 1
    assert f"`interlock refresh {job['id']}`" in said.err
    assert "/api/v1/" not in said.err


def test_a_target_that_moved_is_shown_with_the_way_to_ask_anew(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("finance.payment.execute", 500, "--target", "ledger@1")
    assert policy_terminal("touch", "--target", "ledger", "--version", "2").code == 0
    page = policy_terminal("approval", job["id"]).out
    assert "moved to 2" in page
    assert f"interlock refresh {job['id']}" in page
    assert f"interlock approve {job['id']}" not in page


def test_a_refreshed_request_can_be_approved_again(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", POLICY.replace("10000", "20000")))
    assert policy_terminal("refresh", job["id"]).code == 0
    assert policy_terminal("approve", job["id"]).code == 0


def test_an_edited_request_has_a_new_hash_and_no_votes(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    job = policy_terminal.submit(cents=20_000)
    policy_terminal("approve", job["id"], "--api-key", finance["noor"])
    edited = policy_terminal(
        "edit", job["id"], "--payload", '{"amount_cents": 30000}', "--reason", "agreed", "--json"
    ).json
    assert edited["job_hash"] != job["job_hash"]
    assert edited["approval"]["votes"] == []
    assert "this is round 2" in policy_terminal("approval", job["id"]).out


def test_a_reviewer_sees_who_edited_a_request_and_what_it_was_before(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(cents=20_000)["id"]
    policy_terminal("edit", job, "--payload", '{"amount_cents": 30000}', "--reason", "agreed")
    policy_terminal("refresh", job)
    shown = policy_terminal("approval", job).out
    assert "\nedited       by local:" in shown
    assert ": agreed\n" in shown
    assert '\npayload before the edit\n  {\n    "amount_cents": 20000\n  }\n' in shown


def test_whoever_edited_a_request_is_told_that_this_is_why_they_cannot_decide_it(
    policy_terminal: Terminal, finance: dict[str, str]
) -> None:
    job = policy_terminal.submit(cents=20_000)["id"]
    policy_terminal(
        "edit",
        job,
        "--payload",
        '{"amount_cents": 30000}',
        "--reason",
        "agreed",
        "--api-key",
        finance["noor"],
    )
    said = policy_terminal("approve", job, "--api-key", finance["noor"])
    assert (said.code, "noor submitted or edited" in said.err) == (1, True), said.err


def test_a_rejection_needs_a_reason(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    assert policy_terminal("reject", job["id"]).code == 2
    blank = policy_terminal("reject", job["id"], "--reason", "   ")
    assert (blank.code, "reason is not valid; write something that can be read" in blank.err) == (
        1,
        True,
    )
    assert policy_terminal("job", job["id"], "--json").json["state"] == "APPROVAL"


def test_an_agents_key_decides_nothing(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    key = policy_terminal.key("payer", "--kind", "agent", "--roles", "submit,review")
    said = policy_terminal("approve", job["id"], "--api-key", key, "--json")
    assert (said.code, said.problem["code"]) == (1, "people_only")


def test_a_job_that_nobody_is_asked_about_is_to_be_read_in_its_history(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("knowledge.read")["id"]
    said = policy_terminal("approval", job)
    told = f"no decision is asked for now; what came of it is in its history; next: `interlock job {job} --history`"
    assert (said.code, told in said.err) == (1, True), said


def test_approve_says_in_a_line_what_it_approves(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(cents=700)
    said = policy_terminal("approve", job["id"])
    line, verdict = said.out.splitlines()
    assert line.startswith("approving finance.payment.execute")
    assert '{"amount_cents": 700}' in line
    assert job["job_hash"] in line
    assert "is approved" in verdict


def test_what_was_edited_after_it_was_read_is_not_approved_by_its_id_alone(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(cents=700)
    assert job["job_hash"] in policy_terminal("approval", job["id"]).out
    edited = policy_terminal(
        "edit", job["id"], "--payload", '{"amount_cents": 900}', "--reason", "x", "--json"
    ).json

    for words in ((), ("--json",), ("--job-hash", job["job_hash"])):
        unseen = policy_terminal("approve", job["id"], *words)
        assert unseen.code == 1
        assert "payload.amount_cents changed" in unseen.err
        assert f"`interlock approval {job['id']}`" in unseen.err or "--json" in words
        assert policy_terminal("job", job["id"], "--json").json["state"] == "APPROVAL"
    assert policy_terminal("approve", job["id"], "--json").problem["changed"] == ["payload.amount_cents"]

    named = policy_terminal("approve", job["id"], "--job-hash", edited["job_hash"])
    assert (named.code, "is approved" in named.out) == (0, True)


def test_a_rule_that_wants_the_version_named_wants_it_of_the_command_too(policy_terminal: Terminal) -> None:
    policy = POLICY.replace("{self_approval: true}", "{self_approval: true, require_hash: true}")
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", policy))
    job = policy_terminal.submit(cents=700)
    assert policy_terminal("approve", job["id"], "--json").problem["code"] == "hash_mismatch"
    assert policy_terminal("approve", job["id"], "--job-hash", job["job_hash"]).code == 0


def test_a_no_says_what_it_was_shown_and_one_to_another_version_is_refused(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(cents=700)
    policy_terminal("edit", job["id"], "--payload", '{"amount_cents": 900}', "--reason", "x")
    told = ("--reason", "y", "--job-hash", job["job_hash"], "--json")
    assert policy_terminal("reject", job["id"], *told).problem["code"] == "hash_mismatch"
    said = policy_terminal("reject", job["id"], "--reason", "y")
    assert (said.code, "rejecting finance.payment.execute" in said.out, "edited by" in said.out) == (
        0,
        True,
        True,
    )


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_is_edited_while_the_command_looks_is_not_approved(
    policy_terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    job, read = policy_terminal.submit(cents=700), Interlock.get_job

    def edited_at_once(client: Interlock, job_id: str) -> Job:
        seen = read(client, job_id)
        client.edit(job_id, {"amount_cents": 900}, reason="x")
        return seen

    with monkeypatch.context() as patched:
        patched.setattr(Interlock, "get_job", edited_at_once)
        assert policy_terminal("approve", job["id"], *words).code == 1
    assert policy_terminal("job", job["id"], "--json").json["state"] == "APPROVAL"


def test_a_yes_is_taken_back_within_the_grace(policy_terminal: Terminal) -> None:
    job = policy_terminal("submit", "deploy.service", "--json").json["id"]
    assert f"interlock withdraw {job}" in policy_terminal("approve", job).out
    shown = policy_terminal("approval", job).out
    assert "may be withdrawn, and does not run, until" in shown
    assert f"interlock withdraw {job} --reason" in shown

    said = policy_terminal("withdraw", job, "--reason", "not on a Friday")

    assert (said.code, "is withdrawn (0 of 1)" in said.out) == (0, True)
    assert policy_terminal("job", job, "--json").json["state"] == "APPROVAL"
    again = policy_terminal("withdraw", job, "--reason", "not on a Friday")
    assert again.code == 1
    assert "you have no vote to withdraw" in again.err


def test_questions_and_answers_are_shown_with_the_request(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()["id"]
    vote = policy_terminal("ask", job, "why twice?\x1b[31m")
    assert vote.code != 0
    assert "is open until it is answered" in policy_terminal("ask", job, "why twice?").out
    assert "asks (open)" in policy_terminal("approval", job).out

    answered = policy_terminal("comment", job, "the first one bounced", "--json").json

    assert (answered["kind"], answered["via"]) == ("comment", "cli")
    shown = policy_terminal("approval", job).out
    assert "asks (open)" not in shown
    assert "│ the first one bounced" in shown
