"""What does not fit a type is refused with what would."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from interlock.kernel.codec.shapes import shape_faults
from interlock.kernel.codec.strict import FAULTS_MAX
from interlock.wire.fields import DurationText


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
        ({"by_name": {"a": "x"}}, "/by_name/a", "'x' is not possible here; use red or blue"),
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


SIGNS = "is not valid; write letters, digits and _ . : - only"


@pytest.mark.parametrize(
    ("document", "path", "reason"),
    [
        ({"line": "a\nb"}, "/line", "is not valid; write one line without control characters"),
        ({"prose": "a\x7f"}, "/prose", "is not valid; write text without control characters"),
        ({"names": {"a": ["b", "c d"]}}, "/names/a/1", SIGNS),
        ({"names": {"a b": []}}, "/names/a b", f"a key: {SIGNS}"),
        ({"lasts": "1.5h"}, "/lasts", "is not valid; write a duration such as 30s, 15m, 4h or 7d"),
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


class Shelf(msgspec.Struct, kw_only=True):
    rooms: list[Boxes]


class Boxes(msgspec.Struct, kw_only=True):
    owner: str
    boxes: dict[Name, dict[Name, list[int]]] = {}
    notes: dict[str, int] | None = None


def faults_in(document: dict[str, Any], shape: type[Any]) -> dict[str, str]:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(document, shape)
    return {fault.path: fault.reason for fault in shape_faults(str(refused.value), document, shape)}


def test_every_wrong_entry_of_an_object_is_named() -> None:
    document = {"by_name": {"good": "red", "bad": 1, "worse": "green"}}
    assert faults_in(document, Thing) == {
        "/by_name/bad": "expected str, got int",
        "/by_name/worse": "'green' is not possible here; use red or blue",
    }


def test_an_entry_of_an_object_inside_others_is_named_with_all_of_them() -> None:
    boxes = {"0": {"a": [1], "1": [1, "x"]}, "b": {"c d": []}}
    assert faults_in({"rooms": [{"owner": "o"}, {"boxes": boxes}]}, Shelf) == {
        "/rooms/1/boxes/0/1/1": "expected int, got str",
        "/rooms/1/boxes/b/c d": f"a key: {SIGNS}",
    }


def test_an_entry_is_named_as_a_pointer_spells_it() -> None:
    document = {"rooms": [{"owner": "o", "notes": {"a/b~c": "x", "*": "y"}}]}
    assert list(faults_in(document, Shelf)) == ["/rooms/0/notes/a~1b~0c", "/rooms/0/notes/*"]


def test_of_many_wrong_entries_so_many_are_named_as_of_other_faults() -> None:
    found = faults_in({"by_name": {str(n): "green" for n in range(50_000)}}, Thing)
    assert list(found) == [f"/by_name/{n}" for n in range(FAULTS_MAX)]


@pytest.mark.parametrize("name", ["a` - at `$.b[...]", "a` - at `$[7]", "a` - at `$.parts[9][...]", "$[...]"])
def test_an_unknown_field_that_is_called_like_a_place_is_refused_all_the_same(name: str) -> None:
    class Strict(Thing, forbid_unknown_fields=True):
        pass

    assert f"/{name}" in faults_in({"parts": [], name: 1}, Strict)
