"""Runs and limits from a terminal."""

from __future__ import annotations

from interlock import Interlock
from interlock.cli.checks import miscounted_slots
from interlock.wire.admission import Limits
from tests.cli.terminal import Terminal


def store_of(terminal: Terminal) -> Interlock:
    return Interlock(store=f"sqlite:///{terminal.folder}/.interlock/interlock.db")


def test_runs_are_listed_and_shown(policy_terminal: Terminal) -> None:
    assert "no runs yet" in policy_terminal("runs").out
    with store_of(policy_terminal) as il:
        run = il.start_run("nightly", input={"n": 1})
        il.start_run("hourly")
    assert len(policy_terminal("runs", "--json").json["items"]) == 2
    listed = policy_terminal("runs", "--workflow", "nightly", "--state", "running", "--json").json["items"]
    assert [each["run_id"] for each in listed] == [run.run_id]
    assert run.run_id in policy_terminal("runs").out
    assert "it holds a slot" in policy_terminal("run", run.run_id).out
    assert policy_terminal("run", run.run_id, "--json").json["fence"] == run.fence
    assert "no runs match" in policy_terminal("runs", "--state", "lost").out
    assert policy_terminal("run", "run_0").code == 1


def test_limits_are_shown_set_and_cleared(policy_terminal: Terminal) -> None:
    assert policy_terminal("limits", "--json").json["items"][0]["max_concurrent_runs"] == 10
    assert "nightly may have 1 run at once" in policy_terminal("limit", "set", "nightly", "1").out
    assert policy_terminal("limit", "set", "tenant", "0", "--json").json["max_concurrent_runs"] == 0
    assert [each["scope"] for each in policy_terminal("limits", "--json").json["items"]] == [
        "nightly",
        "tenant",
    ]
    assert "nightly" in policy_terminal("limits").out
    assert policy_terminal("limit", "clear", "nightly", "--json").json == {
        "scope": "nightly",
        "cleared": True,
    }
    assert policy_terminal("limit", "set", "tenant", "many").code == 2
    assert policy_terminal("traffic", "--window", "10m", "--json").json["window"] == "10m"
    assert "0 admitted, 0 full (429), 0 not evaluated (503) in the last 1h" in policy_terminal("traffic").out


def test_the_doctor_counts_slots_and_notices_a_gate_that_does_not(policy_terminal: Terminal) -> None:
    with store_of(policy_terminal) as il:
        il.start_run("nightly")
    findings = policy_terminal("doctor", "--json").json["findings"]
    assert [each["text"] for each in findings if each["about"] == "runs"] == ["1 run active"]
    (drifted,) = miscounted_slots(Limits(items=(), active=3, running=2))
    assert drifted.level == "wrong"


ONCE = ("--patience", "0s")


def test_a_run_is_started_renewed_and_ended_from_a_terminal(policy_terminal: Terminal) -> None:
    run = policy_terminal("run", "start", "nightly", "--input", '{"n": 1}', "--ttl", "5m", "--json").json
    assert (run["state"], run["input"], run["ttl_seconds"]) == ("running", {"n": 1}, 300)
    held = ("--fence", str(run["fence"]))
    renewed = policy_terminal("run", "renew", run["run_id"], *held, "--json").json
    assert renewed["slot_expires_at"] > run["slot_expires_at"]
    assert "holds its slot until" in policy_terminal("run", "renew", run["run_id"], *held).out
    ended = policy_terminal("run", "complete", run["run_id"], *held, "--result", "[7]", "--json").json
    assert (ended["state"], ended["result"]) == ("succeeded", [7])


def test_a_start_says_how_to_go_on_and_the_words_work(policy_terminal: Terminal) -> None:
    said = policy_terminal("run", "start", "nightly")
    renew, complete, fail = said.out.splitlines()[3:]
    assert policy_terminal(*renew.split()[1:]).code == 0
    assert "has failed; its slot is free" in policy_terminal(*fail.split()[1:]).out
    again = policy_terminal(*complete.replace(" [--result JSON]", "").split()[1:], "--json")
    assert (again.code, again.problem["code"]) == (1, "not_actionable")


def test_an_operator_needs_no_fence_and_one_that_is_sent_must_hold(policy_terminal: Terminal) -> None:
    run = policy_terminal("run", "start", "nightly", "--json").json["run_id"]
    stale = policy_terminal("run", "complete", run, "--fence", "0", "--json")
    assert (stale.code, stale.problem["code"]) == (1, "fence_stale")
    cancelled = policy_terminal("run", "cancel", run, "--reason", "by mistake", "--json").json
    assert (cancelled["state"], cancelled["error"]) == ("cancelled", "by mistake")


def test_full_is_5_and_a_store_that_cannot_be_asked_is_6(policy_terminal: Terminal) -> None:
    policy_terminal("limit", "set", "nightly", "1")
    assert policy_terminal("run", "start", "nightly").code == 0
    full = policy_terminal("run", "start", "nightly", *ONCE, "--json")
    assert (full.code, full.problem["code"], full.problem["limit"]) == (5, "max_concurrent_runs", 1)
    waited = policy_terminal("run", "start", "nightly", "--wait", "1s", *ONCE)
    assert (waited.code, "nightly" in waited.err) == (5, True)
    broken = policy_terminal("run", "start", "nightly", *ONCE, "--url", "http://127.0.0.1:9")
    assert broken.code == 6


def test_a_named_start_finds_its_run_and_is_3_once_that_is_over(policy_terminal: Terminal) -> None:
    first = policy_terminal("run", "start", "nightly", "--key", "monday", "--json").json
    again = policy_terminal("run", "start", "nightly", "--key", "monday", "--json")
    assert (again.code, again.json["run_id"]) == (0, first["run_id"])
    policy_terminal("run", "complete", first["run_id"], "--fence", str(first["fence"]))
    over = policy_terminal("run", "start", "nightly", "--key", "monday")
    assert over.code == 3
    assert "started before under this key and has succeeded" in over.out
    assert (
        policy_terminal(
            "runs",
            "start",
            "nightly",
            "--key",
            policy_terminal.key("kim", "--kind", "person", "--roles", "work"),
        ).code
        == 2
    )


def test_traffic_is_told_over_time_by_workflow_and_page_by_page(policy_terminal: Terminal) -> None:
    with store_of(policy_terminal) as il:
        il.start_run("hourly")
        il.start_run("nightly")
        # The client stores its counts as it is closed.
    said = policy_terminal("traffic", "--step", "10m", "--limit", "1")
    assert "2 admitted, 0 full (429), 0 not evaluated (503)" in said.out
    assert "FROM" in said.out
    assert "--cursor hourly" in said.out
    told = policy_terminal("traffic", "--step", "10m", "--workflow", "nightly", "--json").json
    assert [row["workflow"] for row in told["workflows"]] == ["nightly"]
    assert sum(point["admitted"] for point in told["series"]) == 1
    assert policy_terminal("traffic", "--topics", "--json").json["topics"] == []
    assert policy_terminal("traffic", "--step", "1s").code == 1
