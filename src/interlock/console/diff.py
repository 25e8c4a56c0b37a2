"""What changed between two texts, line by line, as `m.diff` shows it."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

_LINES_MAX = 5000
_KINDS = {" ": "same", "-": "gone", "+": "new"}


def changed_lines(old: str, new: str) -> list[tuple[str, str]]:
    """Lines with what became of them: `same`, `gone` or `new`. Long equal stretches are left out."""
    olds, news = old.splitlines()[:_LINES_MAX], new.splitlines()[:_LINES_MAX]
    lines = list(difflib.unified_diff(olds, news, lineterm="", n=3))[2:]
    return [(_KINDS[line[0]], line[1:]) for line in lines if line[0] in _KINDS]


def pretty(value: Any) -> str:
    """A value as JSON, one field a line."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
