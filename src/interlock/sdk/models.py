"""What the service answers with, as types.

Unknown fields are ignored and most known ones may be missing, so that a client outlives the server it
was written against. States stay strings for the same reason.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

WAITING = frozenset({"APPROVAL"})
UNFINISHED = frozenset({"APPROVAL", "PENDING", "RUNNING"})


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a listing, newest first; pass `next_cursor` as `cursor` for the next."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said of a job."""

    decision: str
    rule: str | None = None
    reason: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a job would change."""

    key: str
    version: str | int | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Something for the reviewer to look at: text, or a link."""

    title: str
    kind: str
    content: str | None = None
    url: str | None = None
