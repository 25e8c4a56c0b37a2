"""`interlock retry` and `interlock keys`: dead letters come back, and permits get a new signing key."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Interlock, PermitInvalid, verify_permit
from tests.cli.terminal import Terminal

FREE = "knowledge.read"


def dead_letter(policy_terminal: Terminal) -> str:
    """A job that failed for good."""
    job = policy_terminal.submit(FREE)
    said = policy_terminal("worker", "--topic", FREE, "--exec", "exit 1", "--once", "--json")
    assert (said.code, said.json["outcome"]) == (1, "failed")
    return job["id"]


def test_a_dead_letter_is_put_back_and_can_be_done(policy_terminal: Terminal) -> None:
    job = dead_letter(policy_terminal)
    assert policy_terminal("jobs", "--state", "FAILED", "--json").json["items"][0]["id"] == job
    assert f"{job} is PENDING again" in policy_terminal("retry", job).out
    assert policy_terminal("worker", "--topic", FREE, "--exec", "echo done", "--once").code == 0
    ended = policy_terminal("job", job, "--json").json
    assert (ended["state"], ended["result"], ended["attempt"]) == ("SUCCEEDED", "done", 1)


def test_a_worker_says_how_a_command_failed(policy_terminal: Terminal) -> None:
    policy_terminal.submit(FREE)
    said = policy_terminal.process("worker", "--topic", FREE, "--exec", "exit 9", "--once")
    assert (said.code, "failed: Final: exit 9" in said.err) == (1, True), said.err


def test_a_job_shows_how_far_it_got(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("knowledge.read")["id"]
    assert policy_terminal.process("worker", "--once", "--exec", "exit 75").code == 1
    assert "attempt    2 of 3, not before 2" in policy_terminal("job", job).out
    assert policy_terminal.process("worker", "--once", "--exec", "exit 4").code == 1
    assert '  "message": "exit 4",' in policy_terminal("job", job).out
    assert policy_terminal("retry", job).code == 0
    assert policy_terminal.process("worker", "--once", "--exec", "echo '{\"page\": 7}'").code == 0
    assert "\nresult\n" in policy_terminal("job", job).out


def test_a_worker_without_a_topic_takes_any_job(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(FREE)
    assert policy_terminal("worker", "--exec", "cat", "--once").code == 0
    assert policy_terminal("job", job["id"], "--json").json["state"] == "SUCCEEDED"


def test_a_worker_never_gives_up_and_takes_no_patience(policy_terminal: Terminal) -> None:
    said = policy_terminal("worker", "--exec", "true", "--once", "--patience", "1s")
    assert (said.code, "unrecognized arguments: --patience 1s" in said.err) == (2, True), said.err
    told = policy_terminal("worker", "--help").out
    assert "keeps trying" in told
    assert "--patience" not in told


def test_a_retry_has_one_winner(policy_terminal: Terminal) -> None:
    job = dead_letter(policy_terminal)
    assert policy_terminal("retry", job, "--json").json["state"] == "PENDING"
    again = policy_terminal("retry", job, "--json")
    assert (again.code, again.problem["code"], again.problem["state"]) == (1, "not_actionable", "PENDING")


def test_what_is_not_there_and_who_may_not_are_refused(policy_terminal: Terminal) -> None:
    job = dead_letter(policy_terminal)
    reviewer = policy_terminal.key("rita", "--kind", "person", "--roles", "review")
    refused = policy_terminal("retry", job, "--api-key", reviewer, "--json")
    assert (refused.code, refused.problem["code"]) == (1, "forbidden")
    absent = policy_terminal("retry", "job_" + "0" * 32, "--json")
    assert (absent.code, absent.problem["code"]) == (1, "not_found")
    assert policy_terminal("job", job, "--json").json["state"] == "FAILED"


def keys_of(policy_terminal: Terminal, *words: str) -> list[dict[str, Any]]:
    return policy_terminal(*(words or ("signing-keys",)), "--json").json["keys"]


def test_a_new_key_is_published_before_it_signs_and_the_old_one_stays(policy_terminal: Terminal) -> None:
    (first,) = keys_of(policy_terminal)
    old, new = keys_of(policy_terminal, "signing-key", "rotate", "--lead-seconds", "600")
    assert old["kid"] == first["kid"]
    assert new["signs_from"] > first["signs_from"]
    assert old["published_until"] > new["signs_from"]
    title, *rows = policy_terminal("signing-keys").out.splitlines()
    assert title.split() == ["KEY", "SIGNS", "FROM", "PUBLISHED", "UNTIL"]
    assert rows[0].startswith(old["kid"])
    assert rows[1].startswith(f"{new['kid']}  in ")


def test_after_a_theft_only_the_new_key_is_left_and_old_permits_are_worthless(
    policy_terminal: Terminal,
) -> None:
    policy_terminal.submit(FREE)
    with Interlock(store=f"sqlite:///{policy_terminal.folder}/.interlock/interlock.db") as il:
        (held,) = il.claim_jobs([FREE])
    verify_permit(held.permit, policy_terminal("signing-keys", "--json").json, tenant="default")
    (first,) = keys_of(policy_terminal)
    (left,) = keys_of(policy_terminal, "signing-key", "rotate", "--revoke")
    assert left["kid"] != first["kid"]
    with pytest.raises(PermitInvalid):
        verify_permit(held.permit, policy_terminal("signing-keys", "--json").json, tenant="default")


def test_only_an_admin_rotates_and_nonsense_is_a_usage_error(policy_terminal: Terminal) -> None:
    hand = policy_terminal.key("hand", "--kind", "worker", "--roles", "work")
    assert policy_terminal("signing-keys", "--api-key", hand).code == 0
    refused = policy_terminal("signing-key", "rotate", "--api-key", hand, "--json")
    assert (refused.code, refused.problem["code"]) == (1, "forbidden")
    assert policy_terminal("signing-key", "rotate", "--lead-seconds", "soon").code == 2
    assert policy_terminal("signing-keys", "burn").code == 2
