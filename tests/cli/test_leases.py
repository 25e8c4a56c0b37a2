"""Leases from a terminal: take, keep, hand on, and watch the board."""

from __future__ import annotations

import json

from tests.cli.terminal import Terminal


def test_a_lease_is_taken_kept_and_given_back(policy_terminal: Terminal) -> None:
    taken = policy_terminal(
        "lease", "acquire", "repo:a", "--ttl", "10m", "--purpose", "rename", "--json"
    ).json
    fence = str(taken["fence"])
    assert (
        policy_terminal("lease", "renew", taken["lease_id"], "--fence", fence, "--json").json["state"]
        == "leased"
    )
    assert policy_terminal("lease", "check", taken["lease_id"], "--fence", fence).code == 0
    said = policy_terminal("leases", "--live")
    assert "repo:a" in said.out
    assert "rename" in said.out
    assert (
        policy_terminal("lease", "release", taken["lease_id"], "--fence", fence, "--json").json["state"]
        == "released"
    )
    assert policy_terminal("lease", "check", taken["lease_id"], "--fence", fence).code == 3
    assert "no leases match" in policy_terminal("leases", "--live").out


def test_a_held_resource_is_busy(policy_terminal: Terminal) -> None:
    policy_terminal("lease", "acquire", "repo:a", "--ttl", "10m")
    said = policy_terminal("lease", "acquire", "repo:a", "--patience", "0s", "--json")
    assert (said.code, said.problem["code"]) == (5, "lock_busy")


def test_a_held_resource_is_waited_for_only_by_whoever_says_so(policy_terminal: Terminal) -> None:
    policy_terminal("lease", "acquire", "repo:a", "--ttl", "3s")
    assert policy_terminal("lease", "acquire", "repo:a").code == 5
    assert policy_terminal("lease", "acquire", "repo:a", "--patience", "20s").code == 0


def test_checkpoints_are_saved_shown_and_received_by_the_successor(policy_terminal: Terminal) -> None:
    taken = policy_terminal("lease", "acquire", "repo:a", "--json").json
    lease, fence = taken["lease_id"], str(taken["fence"])
    assert "no checkpoint yet" in policy_terminal("lease", "checkpoint", lease).out
    done = json.dumps(["step 1"])
    saved = policy_terminal(
        "lease", "checkpoint", lease, "--fence", fence, "--done", done, "--open-questions", '"why?"', "--json"
    )
    assert saved.json["checkpoint"]["number"] == 1
    assert "why?" in policy_terminal("lease", "checkpoint", lease).out
    policy_terminal(
        "lease", "handoff", lease, "--fence", fence, "--checkpoint", '{"done": ["step 1", "step 2"]}'
    )
    successor = policy_terminal("lease", "acquire", "repo:a", "--json").json
    assert successor["predecessor"]["ended"] == "handed_off"
    assert successor["predecessor"]["checkpoint"]["done"] == ["step 1", "step 2"]
    assert "step 2" in policy_terminal("lease", "show", successor["lease_id"]).out


def test_saving_a_checkpoint_needs_the_fence(policy_terminal: Terminal) -> None:
    assert policy_terminal("lease", "checkpoint", "lse_1", "--done", "1").code == 2


def test_the_board_shows_owners_waiters_collisions_and_runs(policy_terminal: Terminal) -> None:
    empty = policy_terminal("board", "--once").out
    assert "no lease is held" in empty
    policy_terminal("lease", "acquire", "repo:a", "--ttl", "10m", "--purpose", "rename")
    assert "rename" in policy_terminal("board", "--once").out
    frame = policy_terminal("board", "--once", "--json").json
    assert [lease["resource"] for lease in frame["leases"]] == ["repo:a"]
    assert {"waiting", "conflicts", "runs"} <= set(frame)


def test_the_board_shows_what_waits_for_approval(policy_terminal: Terminal) -> None:
    assert "no request waits for approval" in policy_terminal("board", "--once").out
    asked, decided = policy_terminal.submit(), policy_terminal.submit()
    policy_terminal("reject", decided["id"], "--reason", "no")
    shown = policy_terminal("board", "--once").out
    assert asked["id"] in shown
    assert decided["id"] not in shown
    frame = policy_terminal("board", "--once", "--json").json
    assert [request["id"] for request in frame["approvals"]] == [asked["id"]]


def test_a_plain_number_is_a_duration_in_seconds(policy_terminal: Terminal) -> None:
    held = policy_terminal("lease", "acquire", "plain", "--ttl", "90", "--json").json
    assert held["ttl_seconds"] == 90
    submitted = policy_terminal("submit", "knowledge.read", "--expires-in", "3600", "--json")
    assert (submitted.code, submitted.json["expires_at"] is None) == (0, False)
    assert policy_terminal("lease", "acquire", "plain", "--ttl", "9o").code == 2
