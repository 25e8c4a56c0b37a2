"""Pins as people write them in commands and forms: `repo=billing`, `amount_cents<=500`, `branch~fix/*`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from interlock.kernel.codec.strict import JsonRefused, JsonValue, parse

_PIN = re.compile(r"([^<>=~]+)(<=|=|~)(.*)", re.DOTALL)


class NotAPin(ValueError):
    """A text that is no pin; the message goes on after the text, or after where it stands."""


def json_or_text(text: str) -> JsonValue:
    """JSON if it is JSON, else the text itself; `JsonRefused` for JSON that cannot be kept as it was written."""
    try:
        return parse(text.encode())
    except JsonRefused:
        if _is_json(text):
            raise
        return text


def read_pin(text: str, read: Callable[[str], JsonValue] = json_or_text) -> tuple[str, JsonValue]:
    """A pin's path, and its value as the API takes it; `read` is how the text of a value is read."""
    found = _PIN.fullmatch(text)
    if found is None:
        raise NotAPin("is not a pin; write PATH=VALUE, PATH<=NUMBER or PATH~GLOB")
    path, sign, value = (part.strip() for part in found.groups())
    if sign == "~":
        return path, {"glob": value}
    said = read(value)
    if sign == "<=":
        return path, {"max": number(said)}
    return path, {"exact": said} if isinstance(said, dict) else said


def number(said: JsonValue) -> int | float:
    """What stands after <=."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise NotAPin("needs a number after <=")
    return said


def _is_json(text: str) -> bool:
    """Whether it is JSON by its grammar alone, whatever its numbers and keys."""

    def constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        json.loads(text, parse_constant=constant, parse_int=str, parse_float=str)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
