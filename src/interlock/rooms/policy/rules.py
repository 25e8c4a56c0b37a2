"""The policy's commands, and how other rooms use it: `judge` an action, `take_token` from a throttle.

The policy in force is read in the transaction that decides. Without one, everything is denied.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from interlock.kernel.codec.located import SourceInvalid
from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.record import Key, Params, Pick, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller, Principal
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, record_people_only, require_administrator
from interlock.rooms.policy.action import Action, Priority
from interlock.rooms.policy.evaluation import (
    CompiledPolicy,
    Evaluation,
    SnapshotAltered,
    kept,
    possible_charges,
    with_people,
)
from interlock.rooms.policy.expressions import ExpressionFailed
from interlock.rooms.policy.judgement import Compiling, Judging, bare_input
from interlock.rooms.policy.language import (
    DAY_SECONDS,
    PolicyDocument,
    PolicyMode,
    Throttle,
    canonical_policy,
    snapshot_id,
)
from interlock.rooms.policy.model import (
    BUCKETS,
    HEAD_ID,
    HEADS,
    SNAPSHOTS,
    PolicyBucket,
    PolicyHead,
    PolicySnapshot,
)
from interlock.rooms.policy.refusals import PolicyMoved, PolicyUnavailable, SnapshotUnusable

OPERATOR = "operator"
_ALWAYS_SECONDS = 60.0
_NOTHING_ALLOWED = canonical_policy(PolicyDocument()).decode()
NO_POLICY = snapshot_id(PolicyDocument())


class ActivePolicy(msgspec.Struct, frozen=True):
    """The policy in force, ready to be asked."""

    snapshot: str
    policy: CompiledPolicy
    observing: bool
    document: str = ""


def policy_in_force(world: World, tenant: str) -> ActivePolicy:
    """The policy in force; a tenant without a policy denies everything."""
    return active_policy(world.get(HEADS, tenant, HEAD_ID), world.compute)


def snapshot_in_force(world: World, tenant: str) -> str:
    """Its name alone, which is known also where the policy itself cannot be read."""
    head = world.get(HEADS, tenant, HEAD_ID)
    return head.snapshot if head else NO_POLICY


def active_policy(head: PolicyHead | None, compute: Compute = compute_here) -> ActivePolicy:
    """A head's policy, compiled; None is a tenant without a policy."""
    snapshot, document = (head.snapshot, head.document) if head else (NO_POLICY, _NOTHING_ALLOWED)
    try:
        tenant = head.tenant if head else ""
        policy = kept(snapshot) or compute(Compiling(tenant=tenant, snapshot=snapshot, document=document))
    except (SnapshotAltered, SourceInvalid) as altered:
        raise PolicyUnavailable("policy", str(altered)) from altered
    return ActivePolicy(snapshot, policy, policy.document.mode is PolicyMode.OBSERVE, document)


def judge(world: World, tenant: str, action: Action, actor: Principal, priority: Priority) -> Evaluation:
    """The decision of the policy in force on this action, and the groups that its submitter asks as well.

    Fails closed with `PolicyUnavailable`.
    """
    active = policy_in_force(world, tenant)
    try:
        said = world.compute(
            Judging(
                tenant=tenant,
                snapshot=active.snapshot,
                document=active.document,
                action=action,
                actor=actor,
                priority=priority,
            )
        )
    except ExpressionFailed as failed:
        raise PolicyUnavailable(failed.rule, failed.why) from failed
    return with_people(said, action, observing=active.observing)


def may_throttle(world: World, tenant: str, topic: str) -> bool:
    """Whether any rule for this topic has a throttle, so that judging it may need a bucket."""
    candidates = policy_in_force(world, tenant).policy.candidates(topic)
    return any(candidate.rule.throttle is not None for candidate in candidates)


def bucket_keys(
    world: World, tenant: str, action: Action, actor: Principal, priority: Priority
) -> tuple[Key, ...]:
    """The buckets that judging this action may need, whatever its payload turns out to be."""
    if not may_throttle(world, tenant, action.topic):
        return ()
    policy = policy_in_force(world, tenant).policy
    charges = possible_charges(policy, bare_input(tenant, action, actor, priority))
    return tuple(BUCKETS.key(tenant, charge.bucket_id) for charge in charges)


def bucket_key(tenant: str, evaluation: Evaluation) -> Key | None:
    """The bucket that this evaluation draws from, if it is a throttle that has one."""
    drawn = evaluation.throttle
    return BUCKETS.key(tenant, drawn.bucket_id) if drawn is not None else None


def take_token(world: World, tenant: str, evaluation: Evaluation) -> float | None:
    """Take one token; None if there was one, else the seconds until there is. No bucket is always empty."""
    drawn = evaluation.throttle
    if drawn is None:
        return _ALWAYS_SECONDS
    kept = world.get(BUCKETS, tenant, drawn.bucket_id)
    level = BucketLevel(parts=kept.parts, as_of=kept.as_of) if kept else None
    taken = take(level, drawn.throttle, world.now)
    if isinstance(taken, Empty):
        return taken.retry_after.total_seconds()
    left = taken.level
    world.put(
        BUCKETS,
        PolicyBucket(
            tenant=tenant, id=drawn.bucket_id, parts=left.parts, as_of=left.as_of, full_at=taken.full_at
        ),
    )
    return None


