"""Texts name their subject: the caller, the worker, the reviewer, the process that holds the lock."""

from __future__ import annotations

import re

from tests.tidy.source import PACKAGE, ROOT

VAGUE = re.compile(r"\b(whoever|whomever|somebody|anybody|so many)\b", re.IGNORECASE)
TEXTS = {".py", ".html", ".js", ".sql"}
# A migration stays as it was released.
MIGRATIONS = PACKAGE / "store" / "schema"


def test_texts_name_their_subject() -> None:
    folders = (PACKAGE, ROOT / "bench", ROOT / "tools")
    found_in = [path for folder in folders for path in folder.rglob("*") if path.suffix in TEXTS]
    sources = [path for path in found_in if MIGRATIONS not in path.parents]
    assert not [
        f"{path.relative_to(ROOT)}:{number} says {found.group()!r}; name who it is"
        for path in [*sources, *(ROOT / "docs").rglob("*.md")]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := VAGUE.search(line))
    ]
