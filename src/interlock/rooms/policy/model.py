"""The stored records of policies.

Snapshots are never deleted. A head names the snapshot that is in force, and buckets belong to throttles.
"""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.record import Kind, Record, micros

HEAD_ID = "active"


class PolicySnapshot(Record, frozen=True, kw_only=True):
    """One policy, addressed by its content. The id is `sha256:…` of the canonical document."""

    document: str
    source: str
    created_at: datetime
    created_by: str


class PolicyHead(Record, frozen=True, kw_only=True):
    """Which snapshot is in force, with its document, so that one read is enough to decide."""

    snapshot: str
    document: str
    activated_at: datetime
    activated_by: str
    previous: str | None = None


class PolicyBucket(Record, frozen=True, kw_only=True):
    """How much a throttle's bucket held, and when. From `full_at` on it is as good as new."""

    parts: int
    as_of: datetime
    full_at: datetime


SNAPSHOTS = Kind("policy_snapshot", PolicySnapshot, table="policy_snapshots", immutable=True)
HEADS = Kind("policy_head", PolicyHead, table="policy_heads")
BUCKETS = Kind(
    "policy_bucket",
    PolicyBucket,
    table="policy_buckets",
    columns=("full_at",),
    values=lambda bucket: (micros(bucket.full_at),),
)
