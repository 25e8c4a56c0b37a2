"""`interlock workflow`: define steps in a file, see them, follow a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest

from interlock.cli.main import main
from interlock.cli.runs import say_steps
from interlock.wire.workflows import RunStep
from tests.cli.terminal import Terminal
from tests.harness.server import InterlockServer

STEPS = "steps:\n  - {id: draft, topic: report.draft}\n  - {id: agree, kind: approval, depends_on: [draft]}\n"


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    (tmp_path / "steps.yaml").write_text(STEPS)
    words = ["--store", f"sqlite:///{tmp_path / 'interlock.db'}"]
    assert main(["init", *words]) == 0
    return words


def test_a_workflow_is_defined_from_a_file_and_shown_and_forgotten(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workflow", "define", "nightly", str(tmp_path / "steps.yaml"), *store]) == 0
    assert "nightly is defined: 2 steps" in capsys.readouterr().out
    assert main(["workflows", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["id"] == "nightly"
    assert main(["workflow", "delete", "nightly", *store]) == 0
    capsys.readouterr()
    assert main(["workflows", *store]) == 0
    assert "no workflows yet" in capsys.readouterr().out


def test_a_file_without_steps_is_refused(store: list[str], tmp_path: Path) -> None:
    (tmp_path / "steps.yaml").write_text("nothing: here\n")
    assert main(["workflow", "define", "nightly", str(tmp_path / "steps.yaml"), *store]) == 1


def test_a_step_must_be_named_to_be_approved(store: list[str]) -> None:
    assert main(["run", "approve", "run_x", *store]) == 2


def test_steps_and_how_far_a_run_came_are_shown_as_tables(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["workflow", "define", "nightly", str(tmp_path / "steps.yaml"), *store])
    capsys.readouterr()
    main(["workflow", "show", "nightly", *store])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["nightly", "has", "2", "steps"],
        ["STEP", "KIND", "TOPIC", "AFTER"],
        ["draft", "worker", "report.draft", "-"],
        ["agree", "approval", "-", "draft"],
    ]
    main(["run", "start", "nightly", "--json", *store])
    run = json.loads(capsys.readouterr().out)["run_id"]
    main(["run", run, *store])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-3:]] == [
        "STEP",
        "draft",
        "agree",
    ]
    main(["run", "timeline", run, *store])
    assert capsys.readouterr().out.splitlines()[0].split() == ["AT", "WHO", "DID", "TO"]


def test_a_missing_file_and_a_missing_step_are_wrong_usage(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workflow", "define", "nightly", "none.yaml", *store]) == 2
    assert "cannot read none.yaml: No such file or directory; check the path" in capsys.readouterr().err
    assert main(["run", "rerun", "run_x", *store]) == 2
    assert "missing: --from" in capsys.readouterr().err


def test_a_run_shows_which_step_waits_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    step = RunStep(id="agree", kind="approval", state="running", job_id="job_1")
    say_steps((step,))
    shown = capsys.readouterr().out
    assert "agree" in shown
    assert "running" in shown
    assert "people decide: interlock approval job_1\n" in shown


def test_a_run_shows_how_it_ended_and_a_step_not_begun_cannot_be_answered(policy_terminal: Terminal) -> None:
    policy_terminal(
        "workflow",
        "define",
        "nightly",
        policy_terminal.file("steps.yaml", STEPS.replace("report.draft", "knowledge.read")),
    )
    run = policy_terminal("run", "start", "nightly", "--json").json["run_id"]
    early = policy_terminal("run", "approve", run, "agree")
    assert (early.code, f"see how far the run is; next: `interlock run {run}`" in early.err) == (
        1,
        True,
    )
    assert policy_terminal("run", "cancel", run).out == f"{run} of nightly was stopped; its slot is free\n"
    assert "cancelled: it was stopped" in policy_terminal("run", run).out


def test_a_step_is_approved_as_it_is_shown(
    terminal: Terminal, serve: Callable[..., InterlockServer], sqlite_url: str
) -> None:
    server = serve(sqlite_url)
    root = server.create_key("root", roles="admin,submit,review")
    ann = server.create_key("ann")
    terminal.use(INTERLOCK_URL=server.url, INTERLOCK_KEY=root.key)
    terminal("policy", "apply", terminal.file("policy.yaml", "version: v1\ndefault: allow\n"))
    steps = terminal.file("steps.yaml", "steps:\n  - {id: agree, kind: approval}\n")
    assert terminal("workflow", "define", "nightly", steps).code == 0
    run = terminal("run", "start", "nightly", "--json").json["run_id"]
    job = _job_of_the_step(terminal, run)
    shown = terminal("job", job, "--json").json["job_hash"]

    terminal.use(INTERLOCK_KEY=ann.key)
    stale = terminal("run", "approve", run, "agree", "--job-hash", "sha256:0", "--json")
    said = terminal("run", "approve", run, "agree")

    assert (stale.code, stale.problem["code"]) == (1, "hash_mismatch")
    assert (said.code, said.out.splitlines()[-1]) == (0, "agree: approved")
    assert said.out.startswith("approving ")
    assert shown in said.out


def _job_of_the_step(terminal: Terminal, run: str) -> str:
    for _ in range(600):
        [step] = terminal("run", run, "--json").json["steps"]
        if step["job_id"]:
            return step["job_id"]
        sleep(0.05)
    raise TimeoutError("the step was not begun")
