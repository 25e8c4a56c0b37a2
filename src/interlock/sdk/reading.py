"""JSON and what was made of it as types, from any thread.

msgspec crashes the interpreter where two threads make it learn of a type at once, and types share their parts: so
whoever may be the first to read a type reads it here.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_learning = threading.Lock()


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """What reads a type."""
    found = _decoders.get(kind)
    if found is None:
        with _learning:
            found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def converted(value: object, kind: type[T]) -> T:
    """A document as a type, for answers that are read once in a while: one thread at a time converts."""
    with _learning:
        return msgspec.convert(value, kind)
