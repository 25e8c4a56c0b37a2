"""The server's settings over HTTP: all of them, where each came from, and no credential."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import msgspec

from interlock.api.calls import Asked
from interlock.api.descriptions import own_version
from interlock.api.operations import Operation, Reply
from interlock.api.problem import ProblemError, problem
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.service.settings import TENANT_DEFAULT, ReadSettings, Settings, room_at
from interlock.wire import server as wire


async def read(call: Asked[None, None]) -> Reply:
    if call.caller.tenant != TENANT_DEFAULT:
        why = f"only principals of the tenant {TENANT_DEFAULT}, which runs this server, may read its settings"
        raise ProblemError(problem("forbidden", why))
    service = call.services
    place, _ = room_at(service.settings.store)
    shown = wire.ServerSettings(
        version=own_version(),
        store_kind=_kind(service.settings.store),
        store_place=place,
        started_at=service.started_at,
        settings=tuple(
            wire.Setting(
                name=each.name,
                value=each.value,
                source=each.source,
                secret=each.is_secret,
                meaning=each.meaning,
            )
            for each in report(service.settings)
        ),
    )
    return Reply(200, shown)


def _kind(url: str) -> str:
    scheme = url.partition(":")[0]
    return "postgresql" if scheme == "postgres" else scheme


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="get_settings", method="GET", path="/api/v1/settings", tag="Health", roles=("operate", "admin"),
        summary="What this server runs with, without credentials",
        description="For principals of the tenant `default`, which runs the server. Of several workers, the one that "
        "answers tells of itself.",
        answers={200: wire.ServerSettings}, answer=read,
    ),
)  # fmt: skip


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
