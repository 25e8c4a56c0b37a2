"""The list of rooms, the kinds of record that they keep, and their named SQL."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from interlock.kernel.idempotency import KEPT_ANSWERS
from interlock.kernel.record import ColumnValue, Kind, Params

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
