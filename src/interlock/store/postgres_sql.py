"""The two statements of a PostgreSQL batch, put together from tables and columns, never from callers' words.

Both are made once per shape of batch (which kinds, which operations) and then prepared by the driver, so
a busy server uses a handful of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from interlock.kernel.record import ColumnValue, Key, Kind
from interlock.kernel.world import Changes
from interlock.store import statements

ColumnTypes = Mapping[tuple[str, str], str]

CLOCK = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
BATCH_INSERT = f"INSERT INTO batches (id, at) VALUES ($1, {CLOCK}) RETURNING 1"
ABANDON = (
    f"INSERT INTO batches (id, at, abandoned) VALUES ($1, {CLOCK}, 1) ON CONFLICT (id) DO NOTHING RETURNING 1"
)
IS_ABANDONED = "SELECT abandoned FROM batches WHERE id = $1"
SCHEMA_VERSION = "SELECT coalesce(max(number), 0) FROM schema_versions"
COLUMN_TYPES = (
    "SELECT table_name, column_name, data_type FROM information_schema.columns "
    "WHERE table_schema = current_schema()"
)


class Lock(StrEnum):
    """How rows are locked as they are loaded."""

    WAIT = " FOR UPDATE OF r"
    SKIP = " FOR UPDATE OF r SKIP LOCKED"
    NONE = ""


class Operation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class Statement(msgspec.Struct, frozen=True):
    sql: str
    arguments: Sequence[Any]


def load(own: Iterable[Key], see: Iterable[Key], lock: Lock) -> Statement:
    """Lock and load every key: rows are (kind, body), the last one ('', the database's clock).

    Locks are taken in one global order, kind by kind and then by key, and the clock is read after the
    last of them: the parts of a UNION ALL run in order.
    """
    groups = [*_by_kind(own, lock), *_by_kind(see, Lock.NONE)]
    arguments: list[list[str]] = []
    for _, _, keys in groups:
        arguments.append([key.tenant for key in keys])
        arguments.append([key.id for key in keys])
    return Statement(_load_sql(tuple((kind, part) for kind, part, _ in groups)), arguments)


def write(batch_id: str, changes: Changes, types: ColumnTypes) -> Statement:
    """Write the whole batch; the one row holds the count of changed rows."""
    shape: list[tuple[Operation, Kind[Any], tuple[str, ...]]] = []
    arguments: list[Any] = [batch_id]
    for operation, kind, rows in _by_operation(changes):
        shape.append((operation, kind, _casts(operation, kind, types)))
        arguments.extend(zip(*rows, strict=True))
    return Statement(_write_sql(tuple(shape)), arguments)


def rows_expected(changes: Changes) -> int:
    return len(changes.inserts) + len(changes.updates) + len(changes.deletes)


def _by_kind(keys: Iterable[Key], lock: Lock) -> list[tuple[Kind[Any], Lock, list[Key]]]:
    groups: dict[Kind[Any], list[Key]] = {}
    for key in keys:
        groups.setdefault(key.kind, []).append(key)
    return [(kind, lock, groups[kind]) for kind in sorted(groups, key=lambda kind: kind.name)]


@cache
def _load_sql(shape: tuple[tuple[Kind[Any], Lock], ...]) -> str:
    parts = [
        f"p{n} AS MATERIALIZED (SELECT '{kind.name}' AS kind, r.body AS body "
        f"FROM unnest(${2 * n + 1}::text[], ${2 * n + 2}::text[]) AS k(tenant, id) "
        f"JOIN {kind.table} r ON r.tenant = k.tenant AND r.id = k.id "
        f"ORDER BY r.tenant, r.id{lock})"
        for n, (kind, lock) in enumerate(shape)
    ]
    unions = [f"SELECT kind, body FROM p{n}" for n in range(len(shape))]
    unions.append(f"SELECT '', {CLOCK}::text")
    head = f"WITH {', '.join(parts)} " if parts else ""
    return head + " UNION ALL ".join(unions)


def _by_operation(changes: Changes) -> list[tuple[Operation, Kind[Any], list[Sequence[ColumnValue]]]]:
    """Rows by what is done to which kind, in a fixed order, so that equal batches make equal statements."""
    groups: dict[tuple[Operation, Kind[Any]], list[Sequence[ColumnValue]]] = {}
    for kind, record in changes.inserts:
        groups.setdefault((Operation.INSERT, kind), []).append(kind.row(record))
    for update in changes.updates:
        row = (*update.kind.row(update.record), update.version_before)
        groups.setdefault((Operation.UPDATE, update.kind), []).append(row)
    for key, version in changes.deletes:
        groups.setdefault((Operation.DELETE, key.kind), []).append((key.tenant, key.id, version))
    ordered = sorted(groups, key=lambda group: (group[1].name, group[0]))
    return [(operation, kind, groups[operation, kind]) for operation, kind in ordered]


def _casts(operation: Operation, kind: Kind[Any], types: ColumnTypes) -> tuple[str, ...]:
    if operation is Operation.DELETE:
        return ("text", "text", "bigint")
    columns = tuple(types[kind.table, column] for column in statements.columns(kind))
    return (*columns, "bigint") if operation is Operation.UPDATE else columns


@cache
def _write_sql(shape: tuple[tuple[Operation, Kind[Any], tuple[str, ...]], ...]) -> str:
    parts = [f"b AS ({BATCH_INSERT})"]
    used = 1
    for n, (operation, kind, casts) in enumerate(shape):
        arrays = ", ".join(f"${used + i}::{cast}[]" for i, cast in enumerate(casts, start=1))
        used += len(casts)
        parts.append(f"w{n} AS ({_WORDING[operation](kind, arrays)} RETURNING 1)")
    counts = " + ".join(f"(SELECT count(*) FROM w{n})" for n in range(len(shape))) or "0"
    return f"WITH {', '.join(parts)} SELECT {counts}"


def _insert(kind: Kind[Any], arrays: str) -> str:
    names = ", ".join(statements.columns(kind))
    return f"INSERT INTO {kind.table} ({names}) SELECT * FROM unnest({arrays})"


def _update(kind: Kind[Any], arrays: str) -> str:
    names = statements.columns(kind)
    sets = ", ".join(f"{name} = n.{name}" for name in names if name not in ("tenant", "id"))
    return (
        f"UPDATE {kind.table} r SET {sets} "
        f"FROM unnest({arrays}) AS n({', '.join(names)}, version_before) "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version_before"
    )


def _delete(kind: Kind[Any], arrays: str) -> str:
    return (
        f"DELETE FROM {kind.table} r USING unnest({arrays}) AS n(tenant, id, version) "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version"
    )


_WORDING = {Operation.INSERT: _insert, Operation.UPDATE: _update, Operation.DELETE: _delete}
