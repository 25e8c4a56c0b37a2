"""The files that `interlock init` writes name a schema that is there, is the packaged one, and accepts them."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from interlock.kernel.codec.located import plain
from interlock.kernel.codec.located_yaml import read_yaml
from tests.cli.terminal import Terminal

# How the YAML language server finds the schema of a file: a comment, with a path that is relative to the file itself.
_NAMED = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "schema"), [("policy.yaml", "policy.schema.json"), ("interlock.yaml", "interlock.schema.json")]
)
def test_an_editor_finds_the_schema_of_a_file_that_init_wrote(
    name: str, schema: str, terminal: Terminal, tmp_path: Path
) -> None:
    assert terminal("init").code == 0
    written = tmp_path / name
    (named,) = _NAMED.findall(written.read_text())
    found = (written.parent / named).read_text()
    assert found == (files("interlock") / "schemas" / schema).read_text()
    validator = jsonschema_rs.Draft202012Validator(json.loads(found))
    document: Any = plain(read_yaml(written.read_text()).root)
    assert not [str(error) for error in validator.iter_errors(document)]
    assert [str(error) for error in validator.iter_errors({**document, "rules": 7, "tasks": 7})]
