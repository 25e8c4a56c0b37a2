"""Stores the result of a gated function as JSON, so that a repeat returns the same or says why it cannot.

A result is stored only if decoding it by the function's return annotation gives an equal value of the same type;
otherwise a repeat would return something else than the first call, so only its text is stored.
"""

from __future__ import annotations

import inspect
import typing
from collections import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import parse
from interlock.sdk.outcomes import kept_text

if TYPE_CHECKING:
    from interlock.kernel.codec.strict import JsonValue

RESULT_BYTES_MAX = 256 * 1024
_TEXT_CHARACTERS_MAX = 2000
_YIELDING = (
    abc.Generator, abc.Iterator, abc.Iterable, abc.AsyncGenerator, abc.AsyncIterator, abc.AsyncIterable,
)  # fmt: skip


class Kept(msgspec.Struct, frozen=True):
    """A result as the service keeps it: JSON or, if it is not JSON, the beginning of its text."""

    result: Any = None
    text: str | None = None


class Result:
    """How the results of one function are kept and read again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._kind = _return_type(function)

    def kept(self, value: Any) -> Kept:
        """The result to record."""
        return _kept(value, self._kind)

    def found(self, value: Any) -> Any:
        """What `reconcile` found that it returned, to record; None if that is not known."""
        return _found(self.kept(value), value, "what the function returns")

    def read(self, result: Any) -> Any:
        """The value that was returned, from what was recorded. `msgspec.ValidationError` if it no longer fits."""
        return _read(result, self._kind)


class Yielded:
    """What a generator yielded and returned, collected while it runs; forgotten once it is too much to keep."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._item, self._returned = _yield_types(function)
        self._items: list[Any] | None = []
        self._bytes = 0
        self._count = 0

    def add(self, item: Any) -> None:
        """Take in what was yielded."""
        self._count += 1
        if self._items is None:
            return
        kept = _kept(item, self._item)
        self._bytes += 0 if kept.text is not None else len(canonical(kept.result)) + 1
        if kept.text is not None or self._bytes > RESULT_BYTES_MAX:
            self._items = None
        else:
            self._items.append(kept.result)

    def kept(self, returned: Any) -> Kept:
        """The result to record of one that is exhausted."""
        end = _kept(returned, self._returned)
        if self._items is None or end.text is not None:
            return self.cut_short("what it yielded could not be kept")
        return Kept({"yielded": self._items, "returned": end.result})

    def found(self, items: Any) -> Any:
        """What `reconcile` found that it yielded, to record; None if that is not known."""
        kept = _kept(items, list[self._item]) if isinstance(items, list) else Kept(text="not a list")
        found = _found(kept, items, "the list of what the generator yields")
        return None if found is None else {"yielded": found, "returned": None}

    def cut_short(self, why: str = "its consumer did not want the rest") -> Kept:
        """What is recorded of one that cannot be yielded again."""
        items = "1 item" if self._count == 1 else f"{self._count} items"
        return Kept(text=f"a generator that yielded {items}; {why}")

    def read(self, result: Any) -> tuple[list[Any], Any]:
        """What was yielded, and what was returned."""
        recorded = cast("dict[str, Any]", result)
        items = [_read(item, self._item) for item in recorded["yielded"]]
        return items, _read(recorded["returned"], self._returned)


def _kept(value: Any, kind: Any) -> Kept:
    try:
        spelled = canonical(cast("JsonValue", msgspec.to_builtins(value)))
        parse(spelled)
        plain = msgspec.json.decode(spelled)
        again = _read(plain, kind)
        if len(spelled) <= RESULT_BYTES_MAX and _is_same_kind(again, value) and bool(again == value):
            return Kept(plain)
    except Exception:  # noqa: BLE001, S110 - the caller's own code compares; whatever it raises, the call is done
        pass
    return Kept(text=kept_text(value, _TEXT_CHARACTERS_MAX, repr))


def _found(kept: Kept, value: Any, wanted: str) -> Any:
    if value is not None and kept.text is not None:
        raise TypeError(
            f"reconcile returned Committed({kept_text(value, 200, repr)}), which cannot be recorded; give {wanted}, or "
            "Committed() if that is not known. Nothing was recorded"
        )
    return None if value is None else kept.result


def _is_same_kind(again: Any, value: Any) -> bool:
    """Whether two values are of one type; JSON has one kind of number."""
    numbers = (int, float)
    return type(again) is type(value) or (type(again) in numbers and type(value) in numbers)


def _read(result: Any, kind: Any) -> Any:
    return result if kind is Any else msgspec.convert(result, kind, strict=True)


def _return_type(function: Callable[..., Any]) -> Any:
    """The return annotation, if it is one that can be decoded to; else `Any`, which takes JSON as it is."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function))
    except Exception:  # noqa: BLE001 - an annotation is the caller's code; one that cannot be read says nothing
        return Any
    return _decodable(hints.get("return", Any))


def _yield_types(function: Callable[..., Any]) -> tuple[Any, Any]:
    """What a generator function yields and returns, by its annotation."""
    try:
        annotated = typing.get_type_hints(inspect.unwrap(function)).get("return", Any)
    except Exception:  # noqa: BLE001 - as above
        return Any, Any
    if get_origin(annotated) not in _YIELDING:
        return Any, Any
    args = get_args(annotated)
    is_generator = get_origin(annotated) is abc.Generator and len(args) == 3
    return _decodable(args[0] if args else Any), _decodable(args[2] if is_generator else Any)


def _decodable(kind: Any) -> Any:
    try:
        msgspec.json.Decoder(kind)
    except (TypeError, ValueError):
        return Any
    return kind
