"""States change by the tables that the diagrams are drawn from, and by nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import Module, package
from tools import states

CHANGES = {"replace", "changed"}


def test_a_change_of_state_names_a_verb_and_not_the_state_it_leads_to() -> None:
    rooms = {room for room, _ in states.tables()}
    assert not [
        place for module in package() if module.part in rooms for place in _states_set_by_hand(module)
    ]


def _states_set_by_hand(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _called(node) in CHANGES:
            for keyword in node.keywords:
                value = ast.unparse(keyword.value)
                if keyword.arg == "state" and "State." in value and not value.startswith("TRANSITIONS["):
                    yield f"{module.place}:{node.lineno} sets {value}"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
