"""One page of a list."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; pass `next_cursor` as `cursor` for the next. It is null on the last."""

    items: tuple[T, ...]
    next_cursor: str | None = None
