"""Leases from a terminal: take, keep, hand on, and watch the board."""

from __future__ import annotations

import json

from tests.cli.terminal import Terminal


def test_a_lease_is_taken_kept_and_given_back(house: Terminal) -> None:
    taken = house("lease", "acquire", "repo:a", "--ttl", "10m", "--purpose", "rename", "--json").json
    fence = str(taken["fence"])
    assert house("lease", "renew", taken["lease_id"], "--fence", fence, "--json").json["state"] == "leased"
    assert house("lease", "check", taken["lease_id"], "--fence", fence).code == 0
    said = house("leases", "--live")
    assert "repo:a" in said.out
    assert "rename" in said.out
    assert (
        house("lease", "release", taken["lease_id"], "--fence", fence, "--json").json["state"] == "released"
    )
    assert house("lease", "check", taken["lease_id"], "--fence", fence).code == 3
    assert "no leases match" in house("leases", "--live").out


def test_a_held_resource_is_busy(house: Terminal) -> None:
    house("lease", "acquire", "repo:a", "--ttl", "10m")
    said = house("lease", "acquire", "repo:a", "--patience", "0s", "--json")
    assert (said.code, said.problem["code"]) == (5, "lock_busy")


def test_a_held_resource_is_waited_for_only_by_whoever_says_so(house: Terminal) -> None:
    house("lease", "acquire", "repo:a", "--ttl", "3s")
    assert house("lease", "acquire", "repo:a").code == 5
    assert house("lease", "acquire", "repo:a", "--patience", "20s").code == 0


def test_checkpoints_are_saved_shown_and_received_by_the_successor(house: Terminal) -> None:
    taken = house("lease", "acquire", "repo:a", "--json").json
    lease, fence = taken["lease_id"], str(taken["fence"])
    assert "no checkpoint yet" in house("checkpoint", lease).out
    done = json.dumps(["step 1"])
    saved = house(
        "checkpoint", lease, "--fence", fence, "--done", done, "--open-questions", '"why?"', "--json"
    )
    assert saved.json["checkpoint"]["number"] == 1
    assert "why?" in house("checkpoint", lease).out
    house("lease", "handoff", lease, "--fence", fence, "--checkpoint", '{"done": ["step 1", "step 2"]}')
    successor = house("lease", "acquire", "repo:a", "--json").json
    assert successor["predecessor"]["ended"] == "handed_off"
    assert successor["predecessor"]["checkpoint"]["done"] == ["step 1", "step 2"]
    assert "step 2" in house("lease", "show", successor["lease_id"]).out


def test_saving_a_checkpoint_needs_the_fence(house: Terminal) -> None:
    assert house("checkpoint", "lse_1", "--done", "1").code == 2


def test_the_board_shows_owners_waiters_collisions_and_runs(house: Terminal) -> None:
    empty = house("board", "--once").out
    assert "nobody owns anything" in empty
    house("lease", "acquire", "repo:a", "--ttl", "10m", "--purpose", "rename")
    assert "rename" in house("board", "--once").out
    frame = house("board", "--once", "--json").json
    assert [lease["resource"] for lease in frame["leases"]] == ["repo:a"]
    assert {"waiting", "conflicts", "runs"} <= set(frame)


def test_a_plain_number_is_a_duration_in_seconds(house: Terminal) -> None:
    held = house("lease", "acquire", "plain", "--ttl", "90", "--json").json
    assert held["ttl_seconds"] == 90
    submitted = house("submit", "knowledge.read", "--expires-in", "3600", "--json")
    assert (submitted.code, submitted.json["expires_at"] is None) == (0, False)
    assert house("lease", "acquire", "plain", "--ttl", "9o").code == 2
