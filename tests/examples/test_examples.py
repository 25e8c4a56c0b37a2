"""Every example is run as its first lines say, in an empty folder, and does what it promises."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import yaml

from tests.examples.shown_script import Run, ShownScript
from tests.harness.installation import Installation
from tests.harness.server import clean_env

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = (
    "payment_agent.py",
    "async_agent.py",
    "worker.py",
    "shared_repository.py",
    "ci_deploy.sh",
    "fastapi_app.py",
)
LINES_MAX = 70


def as_shown(name: str, folder: Path, installed: Installation) -> Run:
    """Run an example as it says; all of its commands end with 0, and what it shows is printed."""
    shutil.copy(EXAMPLES / name, folder)
    script = ShownScript.of_example(EXAMPLES / name)
    run = script.run(folder, installed.env(folder))
    assert len(run.exits) >= len(script.commands) > 3, run.text
    assert not run.failed, f"{run.failed}\n{run.text}"
    assert not run.lacks(script.printed), run.text
    return run


def test_every_example_is_here_small_and_in_the_contents() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert names == {*PROGRAMS, "ci_workflow.yaml"}
    contents = (EXAMPLES / "README.md").read_text()
    assert not [name for name in names if f"({name})" not in contents]
    assert not [name for name in names if len((EXAMPLES / name).read_text().splitlines()) > LINES_MAX]


def test_the_payment_agent_pays_at_once_what_passes_and_the_rest_once_a_person_agreed(
    tmp_path: Path, installed: Installation
) -> None:
    as_shown("payment_agent.py", tmp_path, installed)
    assert (tmp_path / "bank.txt").read_text() == "inv-1 5000 EUR\ninv-2 25000 EUR\n"


def test_the_async_agent_is_not_held_up_by_what_waits_for_a_person(
    tmp_path: Path, installed: Installation
) -> None:
    run = as_shown("async_agent.py", tmp_path, installed)
    assert run.text.index("ticket 19: 480.00") > run.text.index("is approved; it may run")
    paid = (tmp_path / "bank.txt").read_text().splitlines()
    assert sorted(paid) == ["17 mia -2000", "18 noor -3550", "19 sam -48000"]
    assert paid[-1] == "19 sam -48000"


def test_the_worker_packs_what_is_there_and_gives_up_what_is_not(
    tmp_path: Path, installed: Installation
) -> None:
    run = as_shown("worker.py", tmp_path, installed)
    assert "SUCCEEDED" in run.text
    assert "FAILED" in run.text
    (archive,) = tmp_path.glob("job_*.zip")
    assert zipfile.ZipFile(archive).read("books/2030.txt") == b"inv-1 50.00\n"
    assert not list(tmp_path.glob("*.part"))


def test_two_coding_agents_change_a_file_one_after_the_other(tmp_path: Path, installed: Installation) -> None:
    run = as_shown("shared_repository.py", tmp_path, installed)
    lines = (tmp_path / "billing" / "notes.md").read_text().splitlines()
    assert sorted(lines[:2]) == ["add the tests", "rename the field"]
    assert lines[2] == "fix a typo"
    first = {"rename the field": "left-agent", "add the tests": "right-agent"}[lines[0]]
    assert f"{first} did: {lines[0]}" in run.text  # the second agent was given the checkpoint of the first
    touches = run.text[run.text.index("interlock target") if "interlock target" in run.text else 0 :]
    assert all(who in touches for who in ("left-agent", "right-agent", "ann"))


def test_ci_deploys_what_is_granted_or_approved_and_nothing_else(
    tmp_path: Path, installed: Installation
) -> None:
    as_shown("ci_deploy.sh", tmp_path, installed)
    assert (tmp_path / "deployed.txt").read_text() == "staging is deployed\nproduction is deployed\n"


def test_the_workflow_runs_the_script_and_puts_nothing_typed_into_a_command() -> None:
    (job,) = yaml.safe_load((EXAMPLES / "ci_workflow.yaml").read_text())["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert runs[-1] == 'sh ci_deploy.sh "$TARGET"'
    assert not [line for line in runs if "${{" in line]
    assert job["env"].keys() == {"INTERLOCK_URL", "INTERLOCK_KEY"}


def test_the_fastapi_application_answers_under_its_prefix(tmp_path: Path) -> None:
    """Where FastAPI is installed, which the wheel does not bring."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shutil.copy(EXAMPLES / "fastapi_app.py", tmp_path)
    run = ShownScript.of_example(EXAMPLES / "fastapi_app.py").run(tmp_path, clean_env({"PATH": programs}))
    assert not run.failed, run.text
    assert "PENDING" in run.text


def test_a_command_that_fails_and_a_line_that_is_not_printed_are_found(
    tmp_path: Path, installed: Installation
) -> None:
    example = tmp_path / "wrong.sh"
    example.write_text("#   $ sleep 60 &\n#   $ false\n#   $ echo one\n#   one\n#   two\n")
    script = ShownScript.of_example(example)
    run = script.run(tmp_path, installed.env(tmp_path))
    assert run.failed == [("false", 1)]
    assert run.lacks(script.printed) == ["two"]
