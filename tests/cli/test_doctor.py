"""`interlock doctor`: what it finds, since when, and what it says to do."""

from __future__ import annotations

from typing import Any

import apsw

from tests.cli.terminal import POLICY, Said, Terminal


def test_a_healthy_house_is_said_to_be_healthy(policy_terminal: Terminal) -> None:
    policy_terminal.key("root", "--kind", "person", "--roles", "admin")
    said = policy_terminal("doctor")
    assert said.code == 0
    assert "no problems found" in said.out
    assert {finding["level"] for finding in policy_terminal("doctor", "--json").json["findings"]} == {"ok"}


def test_a_store_without_a_policy_is_wrong(terminal: Terminal) -> None:
    terminal("init", "--bare")
    said = terminal("doctor")
    assert said.code == 1
    assert "everything is denied" in said.out
    assert "interlock policy apply FILE" in said.out


def test_a_store_out_of_reach_is_wrong_and_not_a_crash(terminal: Terminal) -> None:
    said = terminal("doctor", "--url", "http://127.0.0.1:1", "--patience", "0s", "--json")
    assert said.code == 6
    assert [finding["about"] for finding in said.json["findings"]] == ["service"]


def test_a_policy_that_only_observes_is_noted_with_its_date(policy_terminal: Terminal) -> None:
    policy_terminal("policy", "apply", policy_terminal.file("observe.yaml", "version: v1\nmode: observe\n"))
    finding = _about(policy_terminal("doctor", "--json"), "policy")
    assert (finding["level"], "only observes" in finding["text"]) == ("note", True)
    assert finding["since"] is not None


def test_a_request_that_too_few_people_can_decide_is_wrong(policy_terminal: Terminal) -> None:
    policy_terminal.key("noor", "--kind", "person", "--roles", "review", "--groups", "finance")
    job = policy_terminal.submit(cents=20_000)
    said = policy_terminal("doctor")
    assert said.code == 1
    assert f"{job['id']} needs 2 people of finance; only 1 may decide it" in said.out
    policy_terminal.key("omar", "--kind", "person", "--roles", "review", "--groups", "finance")
    assert policy_terminal("doctor").code == 0


def test_two_keys_of_one_person_do_not_make_a_quorum(policy_terminal: Terminal) -> None:
    policy_terminal.key("noor", "--kind", "person", "--roles", "review", "--groups", "finance")
    policy_terminal.key(
        "noor2", "--kind", "person", "--roles", "review", "--groups", "finance", "--owner", "noor"
    )
    policy_terminal.submit(cents=20_000)
    assert "only 1 may decide it" in policy_terminal("doctor").out


def test_somebody_whose_key_was_revoked_does_not_count(policy_terminal: Terminal) -> None:
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    policy_terminal.key("noor", *words)
    omar = policy_terminal("key", "create", "omar", *words, "--json").json
    policy_terminal.submit(cents=20_000)
    assert policy_terminal("doctor").code == 0
    policy_terminal("key", "revoke", omar["key_id"])
    assert "only 1 may decide it" in policy_terminal("doctor").out


def test_somebody_who_edited_the_request_does_not_count(policy_terminal: Terminal) -> None:
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    noor = policy_terminal.key("noor", *words)
    policy_terminal.key("omar", *words)
    job = policy_terminal.submit(cents=20_000)
    assert policy_terminal("doctor").code == 0
    payload = '{"amount_cents": 20001}'
    assert (
        policy_terminal("edit", job["id"], "--payload", payload, "--reason", "typo", "--api-key", noor).code
        == 0
    )
    said = policy_terminal("doctor")
    assert said.code == 1
    assert f"{job['id']} needs 2 people of finance; only 1 may decide it" in said.out


def test_the_owner_of_the_submitters_owner_does_not_count(policy_terminal: Terminal) -> None:
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    for name in ("noor", "ada", "work"):
        policy_terminal.key(name, *words)
    bot = policy_terminal.key("bot", "--kind", "agent", "--roles", "submit", "--owner", "work")
    job = policy_terminal.submit("finance.payment.execute", 20_000, "--api-key", bot)
    assert "may decide it" not in policy_terminal("doctor").out
    policy_terminal.key("work", *words, "--owner", "ada")
    said = policy_terminal("doctor")
    assert said.code == 1
    assert f"{job['id']} needs 2 people of finance; only 1 may decide it" in said.out


def test_a_request_that_too_few_can_decide_is_wrong_for_reviewers_too(policy_terminal: Terminal) -> None:
    key = policy_terminal.key("mia", "--kind", "person", "--roles", "review")
    job = policy_terminal.submit(cents=20_000)
    assert (
        f"{job['id']} needs 2 people of finance; nobody may decide it"
        in policy_terminal("doctor", "--api-key", key).out
    )


def test_a_request_whose_submitter_somebody_broke_keeps_nothing_else_from_being_examined(
    policy_terminal: Terminal,
) -> None:
    bot = policy_terminal.key("bot", "--kind", "agent", "--roles", "submit")
    policy_terminal.submit("finance.payment.execute", 20_000, "--api-key", bot)
    with apsw.Connection(str(policy_terminal.folder / ".interlock" / "interlock.db")) as database:
        database.execute("UPDATE principals SET body = '{' WHERE id = 'bot'")
    said = policy_terminal("doctor")
    assert said.code == 1
    assert "1 stored record cannot be read: the database was changed outside Interlock" in said.out


def test_a_request_under_an_earlier_policy_is_wrong_and_can_be_refreshed(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", POLICY.replace("10000", "20000")))
    said = policy_terminal("doctor")
    assert said.code == 1
    assert f"interlock refresh {job['id']}" in said.out
    policy_terminal("refresh", job["id"])
    assert policy_terminal("doctor").code == 0


def test_an_agent_without_an_owner_is_noted(policy_terminal: Terminal) -> None:
    policy_terminal.key("root", "--kind", "person", "--roles", "admin")
    policy_terminal.key("payer", "--kind", "agent", "--roles", "submit")
    finding = _about(policy_terminal("doctor", "--json"), "keys")
    assert (finding["level"], "agent payer has no owner" in finding["text"]) == ("note", True)


def test_a_caller_who_may_not_see_keys_is_told_so(policy_terminal: Terminal) -> None:
    key = policy_terminal.key("mia", "--kind", "person", "--roles", "review")
    said = policy_terminal("doctor", "--api-key", key)
    assert (said.code, "pass an admin's key" in said.out) == (0, True)


def test_a_record_that_somebody_broke_in_the_store_is_wrong(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(cents=20_000)
    with apsw.Connection(str(policy_terminal.folder / ".interlock" / "interlock.db")) as database:
        database.execute("UPDATE jobs SET body = '{' WHERE id = ?", (job["id"],))
    said = policy_terminal("doctor")
    assert said.code == 1
    assert "1 stored record cannot be read: the database was changed outside Interlock" in said.out
    assert job["id"] not in policy_terminal("approvals").out


def _about(said: Said, about: str) -> Any:
    return next(finding for finding in said.json["findings"] if finding["about"] == about)
