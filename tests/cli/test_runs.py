"""Runs and limits from a terminal."""

from __future__ import annotations

from interlock import Interlock
from interlock.cli.examining_runs import miscounted_slots
from interlock.sdk.models import Limits
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
