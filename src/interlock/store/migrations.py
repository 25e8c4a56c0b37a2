"""Numbered, forward-only migrations, with the same numbers and names in both dialects."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from interlock.kernel.storage import SchemaTooNew

_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_SCHEMA = Path(__file__).parent / "schema"


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str


def migrations(dialect: str) -> tuple[Migration, ...]:
    """All migrations of a dialect, oldest first."""
    found: list[Migration] = []
    for file in (_SCHEMA / dialect).iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text()))
    return tuple(sorted(found, key=lambda migration: migration.number))


def newest(dialect: str) -> int:
    """The schema that a current store has, without reading a migration."""
    names = (_FILE.match(file.name) for file in (_SCHEMA / dialect).iterdir())
    return max(int(match[1]) for match in names if match)


def pending(dialect: str, current: int) -> tuple[Migration, ...]:
    """What a store at schema `current` still needs; refuses a store from the future."""
    known = migrations(dialect)
    newest = known[-1].number
    if current > newest:
        raise SchemaTooNew(
            f"this store has schema {current}, but this Interlock knows only up to {newest}; "
            "run the newer Interlock that wrote it"
        )
    return tuple(migration for migration in known if migration.number > current)
