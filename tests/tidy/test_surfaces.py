"""Each surface speaks its caller's language: commands on the command line, Python in the SDK, routes over HTTP.

And all of them use the glossary's word for a thing.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import interlock
from interlock.api.assembly import OPERATIONS
from interlock.api.openapi import openapi
from interlock.cli.main import entries, parser_of
from interlock.cli.options import Noun, Parser
from tests.tidy.source import PACKAGE, ROOT, Module, docstrings, package

ROUTE = r"/api/v1|\b(?:GET|POST|PUT|PATCH|DELETE) /"
COMMAND = rf"`interlock [a-z]|\binterlock (?:{'|'.join(entry.name for entry in entries())})\b"
PYTHON = r"\bil\.[a-z]|\bInterlock\(|@il\b|\bheld\.[a-z]|\b[a-z]+(?:_[a-z]+)+\(\)|\b(?:None|True|False)\b"
FOREIGN = {
    "cli": f"{ROUTE}|{PYTHON}",
    "drills": f"{ROUTE}|{PYTHON}",
    "demo": f"{ROUTE}|{PYTHON}",
    "sdk": f"{ROUTE}|{COMMAND}",
    "api": f"{PYTHON}|{COMMAND}",
    "wire": f"{PYTHON}|{COMMAND}",
}
# A program that `interlock init` writes, and requests that the demo sends and shows: they are what they show.
QUOTED = {"src/interlock/cli/init.py"}

# What a text must not call a thing, and the glossary's word for it.
WRONG_WORDS = {
    r"\b(?:api|access|auth) tokens?\b": "API key",
    r"\bpermit keys?\b": "signing key",
    r"\b(?:requester|requestor|proposer)s?\b": "submitter",
    r"\b(?:workspace|organi[sz]ation)s?\b": "tenant",
    r"\bdead.letter queues?\b": "dead letters",
    r"\bmutex(?:es)?\b|\blease locks?\b": "lease",
    r"\bpayload hash\b|\brequest's hash of the job\b": "job hash",
    r"\bheld against\b": "compared with, or checked against",
    r"\bidempotence\b": "idempotency",
    r"\bpolicy versions?\b": "snapshot",
    r"\b(?:callback urls?|web hooks?)\b": "webhook",
    r"\bfencing tokens?\b": "fence",
    r"\brest (?:after|between)\b": "delay",
    r"\b(?:whitelist|blacklist|allowlist)\w*\b": "what is allowed or denied",
    r"\bdeduplicat\w+\b": "once, or a repeat",
}
# Where a word is not ours: a JSON Web Token of a provider, a token of OAuth.
OF_OTHERS = re.compile(r"\boidc\b|oauth|id_token|JSON Web|Allow only your organisation", re.IGNORECASE)


@cache
def texts(part: str) -> tuple[tuple[str, str], ...]:
    """Where each text of a package stands, and what it says; docstrings are no texts that its users see."""
    found = (each for module in package() if module.part == part for each in _texts(module))
    return tuple(found)


@cache
def helps() -> tuple[tuple[str, str], ...]:
    """The help of every command and verb."""
    return tuple((f"{parser.prog} --help", parser.format_help()) for parser in _parsers())


@cache
def descriptions() -> tuple[tuple[str, str], ...]:
    """Every summary and description of the API's document."""
    return tuple(_described(openapi(OPERATIONS, title="Interlock", version="1"), ""))


@cache
def sdk_docs() -> tuple[tuple[str, str], ...]:
    """The docstrings of the SDK and of all that it exports, as an editor shows them."""
    exported = ((name, inspect.getdoc(getattr(interlock, name)) or "") for name in interlock.__all__)
    return tuple(exported) + tuple(
        (f"{module.place}:{node.lineno}", ast.get_docstring(node) or "")
        for module in package()
        if module.part in ("sdk", "") and module.path.name != "__main__.py"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_"
    )


@pytest.mark.parametrize("part", FOREIGN)
def test_no_text_of_a_surface_names_what_another_surface_calls_it(part: str) -> None:
    assert _found(FOREIGN[part], texts(part)) == []


