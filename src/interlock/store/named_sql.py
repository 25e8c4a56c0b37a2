"""Named SQL: each room's `queries.sql` holds blocks that begin with `-- name:` and say their purpose.

Parameters are written `:name`, which become `?1, ?2, …` for SQLite and `$1, $2, …` for PostgreSQL: to bind by name
costs a look-up for each.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from interlock.kernel.record import ColumnValue, Params
from interlock.store.rooms import ROOMS

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
    source = _PACKAGE / room / "queries.sql"
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
