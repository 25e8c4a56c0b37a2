"""Names that callers give: each is held to one rule, whether it comes in a body or in a path."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.api.operations import Call
from interlock.api.problem import invalid
from interlock.codec.strict import Fault

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
