"""Words of the caller's own code, made such that the service can keep them."""

from __future__ import annotations

from collections.abc import Callable


def kept_text(value: object, characters_max: int, spell: Callable[[object], str] = str) -> str:
    """What `spell` makes of a value, cut short. Whatever cannot be stored or sent is replaced, never refused.

    What an error says may hold anything, such as bytes of a file name; how a call ended must be told all the same.
    """
    try:
        text = spell(value)
    except Exception:  # noqa: BLE001 - it is the caller's code that spells, and it may be broken
        text = f"a {type(value).__name__} that cannot be spelled"
    return text[:characters_max].encode(errors="replace").decode().replace("\0", "?")
