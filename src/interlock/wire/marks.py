"""Marks on the fields of an answer: one type serves the server that fills it and the client that reads it.

A client must outlive the server it was written against: unknown fields are ignored, most known ones may be missing,
and states are strings. So nearly every field has a default here, though the server sends nearly every one. A
field without a mark is always sent. The marks below are read by `api/openapi.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

SOMETIMES = "x-interlock-sometimes"
NEVER_NULL = "x-interlock-never-null"
LOCAL = "x-interlock-local"

# In some answers only; the server leaves it out with `OMITTED`.
Sometimes: TypeAlias = Annotated[T, msgspec.Meta(extra_json_schema={SOMETIMES: True})]
# Always sent and never null: None is what a client reads from a server that does not know the field.
Given: TypeAlias = Annotated[T | None, msgspec.Meta(extra_json_schema={NEVER_NULL: True})]
# Never sent: the client notes it on the answer that it read.
Local: TypeAlias = Annotated[T, msgspec.Meta(extra_json_schema={LOCAL: True})]

# Leaves a field out of this answer, whatever its type; its reader gets the field's default.
OMITTED: Any = msgspec.UNSET
