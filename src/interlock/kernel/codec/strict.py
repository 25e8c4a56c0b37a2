"""Parses JSON that every parser reads the same way, and refuses the rest with a place and a reason.

A value that `parse` returns survives any other JSON library, either database, and its own canonical form, type by
type. So it refuses not only wrong grammar (RFC 8259) but everything that parsers disagree about:

- duplicate keys at any depth, `NaN` and infinities, a byte order mark, bytes that are not UTF-8;
- whole numbers outside ±(2^53-1), however they are written (`9007199254740993`, `1e20`): JavaScript rounds
  them, and canonical JSON would write `1e20` as an integer that no strict reader takes back;
- fractions that a double would change (`0.1` is kept, `0.10000000000000000001` is not);
- lone surrogates, and U+0000, which PostgreSQL cannot store;
- nesting deeper than 64, found before anything recurses.

Each number has one value: `1.0`, `1e0` and `1` are the integer 1, and a minus before zero is dropped. Otherwise, two
requests with the same hash could mean different things to a policy that tells integers from doubles.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

DEPTH_MAX = 64
INTEGER_MAX = 2**53 - 1
FAULTS_MAX = 20  # a refusal lists only the first ones


class JsonFault(NamedTuple):
    """One reason for refusing: `path` is a JSON pointer into the body (empty: the body as a whole)."""

    path: str
    reason: str


class JsonRefused(ValueError):
    """The bytes are not JSON that can be read in exactly one way."""

    def __init__(self, *faults: JsonFault) -> None:
        """Carry at least one fault, in the order of the text."""
        super().__init__("; ".join(f"{fault.path or '(body)'}: {fault.reason}" for fault in faults))
        self.faults = faults


def parse(body: bytes, *, depth_max: int = DEPTH_MAX) -> JsonValue:
    """Read `body` as JSON, or raise `JsonRefused` with the path and reason of each fault."""
    text = _decoded(body)
    _check_depth(body, depth_max)
    try:
        value = cast("JsonValue", _FAST.decode(text))
    except _Suspect:
        raise JsonRefused(*_faults(text)) from None
    except json.JSONDecodeError as error:
        raise JsonRefused(_malformed(error)) from None
    if _SUSPECT_ESCAPE.search(body) and (faults := _first(_strings_refused("", value))):
        raise JsonRefused(*faults)
    return value


def pointer(*steps: str | int) -> str:
    """Spell the JSON pointer (RFC 6901) that leads through `steps`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _decoded(body: bytes) -> str:
    if body.startswith(b"\xef\xbb\xbf"):
        raise JsonRefused(JsonFault("", "starts with a byte order mark; send plain UTF-8"))
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise JsonRefused(JsonFault("", f"not UTF-8 at byte {error.start}")) from None


# Brackets inside strings do not nest. The closing quote is optional so that an unterminated string is one
# match: otherwise each quote after it would be tried in turn, up to the end of the body.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = frozenset(b"[{")


def _check_depth(body: bytes, depth_max: int) -> None:
    # Most bodies have fewer brackets than levels allowed, so two counts settle it.
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return
    depth = 0
    for bracket in _STRING.sub(b"", body).translate(None, _NO_BRACKET):
        depth += 1 if bracket in _OPENING else -1
        if depth > depth_max:
            raise JsonRefused(JsonFault("", f"nested deeper than {depth_max} levels"))


class _Suspect(Exception):
    """Something is wrong with the value just read; the second, slower reading says what and where."""


class _Marked:
    """Stands in the place of a value that is refused, so that a walk over the result finds its path."""

    def __init__(self, reason: str, pairs: Iterable[tuple[str, object]] = ()) -> None:
        self.reason = reason
        self.pairs = pairs


def _integer(text: str) -> int:
    # 17 characters hold a sign and every digit of 2^53; longer ones need not be converted to be refused.
    if len(text) > 17 or not -INTEGER_MAX <= (number := int(text)) <= INTEGER_MAX:
        raise _Suspect(f"whole number outside ±{INTEGER_MAX} (2^53-1); write it as a string")
    return number


