"""Option values of grants: pins and limits as people type them."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Any

from interlock.cli.values import json_or_text

_PIN = re.compile(r"([^<>=~]+)(<=|=|~)(.*)", re.DOTALL)


def pin(text: str) -> tuple[str, Any]:
    """`repo=billing`, `amount_cents<=500` or `branch~fix/*`; a value is JSON if it is JSON, else text."""
    found = _PIN.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a pin; write PATH=VALUE, PATH<=NUMBER or PATH~GLOB")
    path, sign, value = found.groups()
    return path.strip(), _narrowing(text, sign, value.strip())


def limit(text: str) -> dict[str, Any]:
    """`amount_cents<=50000`: what all uses together may add up to."""
    path, found, value = text.partition("<=")
    if not found or not path:
        raise ArgumentTypeError(f"{text!r} is not a limit; write PATH<=NUMBER")
    return {"path": path.strip(), "total_max": _number(text, value.strip())}


def _narrowing(text: str, sign: str, value: str) -> Any:
    if sign == "<=":
        return {"max": _number(text, value)}
    if sign == "~":
        return {"glob": value}
    return _exact(value)


def _number(text: str, value: str) -> int | float:
    number = _exact(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ArgumentTypeError(f"{text!r} needs a number after <=")
    return number


def _exact(value: str) -> Any:
    found = json_or_text(value)
    return {"exact": found} if isinstance(found, dict) else found
