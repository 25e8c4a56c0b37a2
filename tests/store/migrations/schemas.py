"""What a database's schema is, as data that can be compared."""

from __future__ import annotations

import re
from typing import Any

from tests.harness.store_places import Place, SqlitePlace

_SQLITE = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
)
_POSTGRES = {
    "columns": (
        "SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, collation_name "
        "FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY table_name, column_name"
    ),
    "indexes": (
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() "
        "ORDER BY tablename, indexname"
    ),
    "constraints": (
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2"
    ),
}


async def dump(place: Place) -> dict[str, Any]:
    """Everything that the dialect knows of its tables, indexes and constraints."""
    if isinstance(place, SqlitePlace):
        rows = await place.rows(_SQLITE)
        version = await place.rows("PRAGMA user_version")
        return {"objects": [(*row[:3], _unformatted(row[3])) for row in rows], "version": version}
    return {what: await place.rows(sql) for what, sql in _POSTGRES.items()}


async def columns(place: Place) -> dict[str, set[str]]:
    """The columns of each table."""
    if isinstance(place, SqlitePlace):
        sql = (
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_xinfo(m.name) c "
            "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
        )
    else:
        sql = (
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema()"
        )
    found: dict[str, set[str]] = {}
    for table, column in await place.rows(sql):
        found.setdefault(table, set()).add(column)
    return found


async def unique_keys(place: Place) -> dict[str, set[tuple[str, ...]]]:
    """The column lists of each table that no two rows share."""
    if isinstance(place, SqlitePlace):
        sql = (
            "SELECT m.name, i.name, c.name FROM sqlite_master m, pragma_index_list(m.name) i, "
            "pragma_index_info(i.name) c WHERE m.type = 'table' AND i.\"unique\" = 1 "
            "ORDER BY m.name, i.name, c.seqno"
        )
    else:
        sql = (
            "SELECT t.relname, x.indexrelid::regclass::text, a.attname FROM pg_index x "
            "JOIN pg_class t ON t.oid = x.indrelid JOIN pg_attribute a ON a.attrelid = x.indexrelid "
            "WHERE x.indisunique AND t.relnamespace = current_schema()::regnamespace "
            "ORDER BY 1, 2, a.attnum"
        )
    listed: dict[tuple[str, str], list[str]] = {}
    for table, index, column in await place.rows(sql):
        listed.setdefault((table, index), []).append(column)
    found: dict[str, set[tuple[str, ...]]] = {}
    for (table, _), names in listed.items():
        found.setdefault(table, set()).add(tuple(names))
    return found


def _unformatted(sql: str | None) -> str:
    return re.sub(r"\s+", " ", sql or "")
