"""Every answer is one type: the one that the API fills is the one that the SDK and the command line read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from interlock.api.assembly import OPERATIONS
from interlock.api.openapi import as_sent
from interlock.api.operations import Media
from interlock.wire.jobs import Job

ANSWERS = [
    (f"{operation.id}-{status}", kind)
    for operation in OPERATIONS
    for status, kind in operation.answers.items()
    if not isinstance(kind, Media)
]


@pytest.mark.parametrize("kind", [kind for _, kind in ANSWERS], ids=[name for name, _ in ANSWERS])
def test_every_answer_is_a_type_that_travels(kind: Any) -> None:
    elsewhere = [each for each in _structs_in(kind) if not each.__module__.startswith("interlock.wire.")]
    assert elsewhere == []


def test_what_a_client_notes_on_an_answer_is_no_part_of_the_description() -> None:
    described = msgspec.json.schema_components([Job])[1]["Job"]
    assert "replayed" in described["properties"]
    assert "replayed" not in as_sent(described)["properties"]


def _structs_in(kind: Any, seen: set[Any] | None = None) -> Iterator[type]:
    """Every struct that a type is, or holds at any depth."""
    seen = set() if seen is None else seen
    origin = getattr(kind, "__origin__", kind)
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct) and origin not in seen:
        seen.add(origin)
        yield origin
        for field in msgspec.structs.fields(origin):
            yield from _structs_in(field.type, seen)
    for part in get_args(kind):
        yield from _structs_in(part, seen)
