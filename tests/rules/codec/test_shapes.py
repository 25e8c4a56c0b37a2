"""What does not fit a type is refused with what would."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from interlock.codec.durations import DurationText
from interlock.codec.shapes import shape_faults


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct):
    size: Literal["s", "m"]


Line = Annotated[str, msgspec.Meta(pattern=r"^[^\u0000-\u001f\u007f]*$(?!\n)")]
Prose = Annotated[str, msgspec.Meta(pattern=r"^[^\u0000-\u0008\u007f]*$")]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:\-]{1,20}$(?!\n)")]
Odd = Annotated[str, msgspec.Meta(pattern=r"^(a|b)+$")]


class Spelled(msgspec.Struct):
    line: Line | None = None
    prose: Prose = ""
    names: dict[Name, list[Name]] = {}
    lasts: DurationText | None = None
    odd: Odd = ""


class Thing(msgspec.Struct):
    colour: Colour | None = None
    parts: list[Part] = []
    by_name: dict[str, Colour] = {}


@pytest.mark.parametrize(
    ("document", "path", "reason"),
    [
        ({"colour": "green"}, "/colour", "'green' is not possible here; use red or blue"),
        ({"colour": ""}, "/colour", "'' is not possible here; use red or blue"),
        ({"parts": [{"size": "s"}, {"size": "l"}]}, "/parts/1/size", "'l' is not possible here; use m or s"),
        ({"by_name": {"a": "x"}}, "/by_name/*", "'x' is not possible here; use red or blue"),
    ],
)
def test_a_word_that_is_none_of_the_choices_is_refused_with_them(
    document: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(document, Thing)

    (fault,) = shape_faults(str(refused.value), document, Thing)

    assert (fault.path, fault.reason) == (path, reason)


def test_a_long_word_is_not_repeated_in_full() -> None:
    document = {"colour": "x" * 10_000}
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(document, Thing)

    (fault,) = shape_faults(str(refused.value), document, Thing)

    assert len(fault.reason) < 200


SIGNS = "cannot be spelled so; write letters, digits and _ . : - only"


@pytest.mark.parametrize(
    ("document", "path", "reason"),
    [
        ({"line": "a\nb"}, "/line", "cannot be spelled so; write one line without control characters"),
        ({"prose": "a\x7f"}, "/prose", "cannot be spelled so; write text without control characters"),
        ({"names": {"a": ["b", "c d"]}}, "/names/*/1", SIGNS),
        ({"names": {"a b": []}}, "/names", f"a key: {SIGNS}"),
        ({"lasts": "1.5h"}, "/lasts", "cannot be spelled so; write a duration such as 30s, 15m, 4h or 7d"),
        ({"odd": "c"}, "/odd", "expected str matching regex '^(a|b)+$'"),
    ],
)
def test_a_text_with_the_wrong_signs_is_refused_with_the_right_ones(
    document: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(document, Spelled)

    (fault,) = shape_faults(str(refused.value), document, Spelled)

    assert (fault.path, fault.reason) == (path, reason)
