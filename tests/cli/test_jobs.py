"""Proposing actions and following them from a terminal."""

from __future__ import annotations

import json

import pytest

from tests.cli.aged_store import age
from tests.cli.terminal import Terminal


def test_a_payload_can_be_written_out_in_a_file_or_on_stdin(policy_terminal: Terminal) -> None:
    policy_terminal.file("payload.json", '{"page": 7}')
    written = policy_terminal("submit", "knowledge.read", "--payload", '{"page": 7}', "--json").json
    from_file = policy_terminal("submit", "knowledge.read", "--payload", "@payload.json", "--json").json
    from_stdin = policy_terminal(
        "submit", "knowledge.read", "--payload", "-", "--json", stdin='{"page": 7}'
    ).json
    assert written["job_hash"] == from_file["job_hash"] == from_stdin["job_hash"]


def test_null_is_a_payload(policy_terminal: Terminal) -> None:
    job = policy_terminal("submit", "knowledge.read", "--payload", "null", "--run-id", "run_1", "--json").json
    assert (job["payload"], job["run_id"]) == (None, "run_1")


def test_a_payload_that_reads_two_ways_is_refused_before_anything_is_sent(policy_terminal: Terminal) -> None:
    said = policy_terminal("submit", "knowledge.read", "--payload", '{"page": 7, "page": 8}')
    assert said.code == 2
    assert "page" in said.err
    assert policy_terminal("jobs", "--json").json["items"] == []


def test_a_missing_payload_file_is_named(policy_terminal: Terminal) -> None:
    said = policy_terminal("submit", "knowledge.read", "--payload", "@nowhere.json")
    assert said.code == 2
    assert "cannot read nowhere.json" in said.err


def test_everything_given_reaches_the_job(policy_terminal: Terminal) -> None:
    policy_terminal.file("diff.patch", "- old\n+ new\n")
    words = (
        *("--env", "production", "--channel", "external", "--label", "team=a", "--label", "cost=b"),
        *("--risk", "high", "--priority", "critical", "--target", "repo:x@v7", "--expires-in", "2h"),
        *("--evidence", "change=@diff.patch", "--evidence", "ticket=https://tickets.example/1"),
    )
    job = policy_terminal("submit", "knowledge.read", *words, "--json").json
    assert (job["env"], job["channel"], job["priority"]) == ("production", "external", "critical")
    assert job["labels"] == {"team": "a", "cost": "b"}
    assert job["risk"] == ["high"]
    assert job["target"] == {"key": "repo:x", "version": "v7"}
    assert [(each["title"], each["kind"]) for each in job["evidence"]] == [
        ("change", "diff"),
        ("ticket", "link"),
    ]
    assert job["expires_at"] is not None


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("ledger", {"key": "ledger", "version": None}),
        ("@scope/pkg@1.2", {"key": "@scope/pkg", "version": "1.2"}),
        ("ann@mail.example@7", {"key": "ann@mail.example", "version": "7"}),
    ],
)
def test_a_target_has_its_version_behind_the_last_at(
    policy_terminal: Terminal, written: str, target: dict[str, str | None]
) -> None:
    stored = policy_terminal("submit", "knowledge.read", "--target", written, "--json").json["target"]
    assert {"version": None, **stored} == target


@pytest.mark.parametrize("written", ["", "@", "@v1", "ledger@"])
def test_a_target_of_which_a_part_is_missing_is_wrong_usage(policy_terminal: Terminal, written: str) -> None:
    said = policy_terminal("submit", "knowledge.read", "--target", written)
    assert (said.code, "is not KEY or KEY@VERSION" in said.err) == (2, True), said.err
    assert policy_terminal("jobs", "--json").json["items"] == []


def test_people_can_be_asked_where_the_policy_would_allow_it(policy_terminal: Terminal) -> None:
    any_reviewer = policy_terminal("submit", "knowledge.read", "--json", "--ask")
    ops = policy_terminal("submit", "knowledge.read", "--ask", "ops,leads", "--json")
    assert [(said.code, said.json["approval"]["groups"]) for said in (any_reviewer, ops)] == [
        (4, []),
        (4, ["ops", "leads"]),
    ]


def test_the_same_intent_finds_the_same_job(policy_terminal: Terminal) -> None:
    first = policy_terminal.submit("knowledge.read", 1, "--key", "once")
    again = policy_terminal.submit("knowledge.read", 1, "--key", "once")
    assert (again["id"], first["replayed"], again["replayed"]) == (first["id"], False, True)


def test_an_intent_used_for_something_else_is_refused(policy_terminal: Terminal) -> None:
    policy_terminal.submit("knowledge.read", 1, "--key", "once")
    said = policy_terminal("submit", "knowledge.read", "--payload", '{"amount_cents": 2}', "--key", "once")
    assert said.code == 1
    assert "this --key was used for a different request" in said.err


def test_an_api_key_is_not_taken_for_the_name_of_an_intent(policy_terminal: Terminal) -> None:
    key = policy_terminal.key("payer", "--kind", "agent", "--roles", "submit")
    said = policy_terminal("submit", "knowledge.read", "--key", key)
    assert said.code == 2
    assert "--api-key" in said.err
    assert key not in said.err


