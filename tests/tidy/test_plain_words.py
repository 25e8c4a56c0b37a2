"""Texts name their subject: the caller, the worker, the reviewer, the process that holds the lock."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.source import package

# Packages whose docstrings, comments, help and messages have been rewritten; another one joins when it has been.
PLAIN = {"cli", "demo", "drills", "sdk"}
VAGUE = re.compile(r"\b(whoever|whomever|somebody|anybody|so many)\b", re.IGNORECASE)
DOCS = Path(__file__).parents[2] / "docs"
GENERATED = {"api.md"}
PRINTED = "interlock: "  # begins what a command of a how-to prints, in the words of the service
NOT_YET = ("src/interlock/sdk/operations/", "src/interlock/sdk/outcomes.py")


def test_texts_name_their_subject() -> None:
    places = [
        (module.place, module.path)
        for module in package()
        if module.part in PLAIN and not module.place.startswith(NOT_YET)
    ]
    places += [(page.name, page) for page in DOCS.rglob("*.md") if page.name not in GENERATED]
    assert not [
        f"{place}:{number} says {found.group()!r}; name who it is"
        for place, path in places
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not line.startswith(PRINTED) and (found := VAGUE.search(line))
    ]