def _fraction(text: str) -> int | float:
    number = float(text)
    # Up to 15 digits always survive a double; only longer spellings and exponents need the exact comparison.
    if (len(text) > 16 or "e" in text or "E" in text) and not _survives(text, number):
        raise _Suspect("a double cannot hold this number exactly; use fewer digits or write it as a string")
    if not number.is_integer():
        return number
    if not -INTEGER_MAX <= number <= INTEGER_MAX:
        raise _Suspect(f"whole number outside ±{INTEGER_MAX} (2^53-1); write it as a string")
    return int(number)


def _survives(text: str, number: float) -> bool:
    shortest = repr(number)
    try:
        return isfinite(number) and (shortest == text or Decimal(text) == Decimal(shortest))
    except InvalidOperation:  # an exponent beyond what even Decimal holds
        return False


def _constant(text: str) -> None:
    raise _Suspect(f"{text} is not JSON; write null or a string")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _Suspect
    return fields


_FAST = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_int=_integer, parse_constant=_constant
)
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")


def _faults(text: str) -> tuple[JsonFault, ...]:
    try:
        marked = _Marking().read(text)
    except json.JSONDecodeError as error:
        return (_malformed(error),)
    return _first(_marks("", marked))


def _first(found: Iterator[JsonFault]) -> tuple[JsonFault, ...]:
    return tuple(fault for fault, _ in zip(found, range(FAULTS_MAX), strict=False))


def _malformed(error: json.JSONDecodeError) -> JsonFault:
    problem = error.msg.removesuffix(" at").lower()
    return JsonFault("", f"not JSON: {problem} (line {error.lineno}, column {error.colno})")


def _object_or_mark(pairs: list[tuple[str, object]]) -> object:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Marked(f"duplicate key {key!r}; each key may appear once", pairs)
        seen.add(key)
    return dict(pairs)


class _Marking:
    """The slower reading. It marks as many values as a refusal lists, and then only looks at the grammar."""

    def __init__(self) -> None:
        self._left = FAULTS_MAX

    def read(self, text: str) -> object:
        decoder = json.JSONDecoder(
            object_pairs_hook=_object_or_mark,
            parse_float=self._or_mark(_fraction),
            parse_int=self._or_mark(_integer),
            parse_constant=self._or_mark(_constant),
        )
        return cast("object", decoder.decode(text))

    def _or_mark(self, read: Callable[[str], object]) -> Callable[[str], object]:
        def read_or_mark(text: str) -> object:
            if not self._left:
                return None
            try:
                return read(text)
            except _Suspect as suspect:
                self._left -= 1
                return _Marked(str(suspect))

        return read_or_mark


_MAY_HOLD_A_MARK: frozenset[type] = frozenset({dict, list, _Marked})
_MAY_HOLD_TEXT: frozenset[type] = frozenset({dict, list, str})


def _marks(path: str, value: object) -> Iterator[JsonFault]:
    if isinstance(value, _Marked):
        yield JsonFault(path, value.reason)
    for step, item in _children(value):
        if type(item) in _MAY_HOLD_A_MARK:
            yield from _marks(path + pointer(step), item)


def _strings_refused(path: str, value: object) -> Iterator[JsonFault]:
    if isinstance(value, str) and (reason := _string_refused(value)):
        yield JsonFault(path, reason)
    for step, item in _children(value):
        if isinstance(step, str) and (reason := _string_refused(step)):
            yield JsonFault(path, f"key {step.encode(errors='backslashreplace').decode()!r} {reason}")
        elif type(item) in _MAY_HOLD_TEXT:
            yield from _strings_refused(path + pointer(step), item)


def _string_refused(text: str) -> str | None:
    if "\0" in text:
        return "contains the character U+0000, which cannot be stored"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not a character"
    return None


def _children(value: object) -> Iterable[tuple[str | int, object]]:
    if isinstance(value, _Marked):
        return value.pairs
    if isinstance(value, dict):
        return cast("dict[str | int, object]", value).items()
    if isinstance(value, list):
        return enumerate(cast("list[object]", value))
    return ()
