"""What time does to work: leases run out, and released jobs that nobody takes are offered again.

Claims and fences judge time by themselves; these sweeps only tidy up and tell. Any number of servers may run
them at once: each pass is bounded, owns what it picks and skips what others hold, and starts with what has
waited longest, so that nothing is left behind however much there is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.approvals.recording import record_change
from interlock.jobs.leasing import is_lost, lose
from interlock.jobs.model import JOBS, Job, JobState, claims_topic
from interlock.kernel.command import Command
from interlock.kernel.record import Kind, Params, Pick, Reads, micros
from interlock.kernel.world import World


class LostJobs(Pick[Job], frozen=True, kw_only=True):
    """The jobs whose leases ran out longest ago."""

    @property
    def kind(self) -> Kind[Job]:
        return JOBS

    @property
    def query(self) -> str:
        return "jobs.lost_jobs"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Job, now: datetime) -> bool:
        return is_lost(record, now)

    def sort_key(self, record: Job) -> Any:
        return (record.lease_until, record.tenant, record.id)


class UnclaimedJobs(Pick[Job], frozen=True, kw_only=True):
    """The released jobs that should have been offered again longest ago."""

    @property
    def kind(self) -> Kind[Job]:
        return JOBS

    @property
    def query(self) -> str:
        return "jobs.unclaimed_jobs"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Job, now: datetime) -> bool:
        at = record.offer_again_at
        return at is not None and at <= now

    def sort_key(self, record: Job) -> Any:
        return (record.offer_again_at, record.tenant, record.id)


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass did."""

    count: int
    dead: int = 0
    ages_seconds: tuple[float, ...] = ()


class SweepLostLeases(Command[Swept], frozen=True, kw_only=True):
    """Settle up to `most` leases that ran out."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(LostJobs(limit=self.most),))

    def decide(self, world: World) -> Swept:
        settled = [lose(world, job) for job in world.pick(LostJobs(limit=self.most))]
        return Swept(count=len(settled), dead=sum(job.state is JobState.FAILED for job in settled))


class OfferUnclaimed(Command[Swept], frozen=True, kw_only=True):
    """Wake workers again for up to `most` released jobs that nobody claimed; the first time is audited."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(UnclaimedJobs(limit=self.most),))

    def decide(self, world: World) -> Swept:
        found = world.pick(UnclaimedJobs(limit=self.most))
        ages = tuple(_offer(world, job) for job in found)
        return Swept(count=len(found), ages_seconds=ages)


def _offer(world: World, job: Job) -> float:
    age = (world.now - (job.not_before or job.released_at)).total_seconds()
    stored = world.put(JOBS, msgspec.structs.replace(job, offered=job.offered + 1, offered_at=world.now))
    if job.offered == 0:
        record_change(world, stored, None, "replay", waiting_seconds=round(age))
    world.wake(claims_topic(job.tenant, job.action.topic))
    return age
