"""Explains why a value does not match its declared type: where, why, and the likely typing mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import inspect

from interlock.kernel.codec.strict import FAULTS_MAX, JsonFault, pointer

# How the reason begins if a text has characters that it must not have.
MISSPELT = "is not valid"

_LOCATION = re.compile(r" - at (`key` in )?`\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(.*)`$", re.DOTALL)
_SHOWN_MAX = 100
_NO_CHOICE = re.compile(r"^Invalid enum value (.*)$", re.DOTALL)
_NO_MATCH = re.compile(r"^Expected `str` matching regex ")
_OF_SIGNS = re.compile(
    r"\^\[(?P<without>\^?)(?P<signs>(?:\\.|[^\]\\])+)\](?:[*+]|\{[0-9,]+\})\$(?:\(\?!\\n\))?"
)
_ALPHANUMERIC = "A-Za-z0-9"
_EMPTY = re.compile(r"^Expected `(?:str|array|object)` of length >= 1$")


def shape_faults(message: str, document: object, shape: type[Any]) -> tuple[JsonFault, ...]:
    """Read msgspec's first complaint, and add every unknown and missing field of the outermost object."""
    complaint = _read(message)
    # Only as many as are reported: suggesting a name is slow, and a body may have 80,000 unknown ones.
    found = tuple(islice(_faults(complaint, document, shape, ()), FAULTS_MAX)) or (_fault(complaint, shape),)
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else None
    others = () if fields is None else _field_faults(fields, shape)
    return (*found, *islice((fault for fault in others if fault not in found), FAULTS_MAX - len(found)))


_Steps: TypeAlias = tuple[str | int | None, ...]  # names, indices, and None for some entry or other


class _Complaint(NamedTuple):
    """msgspec's message, and the place that it names. The place does not say which entry of an object it is."""

    what: str
    steps: _Steps
    is_key: bool  # that of some entry of the object at `steps`


def _read(message: str) -> _Complaint:
    location = _LOCATION.search(message)
    if location is None:
        return _Complaint(message, (), is_key=False)
    steps = tuple(
        name or (None if index == "..." else int(index)) for name, index in _STEP.findall(location[2])
    )
    return _Complaint(message[: location.start()], steps, is_key=bool(location[1]))


def _faults(complaint: _Complaint, value: Any, shape: type[Any], at: _Steps) -> Iterator[JsonFault]:
    """Every fault at the place of `complaint`, each with its own path; `value` is what stands at the steps `at`."""
    rest = complaint.steps[len(at) :]
    if None not in rest and not complaint.is_key:
        yield _fault(complaint._replace(steps=at + rest), shape)
        return
    before = rest[: rest.index(None)] if None in rest else rest
    at += before
    for key, entry in _entries(value, before).items():
        alone = _complaint_of(shape, at, {key: entry})
        if alone is None:
            continue
        if alone.is_key and len(alone.steps) == len(at):
            yield _fault(alone._replace(steps=at), shape, key)
        elif alone.steps[len(at) : len(at) + 1] == (None,):
            yield from _faults(alone, entry, shape, (*at, key))


def _entries(value: Any, steps: _Steps) -> dict[str, Any]:
    """The object at `steps` inside `value`; an empty one if `steps` lead to no object."""
    for step in steps:
        if isinstance(value, dict):
            value = cast("dict[object, Any]", value).get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = next(islice(cast("list[Any]", value), step, None), None)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _complaint_of(shape: type[Any], at: _Steps, value: object) -> _Complaint | None:
    """The errors of `value` by itself; missing fields come last."""
    for step in reversed(at):
        value = [value] if isinstance(step, int) else {step: value}
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        return _read(str(error))
    return None


def _fault(complaint: _Complaint, shape: type[Any], *key: str) -> JsonFault:
    message, steps, is_key = complaint
    path = pointer(*("*" if step is None else step for step in (*steps, *key)))
    if unknown := _UNKNOWN.match(message):
        return JsonFault(path + pointer(unknown[1]), _unknown_reason(unknown[1], _names_at(shape, steps)))
    if missing := _MISSING.match(message):
        return JsonFault(path + pointer(missing[1]), "is required")
    if (other := _NO_CHOICE.match(message)) and (choices := _choices_at(shape, steps)):
        return JsonFault(path, f"{other[1][:_SHOWN_MAX]} is not possible here; use {' or '.join(choices)}")
    reason = _readable(message)
    if _NO_MATCH.match(message) and (spelling := _spelling_at(shape, steps, is_key=is_key)):
        reason = f"{MISSPELT}; write {spelling}"
    return JsonFault(path, f"a key: {reason}" if is_key else reason)


