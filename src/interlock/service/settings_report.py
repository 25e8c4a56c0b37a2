"""A server's settings as they may be shown: each with where it came from, and without any credential."""

from __future__ import annotations

import re
from typing import get_args, get_type_hints

import msgspec

from interlock.service.settings import ReadSettings, Settings

_SECRET_WORDS = frozenset(
    {"secret", "token", "tokens", "password", "key", "keys", "credential", "credentials"}
)
# Names that sound like a secret, but hold the path of a file.
_PATHS = frozenset({"tls_key"})
# A process that is one of several workers runs with other values than the server was given.
_OF_THE_WHOLE = ("workers", "policy")
_HIDDEN = "***"
_DATABASES = ("postgresql", "postgres")
_INSIDE = re.compile(r"(secret|token|password|passwd|credential)\w*[\"']?\s*[:=]", re.IGNORECASE)


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting without what it must not tell; `value` is None if nothing may be told of it."""

    name: str
    value: str | None
    source: str | None
    is_secret: bool
    meaning: str


def report(settings: Settings) -> tuple[ShownSetting, ...]:
    """Every setting, in the order of `interlock serve --help`."""
    hints = get_type_hints(Settings, include_extras=True)
    return tuple(_shown(settings, name, get_args(hint)) for name, hint in hints.items())


def without_credentials(name: str, text: str) -> tuple[str | None, bool]:
    """What may be shown of a setting's value, and whether it is secret."""
    if name not in _PATHS and not _SECRET_WORDS.isdisjoint(name.split("_")):
        return (None if text else ""), True
    scheme, sign, rest = text.partition("://")
    if sign and scheme != "sqlite":
        shown = f"{scheme}://{_address(rest, names_alone=scheme in _DATABASES)}"
        return shown, shown != text
    return (None, True) if _INSIDE.search(text) else (text, False)


def _address(rest: str, *, names_alone: bool) -> str:
    """The part of a URL after its scheme, without user and query: either may carry a password, escaped or not.

    A user's name alone is shown with `names_alone`; elsewhere it may be a token.
    """
    before, sign, query = rest.partition("?")
    if "@" in query:
        return _HIDDEN  # Nobody can tell which of the two this sign belongs to.
    user, at, place = before.rpartition("@")
    is_harmless = not user or (names_alone and ":" not in user)
    shown = before if is_harmless else f"{_HIDDEN}{at}{place}"
    return f"{shown}?{_HIDDEN}" if sign else shown


def _shown(settings: Settings, name: str, hint: tuple[object, ...]) -> ShownSetting:
    origins = settings.origins if isinstance(settings, ReadSettings) else None
    origin = origins.get(name) if origins is not None else None
    text = origin.text if origin and name in _OF_THE_WHOLE else as_text(getattr(settings, name))
    value, is_secret = without_credentials(name, text)
    unknown = None if origins is None else "default"
    return ShownSetting(
        name=name,
        value=value,
        source=origin.source if origin else unknown,
        is_secret=is_secret,
        meaning=next((each.description or "" for each in hint if isinstance(each, msgspec.Meta)), ""),
    )


def as_text(value: object) -> str:
    """A value as it would be written in the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)
