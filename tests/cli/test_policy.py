"""Policies from a terminal: refused with line and column, tested like code, and always a way back."""

from __future__ import annotations

from tests.cli.terminal import POLICY, Terminal

BAD = """\
version: v1
rules:
  - id: broken
    when: {topic: a.b}
    if: payload.amount >
    decision: maybe
"""
CASES = """\
cases:
  - name: reading is free
    given: {topic: knowledge.read}
    expect: {decision: allow, rule: read-freely}
  - name: a large payment needs two people
    given: {topic: finance.payment.execute, payload: {amount_cents: 20000}}
    expect: {decision: require_human, quorum: 2}
"""


def test_a_bad_policy_is_refused_with_file_line_and_column(terminal: Terminal) -> None:
    said = terminal("policy", "check", terminal.file("bad.yaml", BAD))
    assert said.code == 1
    assert "bad.yaml:5:" in said.err
    assert "bad.yaml:6:15" in said.err


def test_a_bad_policy_is_a_problem_document_for_programs(terminal: Terminal) -> None:
    said = terminal("policy", "check", terminal.file("bad.yaml", BAD), "--json")
    assert said.problem["code"] == "invalid_policy"
    assert {error["line"] for error in said.problem["errors"]} == {5, 6}


def test_checking_a_policy_needs_no_store(terminal: Terminal) -> None:
    said = terminal("policy", "check", terminal.file("policy.yaml", POLICY))
    assert said.code == 0
    assert "5 rules, default deny" in said.out
    assert not (terminal.folder / ".interlock").exists()


def test_a_bad_policy_is_never_applied(policy_terminal: Terminal) -> None:
    before = policy_terminal("policy", "show", "--json").json["snapshot"]
    assert policy_terminal("policy", "apply", policy_terminal.file("bad.yaml", BAD)).code == 1
    assert policy_terminal("policy", "show", "--json").json["snapshot"] == before


def test_a_policy_is_applied_only_in_the_place_of_the_one_expected(policy_terminal: Terminal) -> None:
    before = policy_terminal("policy", "show", "--json").json["snapshot"]
    file = policy_terminal.file("other.yaml", POLICY.replace("10000", "20000"))
    said = policy_terminal("policy", "apply", file, "--expecting", "sha256:0")
    assert (said.code, before in said.err) == (1, True)
    assert policy_terminal("policy", "show", "--json").json["snapshot"] == before
    assert policy_terminal("policy", "apply", file, "--expecting", before).code == 0


def test_a_missing_file_is_wrong_usage(terminal: Terminal) -> None:
    said = terminal("policy", "check", "nowhere.yaml")
    assert (said.code, "cannot read nowhere.yaml" in said.err) == (2, True)


def test_what_is_shown_can_be_applied_again(policy_terminal: Terminal) -> None:
    shown = policy_terminal("policy", "show").out
    assert shown == POLICY
    checked = policy_terminal("policy", "check", "-", "--json", stdin=shown).json
    assert checked["snapshot"] == policy_terminal("policy", "show", "--json").json["snapshot"]


def test_no_policy_in_force_is_said_plainly(terminal: Terminal) -> None:
    terminal("init", "--bare")
    said = terminal("policy", "show")
    assert (said.code, said.out) == (0, "")
    assert "everything is denied" in said.err


def test_a_rollback_puts_the_earlier_policy_back(policy_terminal: Terminal) -> None:
    first = policy_terminal("policy", "show", "--json").json["snapshot"]
    applied = policy_terminal(
        "policy", "apply", policy_terminal.file("policy.yaml", POLICY.replace("10000", "20000"))
    )
    assert f"interlock policy rollback {first}" in applied.out
    assert policy_terminal("policy", "rollback", first).code == 0
    listed = policy_terminal("policy", "snapshots").out.splitlines()
    assert next(line for line in listed if first in line).endswith("in force")
    assert policy_terminal("policy", "show", first).out == POLICY


def test_an_evaluation_says_what_would_happen_and_why(policy_terminal: Terminal) -> None:
    said = policy_terminal(
        "policy", "evaluate", "--topic", "finance.payment.execute", "--payload", '{"amount_cents": 20000}'
    )
    assert "require_human" in said.out
    assert "2 different people of finance" in said.out
    assert "read-freely: topic" in said.out
    assert policy_terminal("jobs", "--json").json["items"] == []


def test_an_evaluation_takes_a_job_from_a_file_and_options_over_it(policy_terminal: Terminal) -> None:
    policy_terminal.file("job.json", '{"topic": "knowledge.read", "payload": {}}')
    assert policy_terminal("policy", "evaluate", "job.json", "--json").json["decision"] == "allow"
    assert (
        policy_terminal("policy", "evaluate", "job.json", "--topic", "a.b", "--json").json["decision"]
        == "deny"
    )
    assert policy_terminal("policy", "evaluate").code == 2


