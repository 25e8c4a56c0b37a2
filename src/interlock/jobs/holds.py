"""A worker's hold on a job, as it is kept inside the job's record."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class LeaseEnd(StrEnum):
    """How a worker's hold on a job ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"
    CANCELLED = "cancelled"


class JobLease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's hold on a job, under the job's fence of that time.

    `retry_at` is when the job may be claimed again should the lease run out; None if this is the last
    attempt. It is settled when the lease is given or renewed, so that a claim needs no sweep to have run.
    `repeatable` is what the caller of a gated call said of it: it may run again after a crash.
    """

    worker: str
    claimed_at: datetime
    expires_at: datetime
    seconds: int | float
    retry_at: datetime | None = None
    ended: LeaseEnd | None = None
    repeatable: bool = False
