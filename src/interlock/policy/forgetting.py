"""Forgetting throttles' buckets that are full again: as good as a bucket that nobody has used.

`full_at` was reckoned under the throttle of then. If the policy in force has another one for the rule, the bucket
is as full as that one has made it, and stays until it is.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.command import Command
from interlock.kernel.record import Kind, Params, Pick, Reads, micros
from interlock.kernel.world import World
from interlock.policy.buckets import BucketLevel, full_at
from interlock.policy.model import BUCKETS, HEAD_ID, HEADS, PolicyBucket
from interlock.policy.refusals import PolicyUnavailable
from interlock.policy.rules import policy_in_force

_LOOK_AGAIN = timedelta(hours=1)


class FullBuckets(Pick[PolicyBucket], frozen=True, kw_only=True):
    """Buckets that should be full by now, in every tenant, the longest full first."""

    @property
    def kind(self) -> Kind[PolicyBucket]:
        return BUCKETS

    @property
    def query(self) -> str:
        return "policy.full_buckets"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: PolicyBucket, now: datetime) -> bool:
        return record.full_at <= now

    def sort_key(self, record: PolicyBucket) -> Any:
        return (record.full_at, record.tenant, record.id)


class ForgetFullBuckets(Command[int], frozen=True, kw_only=True):
    """Drop up to `most` buckets that are full; returns how many were looked at."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(FullBuckets(limit=self.most),))

    def more(self, world: World) -> Reads:
        tenants = sorted({bucket.tenant for bucket in world.pick(FullBuckets(limit=self.most))})
        return Reads(see=tuple(HEADS.key(tenant, HEAD_ID) for tenant in tenants))

    def decide(self, world: World) -> int:
        found = world.pick(FullBuckets(limit=self.most))
        for bucket in found:
            moment = _full_at(world, bucket)
            if moment <= world.now:
                world.delete(BUCKETS, bucket)
            else:
                world.put(BUCKETS, msgspec.structs.replace(bucket, full_at=moment))
        return len(found)


def _full_at(world: World, bucket: PolicyBucket) -> datetime:
    """When the bucket is full under the policy in force; one whose rule is gone goes by its last throttle."""
    try:
        rules = policy_in_force(world, bucket.tenant).policy.document.rules
    except PolicyUnavailable:
        return world.now + _LOOK_AGAIN
    rule_id = bucket.id.partition("/")[0]
    throttle = next((rule.throttle for rule in rules if rule.id == rule_id), None)
    level = BucketLevel(parts=bucket.parts, as_of=bucket.as_of)
    return full_at(level, throttle) if throttle else bucket.full_at
