"""A server as its operators see it: its health, its store, and the settings it runs with."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.wire.fields import Given


class Alive(msgspec.Struct, frozen=True, kw_only=True):
    """That the process answers."""

    status: str = "ok"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service is ready for work.

    `unreadable_records`: how many damaged records this server met in the store; its log names them.
    `clock_ahead_seconds` is how far the store's clock was ahead of this machine's at the last batch, less than 0 if it
    was behind; where that is trouble, `detail` says so. `fence_epoch` counts how often fences were raised after a
    restore or a failover.
    """

    status: str = "ok"
    unreadable_records: int = 0
    clock_ahead_seconds: float = 0.0
    fence_epoch: int = 0
    fences_raised_at: datetime | None = None
    detail: str | None = None


class StoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store is. If it takes no writes, `trouble` says why, and the answer is still 200.

    `free_bytes` of its volume is null if this machine cannot tell.
    """

    place: str = ""
    free_bytes: int | None = None
    trouble: str | None = None


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
