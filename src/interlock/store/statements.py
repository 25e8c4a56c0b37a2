"""SQL that is the same for every kind, made from its table and columns, never from callers' input."""

from __future__ import annotations

from functools import cache
from typing import Any

from interlock.kernel.record import Kind


def columns(kind: Kind[Any]) -> tuple[str, ...]:
    """The columns of a kind's table, in the order in which `kind.row` gives their values."""
    return ("tenant", "id", "version", "body", *kind.columns)


@cache
def select_one(kind: Kind[Any]) -> str:
    return f"SELECT body FROM {kind.table} WHERE tenant = ? AND id = ?"


@cache
def insert_one(kind: Kind[Any]) -> str:
    names = columns(kind)
    return f"INSERT INTO {kind.table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


@cache
def update_one(kind: Kind[Any]) -> str:
    """Takes the row, then the version that it must still have."""
    names = columns(kind)
    sets = ", ".join(
        f"{name} = ?{n}" for n, name in enumerate(names, start=1) if name not in ("tenant", "id")
    )
    return f"UPDATE {kind.table} SET {sets} WHERE tenant = ?1 AND id = ?2 AND version = ?{len(names) + 1}"


@cache
def update_some(kind: Kind[Any], changed: tuple[str, ...]) -> str:
    """Takes tenant, id, version and body, the changed columns, then the version that the row must still have.

    An index is written again if any of its columns is set, even to what it was.
    """
    names = ("version", "body", *changed)
    sets = ", ".join(f"{name} = ?{n}" for n, name in enumerate(names, start=3))
    return f"UPDATE {kind.table} SET {sets} WHERE tenant = ?1 AND id = ?2 AND version = ?{len(names) + 3}"


@cache
def delete_one(kind: Kind[Any]) -> str:
    return f"DELETE FROM {kind.table} WHERE tenant = ? AND id = ? AND version = ?"
