"""The audit log from a terminal."""

from __future__ import annotations

from tests.cli.terminal import Terminal


def test_entries_are_found_by_subject_actor_and_action(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("approve", job["id"])
    by_subject = policy_terminal("audit", "--subject", job["id"], "--json").json["items"]
    assert [entry["action"] for entry in by_subject] == ["approve", "submit"]
    actor = by_subject[0]["actor"]
    approved = policy_terminal("audit", "--actor", actor, "--action", "approve", "--json").json["items"]
    assert [entry["subject"] for entry in approved] == [job["id"]]
    assert "no entries match" in policy_terminal("audit", "--actor", "nobody").out


def test_a_refused_decision_is_in_the_log(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit()
    policy_terminal("approve", job["id"], "--job-hash", "sha256:" + "0" * 64)
    assert "approve_refused" in policy_terminal("audit", "--subject", job["id"]).out


def test_only_those_with_the_role_read_it(policy_terminal: Terminal) -> None:
    key = policy_terminal.key("payer", "--kind", "agent", "--roles", "submit")
    said = policy_terminal("audit", "--api-key", key, "--json")
    assert (said.code, said.problem["code"]) == (1, "forbidden")
