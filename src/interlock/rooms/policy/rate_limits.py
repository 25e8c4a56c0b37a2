"""A token bucket with exact arithmetic: no drift at any rate, however often it is asked.

Tokens are counted in parts, 86,400,000,000 to a token. That is the number of microseconds in a day, so every rate per
second, minute, hour or day adds a whole number of parts in each microsecond, and nothing is rounded. In any span of
time, at most `burst` plus the rate times that span can be taken.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from interlock.rooms.policy.language import DAY_SECONDS, Throttle

TOKEN = DAY_SECONDS * 1_000_000

_MICROSECOND = timedelta(microseconds=1)


class BucketLevel(msgspec.Struct, frozen=True, kw_only=True):
    """How much a bucket held, and when."""

    parts: int
    as_of: datetime


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """One token was taken; this is what is left. `full_at`: from then on the bucket is as good as new."""

    level: BucketLevel
    full_at: datetime


class Empty(msgspec.Struct, frozen=True, kw_only=True):
    """There is not yet a whole token; there will be one after this time. The level is unchanged."""

    retry_after: timedelta


Take: TypeAlias = Taken | Empty


def take(bucket: BucketLevel | None, throttle: Throttle, now: datetime) -> Take:
    """Take a token. None is a bucket that nobody has used, which is full.

    A clock that goes back adds nothing, and what it repeats is not added twice. If the throttle changed
    since, the bucket keeps what it holds, up to the new burst, and fills at the new rate from its last use.
    """
    held = _level(bucket, throttle, now)
    speed = _parts_per_microsecond(throttle)
    if held.parts < TOKEN:
        return Empty(retry_after=-(-(TOKEN - held.parts) // speed) * _MICROSECOND + (held.as_of - now))
    left = BucketLevel(parts=held.parts - TOKEN, as_of=held.as_of)
    return Taken(level=left, full_at=full_at(left, throttle))


def full_at(bucket: BucketLevel, throttle: Throttle) -> datetime:
    """When the bucket is full again if nobody takes anything: from then on it is as good as new."""
    missing = max(0, throttle.burst * TOKEN - bucket.parts)
    return bucket.as_of + -(-missing // _parts_per_microsecond(throttle)) * _MICROSECOND


def _level(bucket: BucketLevel | None, throttle: Throttle, now: datetime) -> BucketLevel:
    """What the bucket holds now, or held when its clock last moved."""
    full = throttle.burst * TOKEN
    if bucket is None:
        return BucketLevel(parts=full, as_of=now)
    elapsed = max(now - bucket.as_of, timedelta()) // _MICROSECOND
    parts = min(bucket.parts + elapsed * _parts_per_microsecond(throttle), full)
    return BucketLevel(parts=parts, as_of=max(now, bucket.as_of))


def _parts_per_microsecond(throttle: Throttle) -> int:
    return throttle.rate.count * (DAY_SECONDS // throttle.rate.period_seconds)
