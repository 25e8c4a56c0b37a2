"""Functions and files stay short, and the few long ones only ever get shorter. No file is a mere fragment.

`ratchet.json` lists what earned more room by being one clear table or one clear sequence, with its length. A
longer one fails; so does an entry that is looser than the code, so that what was gained is kept. It also lists the
very short files of the package, each with the reason why it is not part of a neighbour.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path

from tests.tidy.source import everything, files, functions, package

FUNCTION_LINES_MAX = 40
FILE_LINES_MAX = 500
FILE_LINES_MIN = 60
RATCHET = Path(__file__).parent / "ratchet.json"
COUNTED = {".py", ".sql"}
# They are short by nature: a package's own line, and what a room reads beside its rules.
SHORT_BY_NATURE = {"__init__.py", "__main__.py", "queries.py"}


def test_functions_are_short_or_have_earned_their_length() -> None:
    long = {
        f"{module.place}::{name}": lines
        for module in everything()
        for name, node in functions(module.tree)
        if (lines := _lines(node)) > FUNCTION_LINES_MAX
    }
    assert not _differences(long, "functions")


def test_files_are_short_or_have_earned_their_length() -> None:
    root = Path(__file__).parents[2]
    long = {
        path.relative_to(root).as_posix(): lines
        for path in files()
        if path.suffix in COUNTED and (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX
    }
    assert not _differences(long, "files")


def test_no_file_of_the_package_is_a_fragment_without_a_reason() -> None:
    listed: dict[str, str] = json.loads(RATCHET.read_text())["small"]
    small = {
        module.place
        for module in package()
        if module.path.name not in SHORT_BY_NATURE and len(module.text.splitlines()) < FILE_LINES_MIN
    }
    new, gone = sorted(small - listed.keys()), sorted(listed.keys() - small)
    assert not new, f"merge {new} into a neighbour, or list it in {RATCHET.name} with the reason"
    assert not gone, f"take {gone} out of {RATCHET.name}"


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code: the docstring is the contract and costs nothing."""
    first = node.body[0]
    is_documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_documented else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def _differences(long: Mapping[str, int], what: str) -> list[str]:
    listed: dict[str, int] = json.loads(RATCHET.read_text())[what]
    grown = [
        f"{name} has {lines} lines: split it, or earn it an entry in {RATCHET.name}"
        for name, lines in long.items()
        if lines > listed.get(name, 0)
    ]
    shrunk = [
        f"{name} is listed with {lines} lines and has {long.get(name, 'few')}: tighten {RATCHET.name}"
        for name, lines in listed.items()
        if lines > long.get(name, 0)
    ]
    return grown + shrunk
