"""`interlock doctor`: what it finds, since when, and what it says to do."""

from __future__ import annotations

from typing import Any

import apsw

from tests.cli.terminal import POLICY, Said, Terminal


def test_a_healthy_house_is_said_to_be_healthy(house: Terminal) -> None:
    house.key("root", "--kind", "person", "--roles", "admin")
    said = house("doctor")
    assert said.code == 0
    assert "nothing is wrong" in said.out
    assert {finding["level"] for finding in house("doctor", "--json").json["findings"]} == {"ok"}


def test_a_store_without_a_policy_is_wrong(terminal: Terminal) -> None:
    terminal("init")
    said = terminal("doctor")
    assert said.code == 1
    assert "everything is denied" in said.out
    assert "interlock policy apply FILE" in said.out


def test_a_store_out_of_reach_is_wrong_and_not_a_crash(terminal: Terminal) -> None:
    said = terminal("doctor", "--url", "http://127.0.0.1:1", "--patience", "0s", "--json")
    assert said.code == 6
    assert [finding["about"] for finding in said.json["findings"]] == ["service"]


def test_a_policy_that_only_observes_is_noted_with_its_date(house: Terminal) -> None:
    house("policy", "apply", house.file("observe.yaml", "version: v1\nmode: observe\n"))
    finding = _about(house("doctor", "--json"), "policy")
    assert (finding["level"], "only observes" in finding["text"]) == ("note", True)
    assert finding["since"] is not None


def test_a_request_that_too_few_people_can_decide_is_wrong(house: Terminal) -> None:
    house.key("noor", "--kind", "person", "--roles", "review", "--groups", "finance")
    job = house.submit(cents=20_000)
    said = house("doctor")
    assert said.code == 1
    assert f"{job['id']} needs 2 people of finance; only 1 may decide it" in said.out
    house.key("omar", "--kind", "person", "--roles", "review", "--groups", "finance")
    assert house("doctor").code == 0


def test_two_keys_of_one_person_do_not_make_a_quorum(house: Terminal) -> None:
    house.key("noor", "--kind", "person", "--roles", "review", "--groups", "finance")
    house.key("noor2", "--kind", "person", "--roles", "review", "--groups", "finance", "--owner", "noor")
    house.submit(cents=20_000)
    assert "only 1 may decide it" in house("doctor").out


def test_somebody_whose_key_was_revoked_does_not_count(house: Terminal) -> None:
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    house.key("noor", *words)
    omar = house("key", "create", "omar", *words, "--json").json
    house.submit(cents=20_000)
    assert house("doctor").code == 0
    house("key", "revoke", omar["key_id"])
    assert "only 1 may decide it" in house("doctor").out


def test_somebody_who_edited_the_request_does_not_count(house: Terminal) -> None:
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    noor = house.key("noor", *words)
    house.key("omar", *words)
    job = house.submit(cents=20_000)
    assert house("doctor").code == 0
    payload = '{"amount_cents": 20001}'
    assert house("edit", job["id"], "--payload", payload, "--reason", "typo", "--key", noor).code == 0
    said = house("doctor")
    assert said.code == 1
    assert f"{job['id']} needs 2 people of finance; only 1 may decide it" in said.out


def test_the_owner_of_the_submitters_owner_does_not_count(house: Terminal) -> None:
    words = ("--kind", "person", "--roles", "review", "--groups", "finance")
    for name in ("noor", "ada", "work"):
        house.key(name, *words)
    bot = house.key("bot", "--kind", "agent", "--roles", "submit", "--owner", "work")
    job = house.submit("finance.payment.execute", 20_000, "--api-key", bot)
    assert "may decide it" not in house("doctor").out
    house.key("work", *words, "--owner", "ada")
    said = house("doctor")
    assert said.code == 1
    assert f"{job['id']} needs 2 people of finance; only 1 may decide it" in said.out


def test_a_request_that_too_few_can_decide_is_wrong_for_reviewers_too(house: Terminal) -> None:
    key = house.key("mia", "--kind", "person", "--roles", "review")
    job = house.submit(cents=20_000)
    assert f"{job['id']} needs 2 people of finance; nobody may decide it" in house("doctor", "--key", key).out


def test_a_request_whose_submitter_somebody_broke_keeps_nothing_else_from_being_examined(
    house: Terminal,
) -> None:
    bot = house.key("bot", "--kind", "agent", "--roles", "submit")
    house.submit("finance.payment.execute", 20_000, "--api-key", bot)
    with apsw.Connection(str(house.folder / ".interlock" / "interlock.db")) as database:
        database.execute("UPDATE principals SET body = '{' WHERE id = 'bot'")
    said = house("doctor")
    assert said.code == 1
    assert "1 stored record cannot be read; somebody wrote to the database" in said.out


def test_a_request_under_an_earlier_policy_is_wrong_and_can_be_refreshed(house: Terminal) -> None:
    job = house.submit()
    house("policy", "apply", house.file("policy.yaml", POLICY.replace("10000", "20000")))
    said = house("doctor")
    assert said.code == 1
    assert f"interlock refresh {job['id']}" in said.out
    house("refresh", job["id"])
    assert house("doctor").code == 0


def test_an_agent_without_an_owner_is_noted(house: Terminal) -> None:
    house.key("root", "--kind", "person", "--roles", "admin")
    house.key("payer", "--kind", "agent", "--roles", "submit")
    finding = _about(house("doctor", "--json"), "keys")
    assert (finding["level"], "agent payer has no owner" in finding["text"]) == ("note", True)


def test_a_caller_who_may_not_see_keys_is_told_so(house: Terminal) -> None:
    key = house.key("mia", "--kind", "person", "--roles", "review")
    said = house("doctor", "--key", key)
    assert (said.code, "pass an admin's key" in said.out) == (0, True)


def test_a_record_that_somebody_broke_in_the_store_is_wrong(house: Terminal) -> None:
    job = house.submit(cents=20_000)
    with apsw.Connection(str(house.folder / ".interlock" / "interlock.db")) as database:
        database.execute("UPDATE jobs SET body = '{' WHERE id = ?", (job["id"],))
    said = house("doctor")
    assert said.code == 1
    assert "1 stored record cannot be read; somebody wrote to the database" in said.out
    assert job["id"] not in house("approvals").out


def _about(said: Said, about: str) -> Any:
    return next(finding for finding in said.json["findings"] if finding["about"] == about)
