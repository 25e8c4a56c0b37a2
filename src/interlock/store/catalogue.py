"""The list of rooms, the kinds of record that they keep, their named SQL, and the migrations.

Migrations are numbered and forward-only, with the same numbers and names in both dialects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from interlock.kernel.idempotency import KEPT_ANSWERS
from interlock.kernel.record import ColumnValue, Kind, Params
from interlock.kernel.storage import MIGRATION_STEPS, SchemaTooNew

ROOMS = (
    "audit",
    "identity",
    "events",
    "permits",
    "policy",
    "conflicts",
    "leases",
    "targets",
    "admission",
    "grants",
    "effects",
    "jobs",
    "workflows",
)


@cache
def kinds() -> dict[str, Kind[Any]]:
    """Every kind by name, as declared in each room's model."""
    found: list[Kind[Any]] = [KEPT_ANSWERS]
    for room in ROOMS:
        model = import_module(f"interlock.rooms.{room}.model")
        declared: list[object] = list(vars(model).values())
        found.extend(cast("Kind[Any]", value) for value in declared if isinstance(value, Kind))
    return {kind.name: kind for kind in found}


_PACKAGE = Path(__file__).parents[1]
_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")


class NamedSql(msgspec.Struct, frozen=True):
    """One block in both spellings. `parameters` are in the order of their numbers."""

    name: str
    sqlite: str
    postgres: str
    parameters: tuple[str, ...]

    def arguments(self, params: Params) -> tuple[ColumnValue, ...]:
        """The values in the order of the parameters."""
        return tuple([params[name] for name in self.parameters])


@cache
def named_sql(name: str) -> NamedSql:
    """The block called `room.block`."""
    room, block = name.split(".", 1)
    return _blocks(room)[block]


@cache
def all_names() -> tuple[str, ...]:
    """Every block of every room."""
    return tuple(f"{room}.{block}" for room in ROOMS for block in _blocks(room))


@cache
def _blocks(room: str) -> dict[str, NamedSql]:
    home = _PACKAGE / "store" if room == "store" else _PACKAGE / "rooms" / room
    source = home / "queries.sql"
    parts = _NAME.split(source.read_text())[1:] if source.is_file() else []
    return {name: _block(f"{room}.{name}", text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _block(name: str, text: str) -> NamedSql:
    sql = (
        "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        .strip()
        .rstrip(";")
    )
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(sql)))

    def numbered(sign: str) -> str:
        return _PARAMETER.sub(lambda found: f"{sign}{parameters.index(found[1]) + 1}", sql)

    return NamedSql(name, numbered("?"), numbered("$"), parameters)


_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_SCHEMA = Path(__file__).parent / "schema"


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str

    @property
    def statements(self) -> tuple[str, ...]:
        """Its statements. One ends with the line that ends in a semicolon, outside a body between two `$$`."""
        found: list[str] = []
        lines: list[str] = []
        for line in self.sql.splitlines():
            lines.append(line)
            is_whole = sum(each.count("$$") for each in lines) % 2 == 0
            if is_whole and line.partition("--")[0].rstrip().endswith(";"):
                found.append("\n".join(lines))
                lines = []
        return (*found, "\n".join(lines)) if lines else tuple(found)


class MigrationStep(msgspec.Struct, frozen=True):
    """One statement of a migration; `ends` is the migration that it completes."""

    sql: str
    ends: Migration | None


def steps(waiting: Sequence[Migration], *, from_scratch: bool) -> Iterator[MigrationStep]:
    """The statements that bring a store to the newest schema. As they are taken, it is told how many are done.

    A store that is only now made has no rows, so it is made in a moment, and nothing is told.
    """
    tell = None if from_scratch else MIGRATION_STEPS.get()
    total, done = sum(len(migration.statements) for migration in waiting), 0
    for migration in waiting:
        for place, sql in enumerate(migration.statements, 1):
            if tell:
                tell(migration.name.replace("_", " "), done, total)
            yield MigrationStep(sql, migration if place == len(migration.statements) else None)
            done += 1
    if tell and total:
        tell("done", done, total)


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
