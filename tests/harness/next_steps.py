"""Every next step that the source names, read from its `Next(…)`, with a value for each argument."""

from __future__ import annotations

import ast
import functools

from interlock.kernel.refusal import Next
from tests.tidy.source import package


@functools.cache
def named_steps() -> dict[str, Next]:
    """The steps by where they are named. Fails on one whose operation or arguments cannot be read there."""
    return {
        f"{module.place}:{node.lineno}": _step(node)
        for module in package()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Next"
    }


def _step(node: ast.Call) -> Next:
    operation, arguments = node.args
    assert isinstance(arguments, ast.Dict)
    names = [ast.literal_eval(name) for name in arguments.keys if name]
    needs = next((ast.literal_eval(each.value) for each in node.keywords if each.arg == "needs"), ())
    values = zip(names, arguments.values, strict=True)
    return Next(ast.literal_eval(operation), {name: _value(name, value) for name, value in values}, needs)


def _value(name: str, value: ast.expr) -> str | int:
    if isinstance(value, ast.Constant) and isinstance(value.value, str | int):
        return value.value
    return 30 if name.endswith("_seconds") else f"{name}_1"
