"""The input of expressions: checked, measured, and in the form that CEL reads correctly.

Whole numbers become integers however JSON wrote them, so that `10000.0` and `10000`, which are one number with one
hash, also have one meaning. Values that the CEL library would misread are refused (see `expressions`).
"""

from __future__ import annotations

from typing import NamedTuple, cast

from interlock.kernel.codec.strict import DEPTH_MAX, INTEGER_MAX

UNIT = 64  # how much a value weighs beside its text


class Extent(NamedTuple):
    """How large a value can be: units in all, bytes of its longest text, members of its widest collection."""

    total: int = UNIT
    text: int = 0
    width: int = 0


class Unanswered(Exception):
    """An expression gave neither true nor false; the text says why and what to do. `field` is what it stumbled over."""

    def __init__(self, why: str, field: str | None = None) -> None:
        """Say why, and name the field if it is known."""
        super().__init__(why)
        self.field = field


class TooDear(Unanswered):
    """It could take more time, or took more memory, than there is for one evaluation."""


def checked(value: object) -> tuple[object, Extent]:
    """The value in a form that CEL reads rightly, and its extent; raise `Unanswered` if there is none."""
    extent, is_ready = _measured(value)
    return (value if is_ready else _with_whole_numbers(value)), extent


def extent_of(value: object) -> Extent:
    """The extent of a value."""
    return _measured(value)[0]


def widest(extents: list[Extent]) -> Extent:
    """An extent that none of these exceeds."""
    return Extent(*(max(sizes) for sizes in zip(*extents, strict=True))) if extents else Extent()


def _measured(value: object) -> tuple[Extent, bool]:
    """The extent of a value, and whether CEL would read it rightly as it is. Level by level: it is fast."""
    texts: list[str] = []
    count = depth = width = 0
    is_ready = True
    level = [value]
    while level:
        below: list[object] = []
        for item in level:
            kind = type(item)
            if kind is dict or kind is list:
                width = max(width, len(cast("list[object]", item)))
                below.extend(
                    cast("dict[str, object]", item).values() if kind is dict else cast("list[object]", item)
                )
                texts.extend(cast("dict[str, object]", item) if kind is dict else ())
            elif kind is str:
                texts.append(cast("str", item))
            elif kind is float:
                is_ready = is_ready and not cast("float", item).is_integer()
            elif kind not in _READY:
                raise Unanswered(f"the job holds a {kind.__name__}, which is not JSON")
        count, depth, level = count + len(level), depth + 1, below
        if depth > DEPTH_MAX + 2:
            raise Unanswered(f"the job is nested deeper than {DEPTH_MAX} levels")
    bytes_each = _bytes_of_a_character(texts)
    lengths = [len(text) * bytes_each for text in texts]
    return Extent((count + len(texts)) * UNIT + sum(lengths), max(lengths, default=0), width), is_ready


_READY = frozenset({int, bool, type(None)})


def _bytes_of_a_character(texts: list[str]) -> int:
    """At most how many bytes a character of these takes; raise `Unanswered` if CEL would misread one."""
    try:
        joined = "".join(texts)
        is_ascii = joined.isascii()
        if not is_ascii:
            joined.encode()
    except TypeError:
        raise Unanswered("the job has a field name that is not text") from None
    except UnicodeEncodeError:
        raise Unanswered("the job holds half of a surrogate pair, which is not a character") from None
    if "\0" in joined:
        raise Unanswered("the job holds a text with U+0000, which expressions cannot read")
    return 1 if is_ascii else 4


def _with_whole_numbers(value: object) -> object:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {name: _with_whole_numbers(item) for name, item in fields.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in cast("list[object]", value)]
    if isinstance(value, float) and value.is_integer() and -INTEGER_MAX <= value <= INTEGER_MAX:
        return int(value)
    return value