def test_a_topic_can_be_asked_about_as_it_is_submitted(policy_terminal: Terminal) -> None:
    asked = policy_terminal("policy", "evaluate", "knowledge.read", "--payload", "{}", "--json")
    assert (asked.code, asked.json["decision"]) == (0, "allow")
    for missing in ("no-such-file.json", "no/such/file"):
        refused = policy_terminal("policy", "evaluate", missing)
        assert refused.code == 2
        assert "cannot read" in refused.err


def test_a_candidate_policy_can_be_asked_before_it_is_in_force(policy_terminal: Terminal) -> None:
    candidate = policy_terminal.file("strict.yaml", "version: v1\ndefault: deny\n")
    words = ("policy", "evaluate", "--topic", "knowledge.read", "--policy", candidate, "--json")
    assert policy_terminal(*words).json["decision"] == "deny"


def test_a_simulation_counts_what_would_change(policy_terminal: Terminal) -> None:
    policy_terminal.submit("knowledge.read")
    policy_terminal.submit()
    candidate = policy_terminal.file("strict.yaml", "version: v1\ndefault: deny\n")
    said = policy_terminal("policy", "simulate", candidate)
    assert "2 jobs examined: 2 would change" in said.out
    assert policy_terminal("policy", "simulate", "policy.yaml", "--json").json["changes"] == []


def test_cases_are_reported_like_a_test_runner(policy_terminal: Terminal) -> None:
    policy_terminal.file("cases.yaml", CASES)
    passed = policy_terminal("policy", "test", "cases.yaml", "--policy", "policy.yaml")
    assert passed.code == 0
    assert "✓ reading is free" in passed.out
    assert "2 cases: 2 passed" in passed.out


def test_a_failed_case_says_what_was_expected_and_where(policy_terminal: Terminal) -> None:
    policy_terminal.file("cases.yaml", CASES.replace("decision: allow", "decision: deny"))
    failed = policy_terminal("policy", "test", "cases.yaml")
    assert failed.code == 1
    assert "✗ reading is free  cases.yaml:2" in failed.out
    assert "decision: expected deny, got allow" in failed.out
    assert "1 passed, 1 failed" in failed.out
    assert policy_terminal("policy", "test", "cases.yaml", "--json").json["failed"] == 1


def test_a_bad_file_of_cases_is_refused_with_its_line(policy_terminal: Terminal) -> None:
    said = policy_terminal(
        "policy", "test", policy_terminal.file("cases.yaml", "cases:\n  - given: {topic: a}\n")
    )
    assert (said.code, "cases.yaml:2:" in said.err) == (1, True)


def test_observed_lists_what_enforcement_would_have_stopped(policy_terminal: Terminal) -> None:
    assert "nothing observed" in policy_terminal("policy", "observed").out
    policy_terminal(
        "policy", "apply", policy_terminal.file("observe.yaml", "version: v1\nmode: observe\ndefault: deny\n")
    )
    job = policy_terminal.submit("server.delete")
    assert job["state"] == "PENDING"
    listed = policy_terminal("policy", "observed").out
    assert job["id"] in listed
    assert "deny" in listed
    assert policy_terminal("policy", "observed", "--json").json["items"][0]["decision"]["observed"] == "deny"


BARE = """\
version: v1
rules:
  - id: large
    when: {topic: finance.payment.execute}
    if: payload.amount_cents > 10000
    decision: require_human
"""


def test_a_field_that_may_be_missing_is_warned_of_with_its_place(policy_terminal: Terminal) -> None:
    file = policy_terminal.file("bare.yaml", BARE)
    for verb in ("check", "apply"):
        said = policy_terminal("policy", verb, file)
        assert said.code == 0
        assert "warning: " in said.err
        assert "bare.yaml:5:9: rules[0].if: payload.amount_cents may be missing" in said.err
        assert "write has(payload.amount_cents) && …" in said.err
    [warning] = policy_terminal("policy", "check", file, "--json").json["warnings"]
    assert (warning["line"], warning["column"]) == (5, 9)
    [warning] = policy_terminal("policy", "apply", file, "--json").json["warnings"]
    assert (warning["line"], warning["column"]) == (5, 9)


def test_a_request_that_a_rule_fails_on_is_denied_and_every_command_says_why(
    policy_terminal: Terminal,
) -> None:
    policy_terminal("policy", "apply", policy_terminal.file("bare.yaml", BARE))
    topic = "finance.payment.execute"

    submitted = policy_terminal("submit", topic)
    asked = policy_terminal("policy", "evaluate", topic)
    case = policy_terminal.file("cases.yaml", f"cases:\n- {{given: {{topic: {topic}}}, expect: deny}}\n")
    tested = policy_terminal("policy", "test", case)

    assert (submitted.code, asked.code, tested.code) == (3, 0, 0)
    for told in (submitted.err, asked.out, tested.out):
        assert "there is no field payload.amount_cents" in told
    assert "  fail large: " in asked.out
