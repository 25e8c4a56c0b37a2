"""Looking at a request: recorded for the other people who have it open. It decides nothing and is not audited."""

from __future__ import annotations

from interlock.kernel.record import Reads
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import Caller, PrincipalKind, Role
from interlock.rooms.identity.refusals import NotFound, PeopleOnly
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.jobs.model import AUDIENCES, JOBS
from interlock.rooms.jobs.records import find_job, mention_job
from interlock.rooms.jobs.viewers import Audience

_READERS = (Role.SUBMIT, Role.REVIEW, Role.OPERATE, Role.AUDIT, Role.ADMIN)


class LookAtRequest(Command[Audience], frozen=True, kw_only=True):
    """Say that this person has a request open. Others hear of it once per round (`approval.opened`)."""

    caller: Caller
    job_id: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(AUDIENCES.key(tenant, self.job_id),), see=(JOBS.key(tenant, self.job_id),)
        )

    def decide(self, world: World) -> Audience:
        by = require(world, self.caller, *_READERS)
        if by.kind is not PrincipalKind.PERSON:
            raise PeopleOnly(by.id, by.kind.value)
        job = find_job(world, self.caller.tenant, self.job_id)
        if job.approval is None:
            raise NotFound("approval", job.id, "no decision is asked for, so there is nothing to look at")
        known = world.get(AUDIENCES, job.tenant, job.id) or Audience(tenant=job.tenant, id=job.id)
        seen = known.with_look(by.id, world.now, job.approval.round)
        if seen is known:
            return known
        before = known.viewer(by.id)
        if before is None or before.round != job.approval.round:
            mention_job(world, job, "approval.opened", by=by.id, round=job.approval.round)
        return world.put(AUDIENCES, seen)
