"""The JSON Schema of `interlock.yaml` gives the reader's verdict, but for what only the reader can see."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli.execution.tasks import BadTask, read_tasks
from interlock.kernel.codec.located import SourceInvalid, plain
from interlock.kernel.codec.located_yaml import read_yaml
from tests.cli.task_folder import TASKS
from tests.cli.test_exec import BAD_TASK_FILES
from tools.schemas import FOLDER

VALIDATOR = jsonschema_rs.Draft202012Validator(json.loads((FOLDER / "interlock.schema.json").read_text()))
# What a schema cannot see: how a text splits into words, a sum of seconds, a NUL.
READER_ONLY = (
    "needs a shell",
    "cannot be split",
    "timeout must be between",
    "with a NUL",
    "cwd has a character",
    "command is empty",
)
EXAMPLE = """\
tasks:
  deploy:
    command: [./deploy.sh, --region, eu]
    cwd: ops
    env: [DEPLOY_TOKEN]
    timeout: 10m
    approval: {required: true, groups: [ops], risk: [production], signed: false}
tools: {belongs: to others}
"""


def agree(document: Any) -> bool:
    """Assert that both accept or refuse it, and tell which."""
    refused = [f"{error.instance_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]
    said = refusal_of(document)
    hidden = any(each in (said or "") for each in READER_ONLY)
    assert bool(refused) == bool(said) or hidden, (document, refused, said)
    return said is None


def refusal_of(document: Any) -> str | None:
    """Why the reader refuses it."""
    try:
        read_tasks(document)
    except BadTask as error:
        return str(error)
    return None


@pytest.mark.parametrize("text", [TASKS, EXAMPLE, "", "tasks: {}", "tasks: {a: {command: x, timeout: 23h}}"])
def test_a_file_that_is_read_is_accepted(text: str) -> None:
    assert agree(plain(read_yaml(text).root))


@pytest.mark.parametrize("text", [text for text, _ in BAD_TASK_FILES])
def test_a_mistake_is_found_by_both(text: str) -> None:
    try:
        source = read_yaml(text)
    except SourceInvalid:
        return
    if not source.faults:  # a name that is given twice is a fault of the text
        assert not agree(plain(source.root))


WORDS = ("", "x", "1h", "0s", "A=1", "TOKEN", ".")
OTHERS = (
    None,
    True,
    7,
    1.5,
    [],
    ["x"],
    [""],
    [7],
    {},
    {"required": "no"},
    {"groups": ["ops"]},
    {"risk": "a"},
)
VALUES = st.sampled_from([*WORDS, *OTHERS, {"risk": ["a", 1]}, {"signers": 1}])
FIELDS = st.sampled_from(["command", "cwd", "env", "timeout", "approval", "shell"])


@given(
    st.dictionaries(
        st.sampled_from(["a", "a b", "-a", "a.b-c", ""]), st.dictionaries(FIELDS, VALUES) | VALUES, max_size=2
    )
    | VALUES
)
def test_any_tasks_are_judged_alike(tasks: Any) -> None:
    agree({"tasks": tasks})
