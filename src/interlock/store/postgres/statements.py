"""The two statements of a PostgreSQL batch, put together from tables and columns, never from callers' words.

Both are made once per shape of batch (which kinds, which operations, how their columns travel) and then prepared, so
a busy server uses a handful of them.

Keys by which rows are found never travel once for all rows: a plan that is made while a table is small would look
through all rows of the one tenant. What is loaded comes back as one JSON array a kind, which is read in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from interlock.kernel.record import Key, Kind, Record
from interlock.kernel.world import Changes, Update
from interlock.store import statements
from interlock.store.postgres.columns import Column, Form, array, formed, rows_of
from interlock.store.postgres.pipeline import Asked, Value

# How many wordings a server may come to know before it stops looking for columns that are the same in every row.
_WORDINGS_MAX: Final = 128

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


class Group(NamedTuple):
    """Keys of one kind that are loaded together."""

    kind: Kind[Any]
    keys: Sequence[Key]
    lock: Lock


class Operation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@cache
def select_one(kind: Kind[Any]) -> str:
    return f"SELECT body FROM {kind.table} WHERE tenant = $1 AND id = $2"


def grouped(own: Iterable[Key], see: Iterable[Key], lock: Lock) -> list[Group]:
    """The keys kind by kind, those to own before the others: the one global order in which locks are taken."""
    return [*_by_kind(own, lock), *_by_kind(see, Lock.NONE)]


def load(groups: Sequence[Group]) -> Asked:
    """Lock and load every key: a row a group with (how many, their bodies as one JSON array), the last has the clock.

    The clock is read after the last lock was taken: the parts of a UNION ALL run in order.
    """
    shape: list[tuple[Kind[Any], Lock, Form, Form]] = []
    values: list[Value] = []
    for kind, keys, lock in groups:
        tenants, tenant_text = formed([key.tenant for key in keys], constant=False)
        ids, id_text = formed([key.id for key in keys], constant=False)
        shape.append((kind, lock, tenants, ids))
        values += (tenant_text, id_text)
    return Asked(_load_sql(tuple(shape)), values)


def each(keys: Iterable[Key], lock: Lock) -> Asked:
    """Lock and load these keys row by row, whatever is in them: rows are (kind, tenant, id, body)."""
    parts: list[str] = []
    values: list[Value] = []
    for kind, keys_of_kind, _ in _by_kind(keys, lock):
        n = len(values)
        parts.append(
            f"SELECT * FROM (SELECT '{kind.name}', r.tenant, r.id, r.body "
            f"FROM unnest(${n + 1}::text[], ${n + 2}::text[]) AS k(tenant, id) "
            f"JOIN {kind.table} r ON r.tenant = k.tenant AND r.id = k.id ORDER BY r.tenant, r.id{lock}) AS p{n}"
        )
        values += (array([key.tenant for key in keys_of_kind]), array([key.id for key in keys_of_kind]))
    return Asked(" UNION ALL ".join(parts), values)


def write(batch_id: str, changes: Changes, types: ColumnTypes) -> Asked:
    """Write the whole batch; fails with `MISCOUNTED` if a row that it changes is not there as it was."""
    shape: list[tuple[Operation, Kind[Any], tuple[tuple[str, Form], ...]]] = []
    values: list[Value] = [batch_id, str(_rows_expected(changes))]
    for operation, kind, columns in _by_operation(changes):
        may_travel_once = _write_sql.cache_info().currsize < _WORDINGS_MAX
        keys = 0 if operation is Operation.INSERT else 2
        forms = [formed(column, constant=may_travel_once and n >= keys) for n, column in enumerate(columns)]
        values += [value for _, value in forms]
        casts = _casts(operation, kind, types)
        shape.append((operation, kind, tuple(zip(casts, (form for form, _ in forms), strict=True))))
    return Asked(_write_sql(tuple(shape)), values)


def _rows_expected(changes: Changes) -> int:
    return len(changes.inserts) + len(changes.updates) + len(changes.deletes)


def _by_kind(keys: Iterable[Key], lock: Lock) -> list[Group]:
    found: dict[Kind[Any], list[Key]] = {}
    for key in keys:
        found.setdefault(key.kind, []).append(key)
    return [Group(kind, found[kind], lock) for kind in sorted(found, key=lambda kind: kind.name)]


@lru_cache(maxsize=2 * _WORDINGS_MAX)
def _load_sql(shape: tuple[tuple[Kind[Any], Lock, Form, Form], ...]) -> str:
    parts: list[str] = []
    for n, (kind, lock, tenants, ids) in enumerate(shape):
        rows = rows_of([("tenant", "text", tenants), ("id", "text", ids)], 2 * n)
        parts.append(
            f"p{n} AS MATERIALIZED (SELECT r.body AS body FROM ({rows}) AS k "
            f"JOIN {kind.table} r ON r.tenant = k.tenant AND r.id = k.id ORDER BY r.tenant, r.id{lock})"
        )
    unions = [f"SELECT count(*), '[' || string_agg(body, ',') || ']' FROM p{n}" for n in range(len(shape))]
    unions.append(f"SELECT {CLOCK}, NULL")
    head = f"WITH {', '.join(parts)} " if parts else ""
    return head + " UNION ALL ".join(unions)


def _by_operation(changes: Changes) -> list[tuple[Operation, Kind[Any], list[Column]]]:
    """Columns by what is done to which kind, in a fixed order, so that equal batches make equal statements."""
    inserts: dict[Kind[Any], list[Record]] = {}
    for kind, record in changes.inserts:
        inserts.setdefault(kind, []).append(record)
    updates: dict[Kind[Any], list[Update]] = {}
    for update in changes.updates:
        updates.setdefault(update.kind, []).append(update)
    deletes: dict[Kind[Any], list[tuple[Key, int]]] = {}
    for key, version in changes.deletes:
        deletes.setdefault(key.kind, []).append((key, version))
    found: list[tuple[Operation, Kind[Any], list[Column]]] = []
    found += [(Operation.INSERT, kind, _columns(kind, records)) for kind, records in inserts.items()]
    found += [(Operation.UPDATE, kind, _updated(kind, changed)) for kind, changed in updates.items()]
    found += [(Operation.DELETE, kind, _deleted(gone)) for kind, gone in deletes.items()]
    return sorted(found, key=lambda one: (one[1].name, one[0]))


def _columns(kind: Kind[Any], records: Sequence[Record]) -> list[Column]:
    """The columns of these records, in the order of `statements.columns`."""
    return [
        [record.tenant for record in records],
        [record.id for record in records],
        [record.version for record in records],
        [kind.encode(record) for record in records],
        *zip(*map(kind.values, records), strict=True),
    ]


def _updated(kind: Kind[Any], updates: Sequence[Update]) -> list[Column]:
    versions_before = [update.version_before for update in updates]
    return [*_columns(kind, [update.record for update in updates]), versions_before]


def _deleted(gone: Sequence[tuple[Key, int]]) -> list[Column]:
    return [[key.tenant for key, _ in gone], [key.id for key, _ in gone], [version for _, version in gone]]


def _casts(operation: Operation, kind: Kind[Any], types: ColumnTypes) -> tuple[str, ...]:
    if operation is Operation.DELETE:
        return ("text", "text", "bigint")
    columns = tuple(types[kind.table, column] for column in statements.columns(kind))
    return (*columns, "bigint") if operation is Operation.UPDATE else columns


@lru_cache(maxsize=2 * _WORDINGS_MAX)
def _write_sql(shape: tuple[tuple[Operation, Kind[Any], tuple[tuple[str, Form], ...]], ...]) -> str:
    parts = [f"b AS ({BATCH_INSERT})"]
    used = 2
    for n, (operation, kind, forms) in enumerate(shape):
        names = _NAMES[operation](kind)
        columns = [(name, *form) for name, form in zip(names, forms, strict=True)]
        parts.append(f"w{n} AS ({_WORDING[operation](kind, rows_of(columns, used))} RETURNING 1)")
        used += len(forms)
    counts = " + ".join(f"(SELECT count(*) FROM w{n})" for n in range(len(shape))) or "0"
    # One divided by none is an error, which keeps the COMMIT behind it from happening.
    return f"WITH {', '.join(parts)} SELECT 1 / ({counts} = $2::bigint)::int"


def _insert(kind: Kind[Any], rows: str) -> str:
    return f"INSERT INTO {kind.table} ({', '.join(statements.columns(kind))}) {rows}"


def _update(kind: Kind[Any], rows: str) -> str:
    sets = ", ".join(
        f"{name} = n.{name}" for name in statements.columns(kind) if name not in ("tenant", "id")
    )
    return (
        f"UPDATE {kind.table} r SET {sets} FROM ({rows}) AS n "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version_before"
    )


def _delete(kind: Kind[Any], rows: str) -> str:
    return (
        f"DELETE FROM {kind.table} r USING ({rows}) AS n "
        "WHERE r.tenant = n.tenant AND r.id = n.id AND r.version = n.version"
    )


_WORDING = {Operation.INSERT: _insert, Operation.UPDATE: _update, Operation.DELETE: _delete}
_NAMES: dict[Operation, Callable[[Kind[Any]], tuple[str, ...]]] = {
    Operation.INSERT: statements.columns,
    Operation.UPDATE: lambda kind: (*statements.columns(kind), "version_before"),
    Operation.DELETE: lambda _: ("tenant", "id", "version"),
}