def test_jobs_are_listed_by_state_and_topic(policy_terminal: Terminal) -> None:
    waiting, free = policy_terminal.submit(), policy_terminal.submit("knowledge.read")
    assert [job["id"] for job in policy_terminal("jobs", "--json").json["items"]] == [
        free["id"],
        waiting["id"],
    ]
    assert [job["id"] for job in policy_terminal("jobs", "--state", "approval", "--json").json["items"]] == [
        waiting["id"]
    ]
    assert [
        job["id"] for job in policy_terminal("jobs", "--topic", "knowledge.read", "--json").json["items"]
    ] == [free["id"]]


def test_a_long_listing_says_how_to_go_on(policy_terminal: Terminal) -> None:
    ids = [policy_terminal.submit("knowledge.read", number)["id"] for number in range(3)]
    first = policy_terminal("jobs", "--limit", "2")
    cursor = first.out.split("--cursor ")[1].strip()
    rest = policy_terminal("jobs", "--limit", "2", "--cursor", cursor, "--json").json
    assert [job["id"] for job in rest["items"]] == [ids[0]]
    assert rest["next_cursor"] is None


def test_an_empty_listing_says_what_to_do_next(policy_terminal: Terminal) -> None:
    assert "interlock submit" in policy_terminal("jobs").out
    assert "`interlock jobs` lists them all" in policy_terminal("jobs", "--state", "FAILED").out


def test_a_job_shows_its_payload_and_who_decided(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("approve", job["id"], "--reason", "matches the invoice")
    shown = policy_terminal("job", job["id"]).out
    assert '"amount_cents": 500' in shown
    assert "approved by local:" in shown
    assert "matches the invoice" in shown
    assert job["job_hash"] in shown


def test_a_job_that_no_rule_matched_says_so_once(policy_terminal: Terminal) -> None:
    job = policy_terminal("submit", "other.thing", "--json").problem["job_id"]
    assert "policy     deny (no rule matched; the default is deny)\n" in policy_terminal("job", job).out


def test_a_denied_job_tells_the_reason_that_the_rule_gives(terminal: Terminal) -> None:
    rule = "{id: no-shell, when: {topic: shell.run}, decision: deny, reason: use the deploy tool}"
    terminal("policy", "apply", terminal.file("policy.yaml", f"version: v1\nrules: [{rule}]\n"))
    denied = terminal("submit", "shell.run")
    assert (denied.code, "(rule no-shell: use the deploy tool)" in denied.err) == (3, True), denied.err
    (job,) = terminal("jobs", "--json").json["items"]
    shown = terminal("job", job["id"]).out
    assert "DENIED: it will not run (rule no-shell: use the deploy tool)\n" in shown


def test_whoever_submits_before_there_is_a_policy_is_told_how_to_set_one(terminal: Terminal) -> None:
    denied = terminal("submit", "knowledge.read")
    assert denied.code == 3
    assert "no rules are in force" in denied.err
    assert "`interlock policy apply FILE`" in denied.err


def test_a_job_that_nobody_began_in_time_was_not_left_undecided(policy_terminal: Terminal) -> None:
    released = policy_terminal.submit("knowledge.read", 500, "--expires-in", "1h")["id"]
    approved = policy_terminal.submit("finance.payment.execute", 500, "--expires-in", "1h")["id"]
    policy_terminal("approve", approved)
    age(policy_terminal.folder, "jobs", hours=2)
    assert "EXPIRED: its time to begin has passed\n" in policy_terminal("job", released).out
    assert "EXPIRED: its time to begin has passed; approved by local:" in policy_terminal("job", approved).out


def test_a_rule_is_named_where_it_decided_and_nowhere_else(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("knowledge.read")["id"]
    assert "PENDING: it may run (rule read-freely)\n" in policy_terminal("job", job).out
    policy_terminal("worker", "--topic", "knowledge.read", "--exec", "true", "--once")
    assert "SUCCEEDED: done\n" in policy_terminal("job", job).out


def test_the_history_of_a_job_tells_who_did_what(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("approve", job["id"])
    actions = [
        entry["action"] for entry in policy_terminal("job", job["id"], "--history", "--json").json["items"]
    ]
    assert actions == ["approve", "submit"]
    assert "approve" in policy_terminal("job", job["id"], "--history").out


def test_a_cancelled_job_will_not_run(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    assert "will not run" in policy_terminal("cancel", job["id"], "--reason", "not needed").out
    assert policy_terminal("job", job["id"], "--json").json["state"] == "CANCELLED"


def test_errors_are_problem_documents_for_programs(policy_terminal: Terminal) -> None:
    said = policy_terminal("submit", "server.delete", "--json")
    assert said.out == ""
    assert said.problem["code"] == "policy_denied"
    assert said.problem["job_id"].startswith("job_")
    assert policy_terminal("job", "job_0000", "--json").problem["code"] == "not_found"
    assert json.loads(
        policy_terminal("jobs", "--url", "http://127.0.0.1:1", "--patience", "0s", "--json").err
    )["code"]


def test_a_submit_that_waits_says_once_for_what_and_until_when(policy_terminal: Terminal) -> None:
    words = ("submit", "finance.payment.execute", "--payload", '{"amount_cents": 500}', "--json", "--wait")
    waited, at_once = policy_terminal(*words, "6s"), policy_terminal(*words, "0s")
    (line,) = waited.err.splitlines()
    assert f"of job {waited.json['id']}" in line
    assert ", until 20" in line
    assert (waited.code, at_once.code, at_once.err) == (4, 4, "")
