"""`interlock workflow`: define steps in a file, see them, follow a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.cli.main import main

STEPS = "steps:\n  - {id: draft, topic: report.draft}\n  - {id: agree, kind: approval, depends_on: [draft]}\n"


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    (tmp_path / "steps.yaml").write_text(STEPS)
    return ["--store", f"sqlite:///{tmp_path / 'interlock.db'}"]


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
    assert main(["workflow", "approve", "run_x", *store]) == 2
