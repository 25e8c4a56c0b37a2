"""Texts that bodies and queries hold: how long they may be, and what may stand in them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from interlock.api.naming import LINE
from interlock.codec.canonical import canonical

_PROSE = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]*$"
Text = Annotated[str, msgspec.Meta(max_length=255, pattern=LINE)]
# msgspec 0.22 frees what is not its own if a text with a pattern may also be a list, so its user matches this one.
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
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.\-/]+$(?!\n)")]
Reason = Annotated[str, msgspec.Meta(max_length=4000, pattern=_PROSE)]
Number = int | float
GivenReason = Annotated[str, msgspec.Meta(min_length=1, max_length=4000, pattern=_PROSE)]


def version_text(version: str | float) -> str:
    """A version as it is kept and compared: a number as JSON spells it, so that 3 and "3" are the same."""
    return version if isinstance(version, str) else canonical(version).decode()
