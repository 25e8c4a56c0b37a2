"""What expressions are asked about: checked, measured, and in the form in which CEL reads it rightly.

Whole numbers become integers however JSON spelled them, so that `10000.0` and `10000`, which are one number
and have one hash, also have one meaning. What the CEL library would misread is refused (see `expressions`).
"""

from __future__ import annotations

from typing import NamedTuple, cast

from interlock.codec.strict import DEPTH_MAX, INTEGER_MAX

UNIT = 64  # how much a value weighs beside its text


class Extent(NamedTuple):
    """How large a value can be: units in all, bytes of its longest text, members of its widest collection."""

    total: int = UNIT
    text: int = 0
    width: int = 0


class Unanswered(Exception):
    """An expression gave neither true nor false; the text says why and what to do."""


def checked(value: object) -> tuple[object, Extent]:
    """A copy that CEL reads rightly, and its extent; raise `Unanswered` if there is none."""
    measure = _Measure()
    copy = measure.take(value, 0)
    return copy, Extent(measure.total, measure.text, measure.width)


def extent_of(value: object) -> Extent:
    """The extent of a value that was checked."""
    return checked(value)[1]


def widest(extents: list[Extent]) -> Extent:
    """An extent that none of these exceeds."""
    return Extent(*(max(sizes) for sizes in zip(*extents, strict=True))) if extents else Extent()


class _Measure:
    """Copies a value and adds up its extent on the way."""

    def __init__(self) -> None:
        self.total = self.text = self.width = 0

    def take(self, value: object, depth: int) -> object:
        self.total += UNIT
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, float):
            return int(value) if value.is_integer() and -INTEGER_MAX <= value <= INTEGER_MAX else value
        if value is None or isinstance(value, bool | int):
            return value
        return self._members(value, depth)

    def _members(self, value: object, depth: int) -> object:
        if depth > DEPTH_MAX + 1:
            raise Unanswered(f"the job is nested deeper than {DEPTH_MAX} levels")
        if isinstance(value, dict):
            fields = cast("dict[object, object]", value)
            self.width = max(self.width, len(fields))
            return {self._name(name): self.take(item, depth + 1) for name, item in fields.items()}
        if isinstance(value, list | tuple):
            items = cast("list[object]", value)
            self.width = max(self.width, len(items))
            return [self.take(item, depth + 1) for item in items]
        raise Unanswered(f"the job holds a {type(value).__name__}, which is not JSON")

    def _name(self, name: object) -> str:
        if not isinstance(name, str):
            raise Unanswered("the job has a field name that is not text")
        self.total += UNIT
        return self._text(name)

    def _text(self, text: str) -> str:
        length = len(text) if text.isascii() else 4 * len(text)
        self.total += length
        self.text = max(self.text, length)
        if "\0" in text:
            raise Unanswered("the job holds a text with U+0000, which expressions cannot read")
        if not text.isascii():
            _require_characters(text)
        return text


def _require_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unanswered("the job holds half of a surrogate pair, which is not a character") from None
