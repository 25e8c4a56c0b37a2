"""Paging of lists by cursor, newest first: the parameters and the answer of every list."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from interlock.api.operations import Query
from interlock.api.problem import ProblemError, invalid
from interlock.kernel.codec.strict import JsonFault

_REST_OF_ID = re.compile(r"_[0-9a-f]{32}")

LIMIT_DEFAULT = 50
LIMIT_MAX = 200


class PageQuery(Query, frozen=True, kw_only=True):
    """The query of a list; a room adds its filters in a subclass."""

    limit: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=LIMIT_MAX,
            description=f"How many items at most; {LIMIT_MAX} at most, and fewer where they are large.",
        ),
    ] = LIMIT_DEFAULT
    cursor: (
        Annotated[
            str,
            msgspec.Meta(
                min_length=1, max_length=512, description="Where to go on: `next_cursor` of the page before."
            ),
        ]
        | None
    ) = None


def id_cursor(cursor: str | None, prefix: str) -> str | None:
    """A cursor that is an id with this prefix, as lists of our own records use; None starts at the newest."""
    if cursor is not None and not (cursor.startswith(prefix) and _REST_OF_ID.fullmatch(cursor, len(prefix))):
        raise _strange_cursor()
    return cursor


def position(cursor: str | None) -> int | None:
    """A cursor that is a number, as lists in order of writing use; None starts at the newest."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise _strange_cursor()
    return int(cursor)


def moment_and_id(cursor: str | None) -> tuple[int, str] | None:
    """A cursor that is a moment and an id, as lists by time use whose ids do not tell it; None starts at the newest."""
    if cursor is None:
        return None
    moment, _, record_id = cursor.partition("-")
    found = position(moment)
    if found is None or not record_id:
        raise _strange_cursor()
    return found, record_id


def _strange_cursor() -> ProblemError:
    return invalid(JsonFault("query/cursor", "is not one that this list returned; start without a cursor"))
