"""Who has opened a request, and who looks at it now: one small record per job, apart from the job itself.

A look never touches the job's record, so that opening a page cannot make a decision wait or fail.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Kind, Record

VIEWERS_MAX = 50
# How often a look is written, at most, and for how long after one a person counts as present.
WRITE_AFTER = timedelta(seconds=15)
HERE_FOR = timedelta(seconds=45)


class Viewer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person who opened a request: when first, when last, and in which round last."""

    principal: str
    first_at: datetime
    last_at: datetime
    round: int = 1

    def is_here_at(self, now: datetime) -> bool:
        """Whether this person has the request open, as far as is known."""
        return now - self.last_at < HERE_FOR


class Audience(Record, frozen=True, kw_only=True):
    """The people who looked at one job's requests, who came last first. Its id is the job's."""

    viewers: tuple[Viewer, ...] = ()

    def viewer(self, principal: str) -> Viewer | None:
        """What is known of one person."""
        return next((each for each in self.viewers if each.principal == principal), None)

    def with_look(self, principal: str, now: datetime, round_number: int) -> Audience:
        """The audience after this person looked; the same one if that is known already."""
        before = self.viewer(principal)
        if before and before.round == round_number and now - before.last_at < WRITE_AFTER:
            return self
        first_at = before.first_at if before else now
        latest = Viewer(principal=principal, first_at=first_at, last_at=now, round=round_number)
        others = tuple(each for each in self.viewers if each.principal != principal)
        return msgspec.structs.replace(self, viewers=(latest, *others)[:VIEWERS_MAX])


AUDIENCES = Kind("audience", Audience, table="audiences")
