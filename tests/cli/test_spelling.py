"""Advice as each reader needs it: a refusal names routes, and the command line says the command instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from interlock.api.assembly import OPERATIONS
from interlock.cli.completion import known_commands
from interlock.cli.trouble import as_commands
from tests.tidy.source import Module, package

ROUTE = re.compile(r"(GET|POST|PUT|DELETE) (/api/v1/[\w/.{}-]*\w)")
COMMAND = re.compile(r"`interlock ([^`]*)`")


def texts_of(module: Module) -> Iterator[str]:
    """Every text of a module, with `x` for whatever is filled in."""
    inside: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def advice() -> list[tuple[str, str]]:
    """What refusals say that names a route or a command, and where."""
    refusals = [module for module in package() if module.path.name == "refusals.py"]
    said = [(module.place, text) for module in refusals for text in texts_of(module)]
    return [(place, text) for place, text in said if "/api/v1/" in text or "`interlock " in text]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("see POST /api/v1/approvals/job_1/refresh.", "see `interlock refresh job_1`."),
        ("GET /api/v1/jobs/job_1/history; x", "`interlock job job_1 --history`; x"),
        ("read it with GET /api/v1/jobs/job_1", "read it with `interlock job job_1`"),
        ("GET /api/v1/jobs/job_1?until=finished&wait_seconds=30, x", "`interlock job job_1`, x"),
        ("again with POST /api/v1/jobs", "again with `interlock submit`"),
        ("GET /api/v1/leases/lse_1", "`interlock lease show lse_1`"),
        ("POST /api/v1/policy/evaluate", "`interlock policy evaluate`"),
        ("no route here", "no route here"),
        ("POST /api/v1/jobs/claim", "POST /api/v1/jobs/claim"),
        ("GET /api/v1/leases/lse-1/checkpoints", "GET /api/v1/leases/lse-1/checkpoints"),
    ],
)
def test_routes_in_advice_become_commands(said: str, shown: str) -> None:
    assert as_commands(said) == shown


@pytest.mark.parametrize(("place", "text"), advice())
def test_a_refusal_names_routes_that_there_are_and_no_command(place: str, text: str) -> None:
    known = {(each.method, re.sub(r"\{\w+\}", "x", each.path)) for each in OPERATIONS}
    assert "`interlock " not in text, place
    assert set(ROUTE.findall(text)) <= known, place


@pytest.mark.parametrize(("place", "text"), advice())
def test_every_route_in_a_refusal_has_a_command(place: str, text: str) -> None:
    spelled = as_commands(text)
    assert "/api/v1/" not in spelled, place
    for words in COMMAND.findall(spelled):
        assert is_command(words.split()), f"{place}: {words}"


def is_command(words: list[str]) -> bool:
    """Whether there is such a command, with such a verb where it takes one."""
    for known in known_commands():
        if known.path == (words[0],):
            verbs = [*known.choices, *(verb.path[-1] for verb in known.verbs)]
            return not verbs or words[1] in verbs
    return False