def test_no_help_names_a_route_or_python() -> None:
    assert len(helps()) > 100
    assert _found(FOREIGN["cli"], helps()) == []


def test_no_description_of_the_api_names_a_command_or_python() -> None:
    assert len(descriptions()) > 500
    assert _found(FOREIGN["api"], descriptions()) == []


def test_no_docstring_of_the_sdk_names_a_route_or_a_command() -> None:
    assert len(sdk_docs()) > 200
    assert _found(FOREIGN["sdk"], sdk_docs()) == []


@pytest.mark.parametrize("wrong", WRONG_WORDS, ids=WRONG_WORDS.values())
def test_texts_use_the_glossarys_word(wrong: str) -> None:
    parts = sorted({module.part for module in package()})
    everything = [
        *helps(),
        *descriptions(),
        *sdk_docs(),
        *_pages(),
        *(each for part in parts for each in texts(part)),
    ]
    found = [each for each in _found(wrong, everything, re.IGNORECASE) if not OF_OTHERS.search(each)]
    assert found == [], f"say {WRONG_WORDS[wrong]}"


def test_every_noun_of_the_command_line_is_in_the_glossary() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    nouns = [
        parser.prog.removeprefix("interlock ").replace("-", " ")
        for parser in _parsers()
        if isinstance(parser, Noun)
    ]
    assert len(nouns) > 10
    assert [noun for noun in nouns if f"| **{noun}** |" not in glossary] == []


def test_a_plural_lists_and_a_singular_shows_or_acts() -> None:
    names = {entry.name: parser_of(entry) for entry in entries()}
    for name, parser in names.items():
        plural = {"approval": "approvals"}.get(name, f"{name}s")
        if isinstance(parser, Noun) and plural in names:
            assert not isinstance(names[plural], Noun), f"`{plural}` lists, and takes no verb"
            assert f"interlock {name} show" in [each.prog for each in _parsers()], f"`{name} ID` shows one"
            assert "list" in (names[plural].description or "").lower(), f"`{plural}` says that it lists"


def test_key_names_an_intent_and_an_api_key_is_given_as_one() -> None:
    for parser in _parsers():
        for action in parser._actions:
            names = set(action.option_strings)
            assert "--key" not in names or action.dest == "intent", parser.prog
            assert not names & {"--token", "--apikey", "--credential", "--password"}, parser.prog
            assert ("KEY" in str(action.metavar) and "API key" in str(action.help)) == (
                "--api-key" in names
            ) or (not action.option_strings), f"{parser.prog} {names}"


def _found(pattern: str, where: Any, flags: re.RegexFlag = re.NOFLAG) -> list[str]:
    return [
        f"{place} says {said.group()!r} in {text[:200]!r}"
        for place, text in where
        if (said := re.search(pattern, text, flags))
    ]


def _texts(module: Module) -> Iterator[tuple[str, str]]:
    """Every text of a module with several words, with `x` for whatever is filled in."""
    skipped = docstrings(module.tree)
    if module.place in QUOTED:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = (str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            text = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        else:
            continue
        if text.count(" ") > 1:
            yield f"{module.place}:{node.lineno}", text


def _parsers() -> list[Parser]:
    """Of every command and every verb."""
    found: list[Parser] = []
    for entry in entries():
        parser = parser_of(entry)
        found.append(parser)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += action.choices.values()
    return found


def _described(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("description", "summary") and isinstance(each, str):
                yield place, each
            else:
                yield from _described(each, f"{place}/{name}")
    elif isinstance(value, list):
        for each in value:
            yield from _described(each, place)


def _pages() -> list[tuple[str, str]]:
    """What people read outside a program: the pages of the console and of the documentation."""
    paths = [
        *(PACKAGE / "console").rglob("*.html"),
        *(ROOT / "docs" / "howto").rglob("*.md"),
        ROOT / "README.md",
    ]
    return [
        (path.relative_to(ROOT).as_posix(), line) for path in paths for line in path.read_text().splitlines()
    ]
