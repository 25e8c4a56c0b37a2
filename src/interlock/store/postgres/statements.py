"""The SQL statements of a PostgreSQL batch, made from tables and columns, never from callers' input.

Each is made once per shape of batch (which kinds, which operations) and then prepared, so a busy server uses only a
few. Values are sent as arrays, one per column, however many rows there are. Loaded records come back as one JSON
array per kind, which is decoded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from interlock.kernel.record import Key, Kind, Record
from interlock.kernel.world import Changes, Update
from interlock.store import statements
from interlock.store.statements import READ_STATE_AS_TEXT

# How many shapes of batch a server remembers the statement of.
_SHAPES_KEPT: Final = 256

ColumnTypes = Mapping[tuple[str, str], str]
Column = Sequence[object]

CLOCK = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
BATCH_INSERT = f"INSERT INTO batches (id, at) VALUES ($1, {CLOCK})"
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


class Statement(NamedTuple):
    """One statement and the values of its parameters."""

    sql: str
    values: Sequence[object] = ()


class Part(NamedTuple):
    """A batch's changes to the rows of one kind, and how many rows they change if there is no conflict."""

    operation: RowOperation
    kind: Kind[Any]
    rows: int


class Writing(NamedTuple):
    """A statement that writes a whole batch; it answers with the number of rows that each part changed."""

    sql: str
    values: Sequence[object]
    parts: Sequence[Part]

    def conflicts(self, changed: Sequence[int]) -> list[str]:
        """The parts that found a row deleted or changed, by the number of rows that each changed."""
        pairs = zip(self.parts, changed, strict=True)
        return [
            f"{part.operation} of {part.rows} {part.kind.name} changed {rows}"
            for part, rows in pairs
            if rows != part.rows
        ]


class Lock(StrEnum):
    """How rows are locked as they are loaded."""

    WAIT = " FOR UPDATE OF r"
    SKIP = " FOR UPDATE OF r SKIP LOCKED"
    NONE = ""


class KeyGroup(NamedTuple):
    """Keys of one kind that are loaded together."""

    kind: Kind[Any]
    keys: Sequence[Key]
    lock: Lock


class RowOperation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@cache
def within(query: str, bytes_max: int) -> str:
    """A query that finds bodies, cut after the row that reaches `bytes_max`; with one column more."""
    return _WITHIN.format(query=query, bytes_max=bytes_max)


@cache
def select_one(kind: Kind[Any]) -> str:
    return f"SELECT body FROM {kind.table} WHERE tenant = $1 AND id = $2"


def grouped(own: Iterable[Key], see: Iterable[Key], lock: Lock) -> list[KeyGroup]:
    """The keys kind by kind, those to own before the others: the one global order in which locks are taken."""
    return [*_by_kind(own, lock), *_by_kind(see, Lock.NONE)]


def load(groups: Sequence[KeyGroup]) -> Statement:
    """Lock and load every key: a row a group with (how many, their bodies as one JSON array), the last has the clock
    and the store's state.

    The clock is read after the last lock was taken: the parts of a UNION ALL run in order.
    """
    shape = tuple((kind, lock) for kind, _, lock in groups)
    return Statement(_load_sql(shape), [column for _, keys, _ in groups for column in _key_columns(keys)])


def each(keys: Iterable[Key], lock: Lock) -> Statement:
    """Lock and load these keys row by row, whatever is in them: rows are (kind, tenant, id, body)."""
    parts: list[str] = []
    values: list[Column] = []
    for n, (kind, keys_of_kind, _) in enumerate(_by_kind(keys, lock)):
        found = _found(kind, 2 * n, f"'{kind.name}' AS kind, r.tenant, r.id, r.body", lock)
        parts.append(f"SELECT * FROM ({found}) AS p{n}")
        values += _key_columns(keys_of_kind)
    return Statement(" UNION ALL ".join(parts), values)


def write(batch_id: str, changes: Changes, types: ColumnTypes) -> Writing:
    """Write the whole batch, and its id, by which a lost COMMIT is settled."""
    found = _by_operation(changes)
    shape = tuple((operation, kind, _casts(operation, kind, types)) for operation, kind, _ in found)
    values = [batch_id, *(column for _, _, columns in found for column in columns)]
    parts = [Part(operation, kind, len(columns[0])) for operation, kind, columns in found]
    return Writing(_write_sql(shape), values, parts)


# Loading.


def _by_kind(keys: Iterable[Key], lock: Lock) -> list[KeyGroup]:
    found: dict[Kind[Any], list[Key]] = {}
    for key in keys:
        found.setdefault(key.kind, []).append(key)
    return [KeyGroup(kind, found[kind], lock) for kind in sorted(found, key=lambda kind: kind.name)]


def _key_columns(keys: Sequence[Key]) -> tuple[Column, Column]:
    return [key.tenant for key in keys], [key.id for key in keys]


