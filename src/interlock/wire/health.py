"""Whether the service is alive and ready, and whether its store takes writes."""

from __future__ import annotations

from datetime import datetime

import msgspec


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
    """Where the store is, and why it takes no writes, if it does not: `trouble`, which is then the answer, not a fault.

    `free_bytes` of its volume is null if nobody here can say.
    """

    place: str = ""
    free_bytes: int | None = None
    trouble: str | None = None
