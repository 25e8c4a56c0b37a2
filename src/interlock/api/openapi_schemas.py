"""The JSON schemas of what operations take and answer, as narrow as strict JSON is.

A type says `int` or `Any`, but the codec in front of it takes less: no number beyond ±(2^53-1), no U+0000. A
description that left this out would promise to accept what is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, cast

import msgspec

from interlock.api.openapi_answers import REF, AnyOperation, Json
from interlock.api.operations import Media
from interlock.codec.strict import INTEGER_MAX

NO_NUL = "^[^\\u0000]*$"
ANY_JSON = "AnyJson"

_REFERENCE: Json = {"$ref": REF.format(name=ANY_JSON)}
_NUMBERS: Json = {"minimum": -INTEGER_MAX, "maximum": INTEGER_MAX}
_DETERMINING = frozenset({"$ref", "type", "anyOf", "oneOf", "allOf", "enum", "const"})
_ANY: Json = {
    "title": ANY_JSON,
    "description": "Any JSON that every parser reads alike, nested 64 levels at most.",
    "anyOf": [
        {"type": ["null", "boolean"]},
        {"type": "number", **_NUMBERS},
        {"type": "string", "pattern": NO_NUL},
        {"type": "array", "items": _REFERENCE},
        {"type": "object", "propertyNames": {"pattern": NO_NUL}, "additionalProperties": _REFERENCE},
    ],
}


class Schemas:
    """The schemas of every type that an operation takes or answers."""

    def __init__(self, operations: Iterable[AnyOperation]) -> None:
        """Make them all at once, so that types with one name get names of their own."""
        bodies = {shape for each in operations if isinstance(shape := each.body, type)}
        answers = [kind for each in operations for kind in each.answers.values() if not _is_plain(kind)]
        self._queries = {each.query for each in operations if each.query is not None}
        kinds: list[Any] = [*bodies, *answers, *self._queries]
        spelled, components = msgspec.json.schema_components(kinds, ref_template=REF)
        self._spelled = list(zip(kinds, spelled, strict=True))
        self._components = {name: narrowed(schema) for name, schema in components.items()}

    def of(self, kind: Any) -> Json:
        """Return the schema of `kind`, by reference."""
        return next(schema for known, schema in self._spelled if known == kind)

    def fields(self, kind: Any) -> tuple[Mapping[str, Json], Sequence[str]]:
        """Return the schemas of a struct's fields, and the names of those required."""
        component = self._components[self._name(kind)]
        return component["properties"], component.get("required", ())

    def components(self) -> Mapping[str, Json]:
        """Return every schema that is referred to; a query's own is not, only those of its fields."""
        queries = {self._name(kind) for kind in self._queries}
        named = {name: schema for name, schema in sorted(self._components.items()) if name not in queries}
        return {ANY_JSON: _ANY, **named}

    def _name(self, kind: Any) -> str:
        return str(self.of(kind)["$ref"]).rpartition("/")[2]


def narrowed(schema: Json) -> Json:
    """Add what strict JSON refuses to a schema and to all that is inside it."""
    schema = {name: _narrowed_inside(name, value) for name, value in schema.items()}
    kind = schema.get("type")
    if _DETERMINING.isdisjoint(schema):
        return schema | _REFERENCE
    if kind in ("integer", "number"):
        return _NUMBERS | schema
    if kind == "string" and "format" not in schema and "enum" not in schema:
        return {"pattern": NO_NUL} | schema
    if kind == "array":
        return {"items": _REFERENCE} | schema
    if kind == "object" and "properties" not in schema:
        return {"propertyNames": {"pattern": NO_NUL}, "additionalProperties": _REFERENCE} | schema
    return schema


def _narrowed_inside(name: str, value: Any) -> Any:
    if name == "description":
        return cleandoc(value)  # a docstring's further lines are indented, which a reader takes for code
    if name == "properties":
        return {field: narrowed(schema) for field, schema in cast("dict[str, Json]", value).items()}
    if name in ("items", "additionalProperties") and isinstance(value, dict):
        return narrowed(cast("Json", value))
    if name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [narrowed(schema) for schema in cast("list[Json]", value)]
    return value


def _is_plain(kind: Any) -> bool:
    return kind is None or isinstance(kind, Media)
