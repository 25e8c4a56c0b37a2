"""What wire types are made of: the base of request bodies, one page of a list, shared fields, and marks on answers.

One type serves the server that fills it and the client that reads it. A client must outlive the server it was written
against: unknown fields are ignored, most known ones may be missing, and states are strings. So nearly every field of
an answer has a default, though the server sends nearly every one. A field without a mark is always sent.
`api/openapi.py` reads the marks.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of request bodies: an unknown field is refused, since a misspelt one must not be ignored."""


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; pass `next_cursor` as `cursor` for the next. It is null on the last."""

    items: tuple[T, ...]
    next_cursor: str | None = None


SOMETIMES = "x-interlock-sometimes"
NEVER_NULL = "x-interlock-never-null"
LOCAL = "x-interlock-local"

# In some answers only; the server leaves it out with `OMITTED`.
Sometimes: TypeAlias = Annotated[T, msgspec.Meta(extra_json_schema={SOMETIMES: True})]
# Always sent and never null: None is what a client reads from a server that does not know the field.
Given: TypeAlias = Annotated[T | None, msgspec.Meta(extra_json_schema={NEVER_NULL: True})]
# Never sent: the client notes it on the answer that it read.
Local: TypeAlias = Annotated[T, msgspec.Meta(extra_json_schema={LOCAL: True})]

# Leaves a field out of this answer, whatever its type; its reader gets the field's default.
OMITTED: Any = msgspec.UNSET

# Any JSON value. One in a large body arrives as its canonical text (`msgspec.Raw`), which `canonical` takes as it is.
SPELLED = {"spelled": True}
Spelled = Annotated[Any, msgspec.Meta(extra=SPELLED)]

# `$` alone would let a line break at the end through.
LINE = r"^[^\u0000-\u001f\u007f]*$(?!\n)"
ACTION_ID_CHARACTERS_MAX = 300
KEY_CHARACTERS_MAX = 500

ActionId = Annotated[str, msgspec.Meta(min_length=1, max_length=ACTION_ID_CHARACTERS_MAX, pattern=LINE)]
TargetKey = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_CHARACTERS_MAX, pattern=LINE)]
Version = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=LINE)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:@\-]+$(?!\n)")]
Text = Annotated[str, msgspec.Meta(max_length=255, pattern=LINE)]
# msgspec 0.22 frees memory that is not its own if a text with a pattern may also be a list, so the routes
# that use this type match the pattern themselves.
TextOrList = Annotated[str, msgspec.Meta(max_length=255, extra_json_schema={"pattern": LINE})]
Topic = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        pattern=r"^[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*$(?!\n)",
        description="Words of letters, digits, _ and -, joined by dots.",
    ),
]
Number = int | float
Fence = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Outcome = Annotated[
    Literal["committed", "not_committed"],
    msgspec.Meta(description="What was found out about an effect whose outcome was unknown."),
]

# The number of digits bounds every duration to about thirty years, so none overflows a date.
_DURATION = r"^(?:[0-9]{1,9}s|[0-9]{1,7}m|[0-9]{1,5}h|[0-9]{1,4}d)$(?!\n)"
DurationText = Annotated[
    str,
    msgspec.Meta(pattern=_DURATION, description="A duration such as 30s, 15m, 4h or 7d.", examples=["15m"]),
]
Duration = (
    DurationText | Annotated[int, msgspec.Meta(ge=0, le=999_999_999, description="A number of seconds.")]
)
DurationInQuery = Annotated[
    str,
    msgspec.Meta(
        pattern=_DURATION.replace("s|", "s?|", 1), description="A duration such as 15m, or seconds."
    ),
]
# How long something is kept without being renewed. Fractions are as good as whole seconds.
TtlSeconds = Annotated[int, msgspec.Meta(ge=1, le=86_400)] | Annotated[float, msgspec.Meta(gt=0, le=86_400)]

_CONTROLS = r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f"
# Spaces, line breaks, and characters that only join, separate or turn the text beside them.
_UNSEEN = (
    r"\u0009\u000a\u000d\u0020\u0080-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
# Characters that turn the text around them (embeddings, overrides and isolates), or end a line unseen.
_TURNING = r"\u0080-\u009f\u2028-\u202e\u2066-\u2069\ufeff"
_PROSE = rf"^[^{_CONTROLS}]*$"
# The part before the first visible character holds none, so no text is tried in two ways, however long it is.
_SAYING = rf"^[{_UNSEEN}]*[^{_CONTROLS}{_UNSEEN}][^{_CONTROLS}]*$"
Reason = Annotated[str, msgspec.Meta(max_length=4000, pattern=_PROSE)]
GivenReason = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=4000,
        pattern=_SAYING,
        description="Something that can be read, without control characters.",
    ),
]
CommentText = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=4096,
        pattern=rf"^[\u0009\u000a\u000d\u0020\u00a0]*[^{_CONTROLS}{_UNSEEN}][^{_CONTROLS}{_TURNING}]*$",
        description="Something that can be read, at most 4,096 bytes as UTF-8, without control characters and those "
        "that turn the text around them.",
    ),
]
