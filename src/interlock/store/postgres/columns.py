"""How a column of values travels to PostgreSQL, and how a statement turns it into rows again.

A column that is the same in every row travels once. Others travel as one text with separators, which costs both sides
half of what an array costs; values that the separators occur in go as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, cast

from interlock.kernel.record import ColumnValue
from interlock.store.postgres.pipeline import Value

Column = Sequence[ColumnValue] | Sequence[bytes]

_APART: Final = "\x1f"
_NULL: Final = "\x1e"
_APART_BYTES: Final = _APART.encode()
_NULL_BYTES: Final = _NULL.encode()


class Form(StrEnum):
    """How a column of values travels: one value for all rows, one text with separators, or an array."""

    ONE = "one"
    TEXT = "text"
    ARRAY = "array"


def formed(values: Column, *, constant: bool) -> tuple[Form, Value]:
    """A column in the form that costs least: once if it is the same in every row, as one text, or as an array."""
    first = values[0]
    if isinstance(first, bytes):
        return _formed_bodies(cast("Sequence[bytes]", values), constant=constant)
    if constant and values.count(first) == len(values):
        return Form.ONE, None if first is None else str(first)
    text = _one_text(cast("Sequence[ColumnValue]", values))
    return (Form.ARRAY, array(cast("Sequence[ColumnValue]", values))) if text is None else (Form.TEXT, text)


def array(values: Iterable[ColumnValue]) -> str:
    """The values as PostgreSQL writes an array."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def rows_of(columns: Sequence[tuple[str, str, Form]], used: int) -> str:
    """A query that gives the rows of these columns, whose parameters come after `used` others."""
    numbered = [
        (name, _column(used + n, cast_to, form), form)
        for n, (name, cast_to, form) in enumerate(columns, start=1)
    ]
    selected = ", ".join(
        f"{said if form is Form.ONE else f'u.{name}'} AS {name}" for name, said, form in numbered
    )
    arrays = [(name, said) for name, said, form in numbered if form is not Form.ONE]
    if not arrays:
        return f"SELECT {selected}"
    unnested = ", ".join(said for _, said in arrays)
    return f"SELECT {selected} FROM unnest({unnested}) AS u({', '.join(name for name, _ in arrays)})"


def _formed_bodies(bodies: Sequence[bytes], *, constant: bool) -> tuple[Form, Value]:
    if constant and len(bodies) == 1:
        return Form.ONE, bodies[0]
    text = _APART_BYTES.join(bodies)
    # JSON has no such characters, unless somebody put a text there that is none.
    is_clear = text.count(_APART_BYTES) == len(bodies) - 1 and _NULL_BYTES not in text
    return (Form.TEXT, text) if is_clear else (Form.ARRAY, array([body.decode() for body in bodies]))


def _one_text(values: Sequence[ColumnValue]) -> str | None:
    """The values with separators between them; None if they could not be taken apart again."""
    nulls = 0
    try:
        text = _APART.join(cast("Sequence[str]", values))
    except TypeError:
        nulls = values.count(None)
        text = _APART.join([_NULL if value is None else str(value) for value in values])
    # The empty text would come back as no element at all.
    is_clear = text and text.count(_APART) == len(values) - 1 and text.count(_NULL) == nulls
    return text if is_clear else None


def _element(value: ColumnValue) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _column(number: int, cast_to: str, form: Form) -> str:
    """How a statement says the column in one of its parameters, as an array or, if it is constant, as a value."""
    match form:
        case Form.ONE:
            return f"${number}::{cast_to}"
        case Form.TEXT:
            return f"string_to_array(${number}, E'\\x1f', E'\\x1e')::{cast_to}[]"
        case Form.ARRAY:
            return f"${number}::{cast_to}[]"
