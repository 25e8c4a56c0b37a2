"""The two statements of a PostgreSQL batch, put together from tables and columns, never from callers' words.

Both are made once per shape of batch (which kinds, which operations) and then prepared by the driver, so
a busy server uses a handful of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from interlock.kernel.record import ColumnValue, Key, Kind, Record
from interlock.kernel.world import Changes
from interlock.store import statements

ColumnTypes = Mapping[tuple[str, str], str]
Lock = str

WAIT: Lock = " FOR UPDATE OF r"
SKIP: Lock = " FOR UPDATE OF r SKIP LOCKED"
PLAIN: Lock = ""

CLOCK = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
BATCH_INSERT = f"INSERT INTO batches (id, at) VALUES ($1, {CLOCK}) RETURNING 1"  # noqa: S608
ABANDON = (
    f"INSERT INTO batches (id, at, abandoned) VALUES ($1, {CLOCK}, 1) "  # noqa: S608
    "ON CONFLICT (id) DO NOTHING RETURNING 1"
)
IS_ABANDONED = "SELECT abandoned FROM batches WHERE id = $1"
COLUMN_TYPES = (
    "SELECT table_name, column_name, data_type FROM information_schema.columns "
    "WHERE table_schema = current_schema()"
)


class Statement(msgspec.Struct, frozen=True):
    sql: str
    arguments: Sequence[Any]


def load(own: Sequence[Key], see: Sequence[Key], lock: Lock) -> Statement:
    """Lock and load every key: rows are (kind, body), the last one ('', the database's clock).

    Parts run in order, so locks are taken kind by kind and the clock is read after the last lock.
    """
    groups = [*_by_kind(own, lock), *_by_kind(see, PLAIN)]
    shape = tuple((kind, part_lock) for kind, part_lock, _ in groups)
    arguments = [column for _, _, keys in groups for column in _key_arrays(keys)]
    return Statement(_load_sql(shape), arguments)


def existing(keys: Sequence[Key]) -> Statement:
    """Which of these keys exist, without locking: rows are (kind, body)."""
    return load((), keys, PLAIN)


def write(batch_id: str, changes: Changes, types: ColumnTypes, channel: str, note: str | None) -> Statement:
    """Write the whole batch; the one row holds the count of changed rows."""
    parts: list[tuple[str, Kind[Any]]] = []
    arguments: list[Any] = [batch_id]
    for operation, kind, rows in _by_operation(changes):
        parts.append((operation, kind))
        arguments.extend(list(column) for column in zip(*rows, strict=True))
    if note is not None:
        arguments.extend((channel, note))
    shape = tuple((op, kind, _casts(op, kind, types)) for op, kind in parts)
    return Statement(_write_sql(shape, note is not None), arguments)


def rows_expected(changes: Changes) -> int:
    return len(changes.inserts) + len(changes.updates) + len(changes.deletes)


def _by_kind(keys: Sequence[Key], lock: Lock) -> list[tuple[Kind[Any], Lock, list[Key]]]:
    groups: dict[Kind[Any], list[Key]] = {}
    for key in keys:
        groups.setdefault(key.kind, []).append(key)
    return [(kind, lock, members) for kind, members in groups.items()]


def _key_arrays(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [key.tenant for key in keys], [key.id for key in keys]


@cache
def _load_sql(shape: tuple[tuple[Kind[Any], Lock], ...]) -> str:
    parts = [
        f"p{n} AS MATERIALIZED (SELECT '{kind.name}' AS kind, r.body AS body "  # noqa: S608
        f"FROM unnest(${2 * n + 1}::text[], ${2 * n + 2}::text[]) AS k(tenant, id) "
        f"JOIN {kind.table} r ON r.tenant = k.tenant AND r.id = k.id "
        f"ORDER BY r.tenant, r.id{lock})"
        for n, (kind, lock) in enumerate(shape)
    ]
    unions = [f"SELECT kind, body FROM p{n}" for n in range(len(shape))]
    unions.append(f"SELECT '', {CLOCK}::text")
    head = f"WITH {', '.join(parts)} " if parts else ""
    return head + " UNION ALL ".join(unions)


def _by_operation(changes: Changes) -> list[tuple[str, Kind[Any], list[Sequence[ColumnValue]]]]:
    groups: dict[tuple[str, Kind[Any]], list[Sequence[ColumnValue]]] = {}
    for kind, record in changes.inserts:
        groups.setdefault(("insert", kind), []).append(_row(kind, record))
    for update in changes.updates:
        row = (*_row(update.kind, update.record), update.version_before)
        groups.setdefault(("update", update.kind), []).append(row)
    for key, version in changes.deletes:
        groups.setdefault(("delete", key.kind), []).append((key.tenant, key.id, version))
    return [(operation, kind, rows) for (operation, kind), rows in groups.items()]


def _row(kind: Kind[Any], record: Record) -> tuple[ColumnValue, ...]:
    return statements.row(kind, record)


def _casts(operation: str, kind: Kind[Any], types: ColumnTypes) -> tuple[str, ...]:
    if operation == "delete":
        return ("text", "text", "bigint")
    columns = tuple(types[kind.table, column] for column in statements.columns(kind))
    return (*columns, "bigint") if operation == "update" else columns


@cache
def _write_sql(shape: tuple[tuple[str, Kind[Any], tuple[str, ...]], ...], notify: bool) -> str:
    parts = [f"b AS ({BATCH_INSERT})"]
    used = 1
    for n, (operation, kind, casts) in enumerate(shape):
        arrays = ", ".join(f"${used + i}::{cast}[]" for i, cast in enumerate(casts, start=1))
        used += len(casts)
        parts.append(f"w{n} AS ({_OPERATIONS[operation](kind, arrays)} RETURNING 1)")
    counts = " + ".join(f"(SELECT count(*) FROM w{n})" for n in range(len(shape))) or "0"
    told = f", pg_notify(${used + 1}, ${used + 2})" if notify else ""
    return f"WITH {', '.join(parts)} SELECT {counts}{told}"


def _insert(kind: Kind[Any], arrays: str) -> str:
    names = ", ".join(statements.columns(kind))
    return f"INSERT INTO {kind.table} ({names}) SELECT * FROM unnest({arrays})"  # noqa: S608


def _update(kind: Kind[Any], arrays: str) -> str:
    names = statements.columns(kind)
    sets = ", ".join(f"{name} = n.{name}" for name in names if name not in ("tenant", "id"))
    return (
        f"UPDATE {kind.table} r SET {sets} "  # noqa: S608
        f"FROM unnest({arrays}) AS n({', '.join(names)}, version_before) "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version_before"
    )


def _delete(kind: Kind[Any], arrays: str) -> str:
    return (
        f"DELETE FROM {kind.table} r USING unnest({arrays}) AS n(tenant, id, version) "  # noqa: S608
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version"
    )


_OPERATIONS = {"insert": _insert, "update": _update, "delete": _delete}
