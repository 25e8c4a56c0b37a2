"""Runs and limits from a terminal."""

from __future__ import annotations

from interlock import Interlock
from interlock.cli.checks import miscounted_slots
from interlock.wire.admission import Limits
from tests.cli.terminal import Terminal


def store_of(terminal: Terminal) -> Interlock:
    return Interlock(store=f"sqlite:///{terminal.folder}/.interlock/interlock.db")


def test_runs_are_listed_and_shown(house: Terminal) -> None:
    assert "no runs yet" in house("runs").out
    with store_of(house) as il:
        run = il.start_run("nightly", input={"n": 1})
        il.start_run("hourly")
    assert len(house("runs", "--json").json["items"]) == 2
    listed = house("runs", "--workflow", "nightly", "--state", "running", "--json").json["items"]
    assert [each["run_id"] for each in listed] == [run.run_id]
    assert run.run_id in house("runs").out
    assert "it holds a slot" in house("run", run.run_id).out
    assert house("run", run.run_id, "--json").json["fence"] == run.fence
    assert "no runs match" in house("runs", "--state", "lost").out
    assert house("run", "run_0").code == 1


def test_limits_are_shown_set_and_cleared(house: Terminal) -> None:
    assert house("limits", "--json").json["items"][0]["max_concurrent_runs"] == 10
    assert "nightly may have 1 run at once" in house("limits", "set", "nightly", "1").out
    assert house("limits", "set", "tenant", "0", "--json").json["max_concurrent_runs"] == 0
    assert [each["scope"] for each in house("limits", "--json").json["items"]] == ["nightly", "tenant"]
    assert "nightly" in house("limits").out
    assert house("limits", "clear", "nightly", "--json").json == {"scope": "nightly", "cleared": True}
    assert house("limits", "set", "tenant", "many").code == 2
    assert house("limits", "stats", "--window", "10m", "--json").json["window"] == "10m"
    assert "0 admitted, 0 full (429), 0 not evaluated (503) in the last 1h" in house("limits", "stats").out


def test_the_doctor_counts_slots_and_notices_a_gate_that_does_not(house: Terminal) -> None:
    with store_of(house) as il:
        il.start_run("nightly")
    findings = house("doctor", "--json").json["findings"]
    assert [each["text"] for each in findings if each["about"] == "runs"] == ["1 run active"]
    (drifted,) = miscounted_slots(Limits(items=(), active=3, running=2))
    assert drifted.level == "wrong"


ONCE = ("--patience", "0s")


def test_a_run_is_started_renewed_and_ended_from_a_terminal(house: Terminal) -> None:
    run = house("runs", "start", "nightly", "--input", '{"n": 1}', "--ttl", "5m", "--json").json
    assert (run["state"], run["input"], run["ttl_seconds"]) == ("running", {"n": 1}, 300)
    held = ("--fence", str(run["fence"]))
    renewed = house("runs", "renew", run["run_id"], *held, "--json").json
    assert renewed["slot_expires_at"] > run["slot_expires_at"]
    assert "holds its slot until" in house("runs", "renew", run["run_id"], *held).out
    ended = house("runs", "complete", run["run_id"], *held, "--result", "[7]", "--json").json
    assert (ended["state"], ended["result"]) == ("succeeded", [7])


def test_a_start_says_how_to_go_on_and_the_words_work(house: Terminal) -> None:
    said = house("runs", "start", "nightly")
    renew, complete, fail = said.out.splitlines()[3:]
    assert house(*renew.split()[1:]).code == 0
    assert "has failed; its slot is free" in house(*fail.split()[1:]).out
    again = house(*complete.replace(" [--result JSON]", "").split()[1:], "--json")
    assert (again.code, again.problem["code"]) == (1, "not_actionable")


def test_an_operator_needs_no_fence_and_one_that_is_sent_must_hold(house: Terminal) -> None:
    run = house("runs", "start", "nightly", "--json").json["run_id"]
    stale = house("runs", "complete", run, "--fence", "0", "--json")
    assert (stale.code, stale.problem["code"]) == (1, "fence_stale")
    cancelled = house("runs", "cancel", run, "--reason", "by mistake", "--json").json
    assert (cancelled["state"], cancelled["error"]) == ("cancelled", "by mistake")


def test_full_is_5_and_a_store_that_cannot_be_asked_is_6(house: Terminal) -> None:
    house("limits", "set", "nightly", "1")
    assert house("runs", "start", "nightly").code == 0
    full = house("runs", "start", "nightly", *ONCE, "--json")
    assert (full.code, full.problem["code"], full.problem["limit"]) == (5, "max_concurrent_runs", 1)
    waited = house("runs", "start", "nightly", "--wait", "1s", *ONCE)
    assert (waited.code, "nightly" in waited.err) == (5, True)
    broken = house("runs", "start", "nightly", *ONCE, "--url", "http://127.0.0.1:9")
    assert broken.code == 6


def test_a_named_start_finds_its_run_and_is_3_once_that_is_over(house: Terminal) -> None:
    first = house("runs", "start", "nightly", "--key", "monday", "--json").json
    again = house("runs", "start", "nightly", "--key", "monday", "--json")
    assert (again.code, again.json["run_id"]) == (0, first["run_id"])
    house("runs", "complete", first["run_id"], "--fence", str(first["fence"]))
    over = house("runs", "start", "nightly", "--key", "monday")
    assert over.code == 3
    assert "started before under this key and has succeeded" in over.out
    assert (
        house(
            "runs", "start", "nightly", "--key", house.key("kim", "--kind", "person", "--roles", "work")
        ).code
        == 2
    )
