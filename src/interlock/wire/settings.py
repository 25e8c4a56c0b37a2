"""What a server runs with."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.wire.marks import Given


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `source` is `flag`, `environment`, `file` or `default`, or null if that is not known.

    With `secret` it holds a credential, and `value` leaves that out: null if nothing else is left of it.
    """

    name: str
    value: str | None = None
    source: str | None = None
    secret: bool = False
    meaning: str = ""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server runs with, and since when. `store_kind` is `sqlite`, `postgresql` or `memory`."""

    version: str
    store_kind: str = ""
    store_place: str = ""
    started_at: Given[datetime] = None
    settings: tuple[Setting, ...] = ()