class ActivatePolicy(Command[PolicyHead], frozen=True, kw_only=True):
    """Put a policy in force. Its snapshot is kept for ever. `by` is None for the operator of the store.

    With `expecting`, only in the place of that snapshot.
    """

    tenant: str
    snapshot: str
    document: str
    source: str
    by: Caller | None = None
    expecting: str | None = None

    @classmethod
    def of(
        cls, document: PolicyDocument, source: str, *, tenant: str, by: Caller | None = None
    ) -> ActivatePolicy:
        """The command for a parsed document."""
        spelled = canonical_policy(document)
        return cls(
            tenant=tenant, snapshot=snapshot_id(spelled), document=spelled.decode(), source=source, by=by
        )

    def reads(self) -> Reads:
        own = (HEADS.key(self.tenant, HEAD_ID), SNAPSHOTS.key(self.tenant, self.snapshot))
        return Reads(own=own) | (caller_reads(self.by) if self.by else Reads())

    def decide(self, world: World) -> PolicyHead:
        author = require_administrator(world, self.by).id if self.by else OPERATOR
        current = snapshot_in_force(world, self.tenant)
        if self.expecting is not None and self.expecting != current:
            raise PolicyMoved(self.expecting, current)
        if world.get(SNAPSHOTS, self.tenant, self.snapshot) is None:
            world.put(
                SNAPSHOTS,
                PolicySnapshot(
                    tenant=self.tenant,
                    id=self.snapshot,
                    document=self.document,
                    source=self.source,
                    created_at=world.now,
                    created_by=author,
                ),
            )
        return _activate(world, self.tenant, self.snapshot, self.document, author, self.by, "policy_activate")

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "policy_activate", "policy", refusal)


class RollBackPolicy(Command[PolicyHead], frozen=True, kw_only=True):
    """Put an earlier snapshot back in force."""

    caller: Caller
    snapshot: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(HEADS.key(tenant, HEAD_ID),), see=(SNAPSHOTS.key(tenant, self.snapshot),)
        )

    def decide(self, world: World) -> PolicyHead:
        author = require_administrator(world, self.caller).id
        kept = world.get(SNAPSHOTS, self.caller.tenant, self.snapshot)
        if kept is None:
            raise NotFound("policy snapshot", self.snapshot)
        if snapshot_id(kept.document.encode()) != kept.id:
            raise SnapshotUnusable(kept.id)
        return _activate(
            world, self.caller.tenant, kept.id, kept.document, author, self.caller, "policy_roll_back"
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.caller, "policy_roll_back", "policy", refusal)


def _activate(
    world: World, tenant: str, snapshot: str, document: str, author: str, by: Caller | None, action: str
) -> PolicyHead:
    before = world.get(HEADS, tenant, HEAD_ID)
    # Compare the text too: activating a policy again repairs one that was altered in the store.
    if before is not None and (before.snapshot, before.document) == (snapshot, document):
        return before
    previous = before.snapshot if before else None
    note(
        world,
        Author(tenant=tenant, principal=author, request_id=by.request_id if by else None),
        action,
        "policy",
        subject_hash=snapshot,
        details={"previous": previous},
    )
    announce(world, tenant, "policy.activated", "policy", {"snapshot": snapshot, "previous": previous})
    head = PolicyHead(
        tenant=tenant,
        id=HEAD_ID,
        snapshot=snapshot,
        document=document,
        activated_at=world.now,
        activated_by=author,
        previous=previous,
    )
    return world.put(HEADS, head)


_LOOK_AGAIN = timedelta(hours=1)


class FullBuckets(Pick[PolicyBucket], frozen=True, kw_only=True):
    """Buckets that should be full by now, in every tenant, the longest full first."""

    kind = BUCKETS
    query = "policy.full_buckets"

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


# Token buckets with exact arithmetic. Tokens are counted in parts, 86,400,000,000 to a token: the number of
# microseconds in a day. So every rate per second, minute, hour or day adds a whole number of parts in each microsecond,
# and nothing is rounded. In any span of time, at most `burst` plus the rate times that span can be taken.
TOKEN = DAY_SECONDS * 1_000_000

_MICROSECOND = timedelta(microseconds=1)


class BucketLevel(msgspec.Struct, frozen=True, kw_only=True):
    """How much a bucket held, and when."""

    parts: int
    as_of: datetime


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """One token was taken; `level` is the rest. From `full_at` on, the bucket is as good as new."""

    level: BucketLevel
    full_at: datetime


class Empty(msgspec.Struct, frozen=True, kw_only=True):
    """There is not yet a whole token; there will be one after this time. The level is unchanged."""

    retry_after: timedelta


Take: TypeAlias = Taken | Empty


def take(bucket: BucketLevel | None, throttle: Throttle, now: datetime) -> Take:
    """Take a token. None is a bucket that was never used, which is full.

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
    """When the bucket is full again if no token is taken: from then on it is as good as new."""
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
