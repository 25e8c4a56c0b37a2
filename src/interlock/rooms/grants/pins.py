"""Pins as callers write them: `{"path": value | {"exact": value} | {"max": n} | {"glob": "x*"}}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.rooms.grants.model import Number, Pin

NOT_A_PATH = "is not a path; write names joined by dots, such as invoice.amount_cents"
_WAYS = frozenset({"exact", "max", "glob"})


class BadPin(ValueError):
    """A pin that says nothing certain."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


def pins_of(written: Mapping[str, Any]) -> tuple[Pin, ...]:
    """Pins in the order of their paths. Raises `BadPin`."""
    return tuple(_pin(path, written[path]) for path in sorted(written))


def written_pins(pins: Sequence[Pin]) -> dict[str, Any]:
    """Pins as callers write them; `pins_of` reads them back the same."""
    return {pin.path: _written(pin) for pin in pins}


def is_path(path: str) -> bool:
    """Whether it names an argument: no part between its dots is empty."""
    return all(path.split("."))


def _pin(path: str, value: Any) -> Pin:
    if not is_path(path):
        raise BadPin(path, NOT_A_PATH)
    if not isinstance(value, dict):
        return Pin(path=path, exact=msgspec.Raw(canonical(value)))
    narrowing = cast("dict[str, Any]", value)
    if len(narrowing) != 1 or not narrowing.keys() <= _WAYS:
        raise BadPin(path, 'must be a value, {"max": n}, {"glob": "x*"} or {"exact": value}')
    ((way, bound),) = narrowing.items()
    if way == "max":
        return Pin(path=path, max=_number(path, bound))
    if way == "glob":
        return Pin(path=path, glob=_glob(path, bound))
    return Pin(path=path, exact=msgspec.Raw(canonical(bound)))


def _number(path: str, bound: Any) -> Number:
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise BadPin(path, "max must be a number")
    return bound


def _glob(path: str, bound: Any) -> str:
    if not isinstance(bound, str) or not bound or len(bound) > 255:
        raise BadPin(path, "glob must be text of 1 to 255 characters")
    return bound


def _written(pin: Pin) -> Any:
    if pin.max is not None:
        return {"max": pin.max}
    if pin.glob is not None:
        return {"glob": pin.glob}
    if not pin.is_exact:
        return {}
    exact: object = msgspec.json.decode(pin.exact)
    return {"exact": cast("object", exact)} if isinstance(exact, dict) else exact
