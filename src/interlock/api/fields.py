"""Fields that several bodies share, and their allowed values."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from interlock.api.operations import Call
from interlock.api.problem import invalid
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import Fault
from interlock.kernel.codec.visible import is_visible, unseen_in

# `$` alone would let a line break at the end through.
LINE = r"^[^\u0000-\u001f\u007f]*$(?!\n)"
_ACTION_ID_CHARACTERS_MAX = 300
_KEY_CHARACTERS_MAX = 500

ActionId = Annotated[str, msgspec.Meta(min_length=1, max_length=_ACTION_ID_CHARACTERS_MAX, pattern=LINE)]
TargetKey = Annotated[str, msgspec.Meta(min_length=1, max_length=_KEY_CHARACTERS_MAX, pattern=LINE)]


def action_id_of(call: Call[Any, Any, Any, Any]) -> str:
    """The action that the path names."""
    spelling = f"up to {_ACTION_ID_CHARACTERS_MAX} characters, none of them a control character"
    return named(call, "action_id", ActionId, f"is not an action id; use {spelling}")


def target_key_of(call: Call[Any, Any, Any, Any]) -> str:
    """The target that the path names."""
    spelling = f"up to {_KEY_CHARACTERS_MAX} characters, none of them a control character"
    return named(call, "key", TargetKey, f"is not a target's key; use {spelling}")


def named(call: Call[Any, Any, Any, Any], parameter: str, kind: Any, reason: str) -> str:
    """What the path has for `parameter`, if a body could have it too: `kind` is its type there."""
    try:
        return msgspec.convert(call.path[parameter], kind)
    except msgspec.ValidationError:
        raise invalid(Fault(f"path/{parameter}", reason)) from None


_CONTROLS = r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f"
# Spaces, line breaks, and what only joins, parts or turns what stands beside it.
_UNSEEN = (
    r"\u0009\u000a\u000d\u0020\u0080-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
# What turns the text around it (embeddings, overrides and isolates), or ends a line without being seen to.
_TURNING = r"\u0080-\u009f\u2028-\u202e\u2066-\u2069\ufeff"
_PROSE = rf"^[^{_CONTROLS}]*$"
# What is before the first sign that is seen is none of them: no text is tried in two ways, however long.
_SAYING = rf"^[{_UNSEEN}]*[^{_CONTROLS}{_UNSEEN}][^{_CONTROLS}]*$"
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
GivenReason = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=4000,
        pattern=_SAYING,
        description="Something that can be read, without control characters.",
    ),
]

Said = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=4096,
        pattern=rf"^[\u0009\u000a\u000d\u0020\u00a0]*[^{_CONTROLS}{_UNSEEN}][^{_CONTROLS}{_TURNING}]*$",
        description="Something that can be read, at most 4,096 bytes as UTF-8, without control characters and those "
        "that turn the text around them.",
    ),
]

# What a reviewer's click may do: open a page or write a letter, never run a script or open a file.
LINK_SCHEMES = ("http", "https", "mailto")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


def link_fault(url: str) -> str | None:
    """Why people may not be shown this link, if so."""
    if unseen := unseen_in(url):
        return f"holds {', '.join(unseen[:5])}, which cannot be seen; percent-encode it"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "has no scheme; begin it with https://, http:// or mailto:"
    if scheme[1].lower() not in LINK_SCHEMES:
        return f"has the scheme {scheme[1][:50]!r}; send a link with http, https or mailto"
    return None


def unseen_fault(text: str) -> str | None:
    """Why this text cannot name something for people, if so."""
    if is_visible(text):
        return None
    unseen = ", ".join(unseen_in(text)[:5])
    return f"holds {unseen}, which cannot be seen or turns the text around it; leave it out"


def version_text(version: str | float) -> str:
    """A version as it is kept and compared: a number as JSON spells it, so that 3 and "3" are the same."""
    return version if isinstance(version, str) else canonical(version).decode()
