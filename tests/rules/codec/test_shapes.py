"""What does not fit a type is refused with what would."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec
import pytest

from interlock.codec.shapes import shape_faults


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct):
    size: Literal["s", "m"]


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
