"""The two statements of a PostgreSQL batch, put together from tables and columns, never from callers' words.

Both are made once per shape of batch (which kinds, which operations) and then prepared by the driver, so
a busy server uses a handful of them.

A column of values travels as one text with separators, which costs both sides half of what an array costs: the
driver looks at every element of an array in Python, and PostgreSQL at every length. Values that the separators
occur in go as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final, cast

import msgspec

from interlock.kernel.record import ColumnValue, Key, Kind
from interlock.kernel.world import Changes
from interlock.store import statements

_APART: Final = "\x1f"
_NULL: Final = "\x1e"

ColumnTypes = Mapping[tuple[str, str], str]

CLOCK = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
BATCH_INSERT = f"INSERT INTO batches (id, at) VALUES ($1, {CLOCK}) RETURNING 1"
ABANDON = (
    f"INSERT INTO batches (id, at, abandoned) VALUES ($1, {CLOCK}, 1) ON CONFLICT (id) DO NOTHING RETURNING 1"
)
IS_ABANDONED = "SELECT abandoned FROM batches WHERE id = $1"
SCHEMA_VERSION = "SELECT coalesce(max(number), 0) FROM schema_versions"
# Of the tables that statements find: they need not all be in the first schema of the search path.
COLUMN_TYPES = (
    "SELECT t.relname, c.attname, format_type(c.atttypid, NULL) FROM pg_class t "
    "JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped "
    "WHERE t.relkind IN ('r', 'p', 'f', 'v') AND pg_table_is_visible(t.oid)"
)


# Windows without an order of their own take the rows as they come, which is the order of the query inside.
_WITHIN = """SELECT * FROM (
  SELECT *, coalesce(sum(octet_length(body)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS ahead
  FROM ({query}) AS found
) AS sized WHERE ahead < {bytes_max}"""


class Lock(StrEnum):
    """How rows are locked as they are loaded."""

    WAIT = " FOR UPDATE OF r"
    SKIP = " FOR UPDATE OF r SKIP LOCKED"
    NONE = ""


@cache
def within(query: str, bytes_max: int) -> str:
    """A query that finds bodies, up to the first row that comes after so many bytes of them; with one column more."""
    return _WITHIN.format(query=query, bytes_max=bytes_max)


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
    columns = _key_columns(groups)
    shape = tuple((kind, part) for kind, part, _ in groups)
    joined = _joined(columns)
    return Statement(_load_sql(shape, joined is not None), columns if joined is None else joined)


def present(keys: Iterable[Key]) -> Statement:
    """Which of these keys have a row, whatever is in it: rows are (kind, tenant, id)."""
    groups = _by_kind(keys, Lock.NONE)
    parts = [
        f"SELECT '{kind.name}', r.tenant, r.id FROM unnest(${2 * n + 1}::text[], ${2 * n + 2}::text[]) "
        f"AS k(tenant, id) JOIN {kind.table} r ON r.tenant = k.tenant AND r.id = k.id"
        for n, (kind, _, _) in enumerate(groups)
    ]
    return Statement(" UNION ALL ".join(parts), _key_columns(groups))


def write(batch_id: str, changes: Changes, types: ColumnTypes) -> Statement:
    """Write the whole batch; the one row holds the count of changed rows."""
    shape: list[tuple[Operation, Kind[Any], tuple[str, ...]]] = []
    columns: list[Sequence[ColumnValue]] = []
    for operation, kind, rows in _by_operation(changes):
        shape.append((operation, kind, _casts(operation, kind, types)))
        columns.extend(zip(*rows, strict=True))
    joined = _joined(columns)
    arguments = columns if joined is None else joined
    return Statement(_write_sql(tuple(shape), joined is not None), (batch_id, *arguments))


def _joined(columns: Iterable[Sequence[ColumnValue]]) -> list[str] | None:
    """Each column as one text; None if one of them could not be taken apart again."""
    texts: list[str] = []
    for values in columns:
        text = _one_text(values)
        if text is None:
            return None
        texts.append(text)
    return texts


def _one_text(values: Sequence[ColumnValue]) -> str | None:
    nulls = 0
    try:
        text = _APART.join(cast("Sequence[str]", values))
    except TypeError:
        nulls = values.count(None)
        text = _APART.join([_NULL if value is None else str(value) for value in values])
    # The empty text would come back as no element at all.
    is_clear = text and text.count(_APART) == len(values) - 1 and text.count(_NULL) == nulls
    return text if is_clear else None


def _column(number: int, cast_to: str, joined: bool) -> str:
    """How a statement says the column in one of its parameters, as an array."""
    text = f"string_to_array(${number}, E'\\x1f', E'\\x1e')" if joined else f"${number}"
    return f"{text}::{cast_to}[]"


def rows_expected(changes: Changes) -> int:
    return len(changes.inserts) + len(changes.updates) + len(changes.deletes)


def _by_kind(keys: Iterable[Key], lock: Lock) -> list[tuple[Kind[Any], Lock, list[Key]]]:
    groups: dict[Kind[Any], list[Key]] = {}
    for key in keys:
        groups.setdefault(key.kind, []).append(key)
    return [(kind, lock, groups[kind]) for kind in sorted(groups, key=lambda kind: kind.name)]


def _key_columns(groups: Iterable[tuple[Kind[Any], Lock, list[Key]]]) -> list[Sequence[ColumnValue]]:
    columns: list[Sequence[ColumnValue]] = []
    for _, _, keys in groups:
        columns.append([key.tenant for key in keys])
        columns.append([key.id for key in keys])
    return columns


@cache
def _load_sql(shape: tuple[tuple[Kind[Any], Lock], ...], joined: bool) -> str:
    parts = [
        f"p{n} AS MATERIALIZED (SELECT '{kind.name}' AS kind, r.body AS body "
        f"FROM unnest({_column(2 * n + 1, 'text', joined)}, {_column(2 * n + 2, 'text', joined)}) AS k(tenant, id) "
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
def _write_sql(shape: tuple[tuple[Operation, Kind[Any], tuple[str, ...]], ...], joined: bool) -> str:
    parts = [f"b AS ({BATCH_INSERT})"]
    used = 1
    for n, (operation, kind, casts) in enumerate(shape):
        arrays = ", ".join(_column(used + i, cast_to, joined) for i, cast_to in enumerate(casts, start=1))
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
