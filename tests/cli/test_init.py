"""`interlock init`: its files work as they are, in an editor and at a terminal, and nothing of yours is overwritten."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from tests.cli.terminal import Terminal
from tests.harness.installation import Installation

FILES = ("policy.yaml", "interlock.yaml", "pay.py")
ASKED = """\
held=$(interlock approvals --json | grep -o 'job_[0-9a-f]*' | head -1)
interlock {decision} $held --reason 'as agreed' --api-key $(interlock key create ann --kind person --roles review)
"""


def schema_named_in(path: Path) -> Path:
    """The schema that an editor finds by the first line of a file."""
    found = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
    assert found, path
    return path.parent / found[1]


@pytest.mark.parametrize("name", ["policy.yaml", "interlock.yaml"])
def test_the_schema_that_a_file_names_is_there_and_accepts_the_file(terminal: Terminal, name: str) -> None:
    assert terminal("init").code == 0
    path = terminal.folder / name
    validator = jsonschema_rs.Draft202012Validator(json.loads(schema_named_in(path).read_text()))
    assert [error.message for error in validator.iter_errors(yaml.safe_load(path.read_text()))] == []
    assert not validator.is_valid({"rules": {}, "tasks": []})


def test_in_a_folder_with_a_store_the_schemas_come_too_and_the_policy_in_force_stays(
    terminal: Terminal,
) -> None:
    terminal("policy", "apply", terminal.file("mine.yaml", "version: v1\ndefault: allow\n"))
    said = terminal("init")
    assert (said.code, "there is a store already" in said.out) == (0, True)
    assert "The policy in force was not changed" in said.out
    assert "default: allow" in terminal("policy", "show").out
    assert schema_named_in(terminal.folder / "policy.yaml").is_file()


def test_in_a_store_without_a_policy_the_policy_is_put_in_force(terminal: Terminal) -> None:
    denied = terminal("submit", "finance.payment.execute", "--payload", '{"amount_cents": 500}')
    assert (denied.code, "no rules are in force" in denied.err) == (3, True)
    said = terminal("init")
    assert "there is a store already" in said.out
    assert "policy.yaml is in force" in said.out
    assert "python pay.py" in said.out
    assert terminal("submit", "finance.payment.execute", "--payload", '{"amount_cents": 500}').code == 0


def test_schemas_of_an_earlier_version_are_brought_up_to_date_and_it_is_said(terminal: Terminal) -> None:
    assert terminal("init").code == 0
    schema = schema_named_in(terminal.folder / "policy.yaml")
    current = schema.read_text()
    assert "updated" not in terminal("init").out
    schema.write_text("{}")
    assert "updated .interlock/schemas/policy.schema.json" in terminal("init").out
    assert schema.read_text() == current


def test_files_that_are_there_are_kept_and_it_is_said(terminal: Terminal) -> None:
    mine = {
        "policy.yaml": "version: v1\ndefault: allow\n",
        "interlock.yaml": "tasks: {}\n",
        "pay.py": "1 / 0\n",
    }
    for name, text in mine.items():
        terminal.file(name, text)
    said = terminal("init")
    assert said.code == 0
    assert {name: (terminal.folder / name).read_text() for name in FILES} == mine
    assert re.findall(r"^kept +(\S+) ", said.out, re.MULTILINE) == list(FILES)
    assert "wrote" not in said.out
    assert "policy.yaml is in force" in said.out
    assert "python pay.py" not in said.out  # it is not our example
    assert "default: allow" in terminal("policy", "show").out


def test_a_new_store_beside_the_example_says_again_how_to_go_on(terminal: Terminal) -> None:
    assert "python pay.py" in terminal("init").out
    assert "python pay.py" not in terminal("init").out
    shutil.rmtree(terminal.folder / ".interlock")
    assert "python pay.py" in terminal("init").out


def test_a_policy_that_cannot_be_in_force_is_refused_before_anything_is_made(terminal: Terminal) -> None:
    terminal.file("policy.yaml", "version: v1\nrulez: []\n")
    said = terminal("init")
    assert (said.code, "policy.yaml" in said.err, "rulez" in said.err) == (1, True, True)
    assert [path.name for path in terminal.folder.iterdir()] == ["policy.yaml"]


def test_a_file_that_is_a_link_to_nowhere_is_kept_too(terminal: Terminal) -> None:
    (terminal.folder / "pay.py").symlink_to("nowhere/pay.py")
    said = terminal("init")
    assert (said.code, "Traceback" in said.err) == (0, False)
    assert "kept  pay.py" in said.out


@pytest.mark.parametrize(
    ("decision", "last"),
    [("approve", "inv-2: paid 250.00"), ("reject", r"inv-2: ann rejected job job_\w+: as agreed")],
)
def test_the_example_ends_with_what_the_second_person_decided(
    installed: Installation, tmp_path: Path, decision: str, last: str
) -> None:
    assert installed.shell(tmp_path, "interlock init && python pay.py").returncode == 0
    decided = installed.shell(tmp_path, ASKED.format(decision=decision))
    assert decided.returncode in (0, 3), decided.stderr
    said = installed.shell(tmp_path, "python pay.py")
    assert said.stderr == ""
    first, second = said.stdout.splitlines()
    assert first == "inv-1: paid 50.00"
    assert re.fullmatch(last, second)


def test_the_example_is_short_enough_to_read(terminal: Terminal) -> None:
    assert terminal("init").code == 0
    written = (terminal.folder / "pay.py").read_text().splitlines()
    assert len([line for line in written if line]) <= 20


def test_the_task_of_the_example_runs_once_a_person_permits_it(
    installed: Installation, tmp_path: Path
) -> None:
    ready = installed.shell(tmp_path, "interlock init && python pay.py && interlock grant statement")
    assert ready.returncode == 0, ready.stderr
    said = installed.shell(tmp_path, "interlock exec statement")
    assert (said.returncode, said.stdout) == (0, "inv-1 5000\n"), said.stderr
    assert installed.shell(tmp_path, "interlock exec statement").returncode == 4
