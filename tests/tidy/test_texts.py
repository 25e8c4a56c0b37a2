"""What the rooms, the service and the kernel say fits every surface: it names no route and no command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Module, package

INNER = {"rooms", "service", "kernel"}
OF_A_SURFACE = re.compile(r"/api/v1|\b(GET|POST|PUT|PATCH|DELETE) /|\binterlock [a-z]|Authorization: Bearer")


def test_no_text_behind_the_surfaces_names_a_route_or_a_command() -> None:
    assert not [
        f"{module.place}:{line} says {text!r}; name the operation with `Next`, and each surface words it"
        for module in package()
        if module.name.split(".")[1:2] and module.name.split(".")[1] in INNER
        for line, text in _texts(module)
        if OF_A_SURFACE.search(text)
    ]


def _texts(module: Module) -> Iterator[tuple[int, str]]:
    """Every text of a module that is not a docstring, with `x` for whatever is filled in."""
    skipped = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = (str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value
