"""What a tenant asks of lease holders."""

from __future__ import annotations

from interlock.audit.rules import Note, note
from interlock.identity.model import Caller, Role
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.leases.model import TERMS, TERMS_ID, LeaseTerms


class SetLeaseTerms(Command[LeaseTerms], frozen=True, kw_only=True):
    """Change what a tenant asks of lease holders."""

    caller: Caller
    ttl_seconds_max: int
    suspend_seconds_max: int
    progress_after: int | None

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(TERMS.key(self.caller.tenant, TERMS_ID),))

    def decide(self, world: World) -> LeaseTerms:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        terms = LeaseTerms(
            tenant=self.caller.tenant,
            id=TERMS_ID,
            ttl_seconds_max=self.ttl_seconds_max,
            suspend_seconds_max=self.suspend_seconds_max,
            progress_after=self.progress_after,
        )
        details = {
            "ttl_seconds_max": self.ttl_seconds_max,
            "suspend_seconds_max": self.suspend_seconds_max,
            "progress_after": self.progress_after,
        }
        entry = Note(
            tenant=terms.tenant,
            actor=by.id,
            action="lease_terms_set",
            subject="leases",
            request_id=self.caller.request_id,
            details=details,
        )
        note(world, entry)
        return world.put(TERMS, terms)