def _readable(message: str) -> str:
    if _EMPTY.match(message):
        return "must not be empty"
    return (message[:1].lower() + message[1:]).replace("`", "")


def _field_faults(document: Mapping[str, object], shape: type[Any]) -> Iterable[JsonFault]:
    fields = msgspec.structs.fields(shape)
    names = [field.encode_name for field in fields]
    for name in document:
        if name not in names:
            yield JsonFault(pointer(name), _unknown_reason(name, names))
    for field in fields:
        if field.required and field.encode_name not in document:
            yield JsonFault(pointer(field.encode_name), "is required")


def _unknown_reason(name: str, known: list[str]) -> str:
    import difflib  # only a refusal needs it

    if nearest := difflib.get_close_matches(name[:100], known, n=1):
        return f"unknown field; did you mean {nearest[0]!r}?"
    return f"unknown field; known are {', '.join(known)}" if known else "unknown field; none is expected"


def _names_at(shape: type[Any], steps: _Steps) -> list[str]:
    """List the fields of the structs that may stand at `steps` inside `shape`."""
    structs = [kind for kind in _types_at(shape, steps) if isinstance(kind, inspect.StructType)]
    return [field.encode_name for kind in structs for field in kind.fields]


def _choices_at(shape: type[Any], steps: _Steps) -> list[str]:
    """List the words that may stand at `steps` inside `shape`."""
    found: list[str] = []
    for kind in _types_at(shape, steps):
        if isinstance(kind, inspect.EnumType):
            found += [str(member.value) for member in kind.cls]
        elif isinstance(kind, inspect.LiteralType):
            found += map(str, kind.values)
    return found


def _spelling_at(shape: type[Any], steps: _Steps, *, is_key: bool) -> str | None:
    """Say in words how the text at `steps` inside `shape` is written: a pattern is hard to read."""
    kinds = _types_at(shape, steps)
    if is_key:
        kinds = [kind.key_type for kind in kinds if isinstance(kind, inspect.DictType)]
    return next((words for kind in kinds if (words := _spelling(kind))), None)


def _spelling(kind: Any) -> str | None:
    described: dict[str, str] = {}
    if isinstance(kind, inspect.Metadata):
        described, kind = cast("dict[str, str]", kind.extra_json_schema or {}), kind.type
    if not isinstance(kind, inspect.StrType) or kind.pattern is None:
        return None
    if about := described.get("description"):
        return about[:1].lower() + about[1:].rstrip(".")
    made_of = _OF_SIGNS.fullmatch(kind.pattern)
    return _signs(made_of["signs"], is_without=bool(made_of["without"])) if made_of else None


def _signs(signs: str, *, is_without: bool) -> str | None:
    if is_without:
        what = "one line" if signs.startswith(r"\u0000-\u001f") else "text"
        return f"{what} without control characters"
    if not signs.startswith(_ALPHANUMERIC):
        return None
    others = signs.removeprefix(_ALPHANUMERIC).replace("\\", "")
    return f"letters, digits and {' '.join(others)} only"


def _types_at(shape: type[Any], steps: _Steps) -> list[Any]:
    types: list[inspect.Type] = [inspect.type_info(shape)]
    for step in steps:
        types = [inner for outer in types for inner in _inside(outer, step)]
    return [kind for outer in types for kind in _alternatives(outer)]


def _alternatives(kind: Any) -> list[Any]:
    return list(kind.types) if isinstance(kind, inspect.UnionType) else [kind]


def _inside(outer: Any, step: str | int | None) -> Iterable[Any]:
    for kind in _alternatives(outer):
        if isinstance(kind, inspect.StructType):
            yield from (field.type for field in kind.fields if field.encode_name == step)
        elif isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
            yield kind.item_type
        elif isinstance(kind, inspect.DictType):
            yield kind.value_type
