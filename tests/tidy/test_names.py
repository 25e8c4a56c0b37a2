"""Names say what a thing is in the domain. The words below say only that someone was in a hurry."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.tidy.source import Module, everything, package

EMPTY_WORDS = {"manager", "util", "utils", "helper", "helpers", "misc"}
# Those behind the API. `wire` has the same nouns as the rooms, as they travel; clients have words of their own.
SERVICE = ("kernel", "store", "rooms", "service", "channels", "api")
EMPTY_VERBS = {"process", "handle"}
IMPOSED = {"handle_starttag"}  # what html.parser calls


def test_no_name_is_made_of_empty_words() -> None:
    assert not [
        f"{module.place}:{line} is named {name}"
        for module in everything()
        for line, name in _names(module)
        if name not in IMPOSED and _is_empty(name)
    ]


def test_every_test_is_named_as_a_claim() -> None:
    assert not [
        f"{module.place}:{line} {name} states nothing"
        for module in everything()
        if module.path.name.startswith("test_")
        for line, name in _names(module)
        if name.startswith("test_") and module.path.stem != name and name.count("_") < 3
    ]


def test_a_class_of_the_service_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in package():
        if module.name.startswith(tuple(f"interlock.{part}." for part in SERVICE)):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(module.place)
    assert not {name: found for name, found in places.items() if len(found) > 1}


def _names(module: Module) -> Iterator[tuple[int, str]]:
    yield 1, module.path.stem
    yield 1, module.path.parent.name
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def _is_empty(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    is_verb = len(words) > 1 and words[0] in EMPTY_VERBS
    return is_verb or bool(EMPTY_WORDS.intersection(words))
