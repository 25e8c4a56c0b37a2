"""What the description promises of texts: a pattern for one line takes no line break behind it either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from interlock.api.assembly import OPERATIONS
from interlock.api.openapi import openapi


def patterns(found: Any) -> Iterator[str]:
    """Every `pattern` in a part of the description, but for headers, which have no line breaks."""
    if isinstance(found, dict) and found.get("in") != "header":
        if isinstance(found.get("pattern"), str):
            yield found["pattern"]
        for part in found.values():
            yield from patterns(part)
    elif isinstance(found, list):
        for part in found:
            yield from patterns(part)


def test_a_pattern_for_one_line_takes_no_line_break_at_its_end() -> None:
    described = openapi(OPERATIONS, title="Interlock", version="")
    every = set(patterns(msgspec.to_builtins(described)))
    assert len(every) > 5
    # `$` alone also matches before a line break that ends the text.
    loose = {each for each in every if each.endswith("$") and not re.search(each, "a\nb")}
    assert loose == set()