def _found(kind: Kind[Any], used: int, selected: str, lock: Lock) -> str:
    """The rows of the keys in the two parameters that come after `used` others, locked in the order of their keys."""
    return (
        f"SELECT {selected} FROM unnest(${used + 1}::text[], ${used + 2}::text[]) AS k(tenant, id) "
        f"JOIN {kind.table} r ON r.tenant = k.tenant AND r.id = k.id ORDER BY r.tenant, r.id{lock}"
    )


@lru_cache(maxsize=_SHAPES_KEPT)
def _load_sql(shape: tuple[tuple[Kind[Any], Lock], ...]) -> str:
    parts = [
        f"p{n} AS MATERIALIZED ({_found(kind, 2 * n, 'r.body AS body', lock)})"
        for n, (kind, lock) in enumerate(shape)
    ]
    unions = [f"SELECT count(*), '[' || string_agg(body, ',') || ']' FROM p{n}" for n in range(len(shape))]
    unions.append(f"SELECT {CLOCK}, {READ_STATE_AS_TEXT}")
    head = f"WITH {', '.join(parts)} " if parts else ""
    return head + " UNION ALL ".join(unions)


# Writing.


def _by_operation(changes: Changes) -> list[tuple[RowOperation, Kind[Any], list[Column]]]:
    """Columns by operation and kind, in a fixed order, so that equal batches make equal statements."""
    inserts: dict[Kind[Any], list[Record]] = {}
    for kind, record in changes.inserts:
        inserts.setdefault(kind, []).append(record)
    updates: dict[Kind[Any], list[Update]] = {}
    for update in changes.updates:
        updates.setdefault(update.kind, []).append(update)
    deletes: dict[Kind[Any], list[tuple[Key, int]]] = {}
    for key, version in changes.deletes:
        deletes.setdefault(key.kind, []).append((key, version))
    found: list[tuple[RowOperation, Kind[Any], list[Column]]] = []
    found += [(RowOperation.INSERT, kind, _columns(kind, records)) for kind, records in inserts.items()]
    found += [(RowOperation.UPDATE, kind, _updated(kind, changed)) for kind, changed in updates.items()]
    found += [(RowOperation.DELETE, kind, _deleted(gone)) for kind, gone in deletes.items()]
    return sorted(found, key=lambda one: (one[1].name, one[0]))


def _columns(kind: Kind[Any], records: Sequence[Record]) -> list[Column]:
    """The columns of these records, in the order of `statements.columns`."""
    return list(zip(*map(kind.row, records), strict=True))


def _updated(kind: Kind[Any], updates: Sequence[Update]) -> list[Column]:
    versions_before = [update.version_before for update in updates]
    return [*_columns(kind, [update.record for update in updates]), versions_before]


def _deleted(gone: Sequence[tuple[Key, int]]) -> list[Column]:
    return [*_key_columns([key for key, _ in gone]), [version for _, version in gone]]


def _casts(operation: RowOperation, kind: Kind[Any], types: ColumnTypes) -> tuple[str, ...]:
    if operation is RowOperation.DELETE:
        return ("text", "text", "bigint")
    columns = tuple(types[kind.table, column] for column in statements.columns(kind))
    return (*columns, "bigint") if operation is RowOperation.UPDATE else columns


@lru_cache(maxsize=_SHAPES_KEPT)
def _write_sql(shape: tuple[tuple[RowOperation, Kind[Any], tuple[str, ...]], ...]) -> str:
    parts = [f"b AS ({BATCH_INSERT})"]
    used = 1
    for n, (operation, kind, casts) in enumerate(shape):
        arrays = ", ".join(f"${used + m}::{cast}[]" for m, cast in enumerate(casts, start=1))
        rows = f"unnest({arrays}) AS n({', '.join(_NAMES[operation](kind))})"
        parts.append(f"w{n} AS ({_WORDING[operation](kind, rows)} RETURNING 1)")
        used += len(casts)
    counts = ", ".join(f"(SELECT count(*) FROM w{n})" for n in range(len(shape)))
    return f"WITH {', '.join(parts)} SELECT {counts}"


def _insert(kind: Kind[Any], rows: str) -> str:
    return f"INSERT INTO {kind.table} ({', '.join(statements.columns(kind))}) SELECT * FROM {rows}"


def _update(kind: Kind[Any], rows: str) -> str:
    sets = ", ".join(
        f"{name} = n.{name}" for name in statements.columns(kind) if name not in ("tenant", "id")
    )
    return (
        f"UPDATE {kind.table} r SET {sets} FROM {rows} "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version_before"
    )


def _delete(kind: Kind[Any], rows: str) -> str:
    return (
        f"DELETE FROM {kind.table} r USING {rows} "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version"
    )


_WORDING = {RowOperation.INSERT: _insert, RowOperation.UPDATE: _update, RowOperation.DELETE: _delete}
_NAMES: dict[RowOperation, Callable[[Kind[Any]], tuple[str, ...]]] = {
    RowOperation.INSERT: statements.columns,
    RowOperation.UPDATE: lambda kind: (*statements.columns(kind), "version_before"),
    RowOperation.DELETE: lambda _: ("tenant", "id", "version"),
}
