"""Option values: payloads, durations, pairs. Invalid ones are refused before anything is sent."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.kernel.codec.strict import JsonValue


_TOPIC = re.compile(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*")
_SHOWN_MAX = 60
_API_KEY = re.compile(r"il_[0-9a-f]{16}_")


def duration(text: str) -> str:
    """A duration as the service takes it."""
    seconds(text)
    return _with_unit(text)


def seconds(text: str) -> int:
    """A duration in seconds; a plain number is one."""
    from interlock.kernel.codec.durations import seconds_of

    try:
        return seconds_of(_with_unit(text))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def some_seconds(text: str) -> int:
    """A duration in seconds that is one."""
    found = seconds(text)
    if found < 1:
        raise ArgumentTypeError(f"{text!r} is not a duration; write 1s or more")
    return found


def count_to(most: int) -> Callable[[str], int]:
    """A parser of numbers from 1 to `most`."""

    def count(text: str) -> int:
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
            raise ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return count


def _with_unit(text: str) -> str:
    return f"{text}s" if text.isascii() and text.isdigit() else text


def pair(text: str) -> tuple[str, str]:
    """`name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def versioned(text: str) -> tuple[str, str | None]:
    """KEY or KEY@VERSION. A part that is empty is a variable that was not set, and must not go unnoticed."""
    key, mark, version = text.rpartition("@")
    if not mark and text:
        return text, None
    if key and version:
        return key, version
    raise ArgumentTypeError(f"{text!r} is not KEY or KEY@VERSION, with something on both sides of the last @")


def words(text: str) -> tuple[str, ...]:
    """Words separated by commas."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise ArgumentTypeError(f"{text!r} has an empty word; write them like a,b")
    return found


def is_topic(text: str) -> bool:
    """Whether a text can be a topic."""
    return _TOPIC.fullmatch(text) is not None


def topic(text: str) -> str:
    """What kind of action something is."""
    if not is_topic(text):
        raise ArgumentTypeError(f"{text!r} is not a topic; join words by dots, like finance.payment.execute")
    return text


def intent_name(text: str) -> str:
    """A caller's own name for an intent; never an API key, which would then be kept."""
    if _API_KEY.match(text):
        raise ArgumentTypeError(
            "this looks like an API key, and --key names an intent here; pass the key with --api-key"
        )
    return text


def json_value(text: str) -> JsonValue:
    """JSON written out, or in a file (`@payment.json`), or on stdin (`-`)."""
    from interlock.kernel.codec.strict import JsonRefused, parse

    content = read_bytes(text[1:]) if text.startswith("@") else _stdin() if text == "-" else text.encode()
    try:
        return parse(content)
    except JsonRefused as refused:
        reason = str(refused).removeprefix("(body): ")
        advice = "; quote it, like '{\"amount_cents\": 1200}'" if reason.startswith("not JSON") else ""
        raise ArgumentTypeError(f"{reason}{advice}") from None


def json_or_text(text: str) -> JsonValue:
    """JSON if it is JSON, else the text itself. JSON that cannot be kept as it was written is neither."""
    from interlock.kernel.codec import pins
    from interlock.kernel.codec.strict import JsonRefused

    try:
        return pins.json_or_text(text)
    except JsonRefused as refused:
        first = refused.faults[0]
        where = f"{first.path}: " if first.path else ""
        shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
        quoted = "" if text.startswith(("[", "{", '"')) else f", in double quotes: '\"{shown}\"'"
        raise ArgumentTypeError(f"{shown!r} cannot be kept as it is: {where}{first.reason}{quoted}") from None


def read_bytes(path: str) -> bytes:
    """The content of a file; `-` is stdin."""
    if path == "-":
        return _stdin()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ArgumentTypeError(f"cannot read {path}: {error.strerror}") from None


def _stdin() -> bytes:
    return sys.stdin.buffer.read()
