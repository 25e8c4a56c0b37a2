"""What people do around a request besides deciding: comments, questions, and who has it open.

These are records of their own, one of each per job. So a job that is voted on, claimed or renewed does not carry them
along, and opening a page cannot make a decision wait or fail.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record

COMMENTS_MAX = 200
COMMENT_BYTES_MAX = 4096
VIEWERS_MAX = 50
# How often a look is written, at most, and for how long after one a person counts as present.
WRITE_AFTER = timedelta(seconds=15)
HERE_FOR = timedelta(seconds=45)


class CommentKind(StrEnum):
    """A remark, or a question to the submitter of the request."""

    COMMENT = "comment"
    ASK = "ask"


class Comment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A comment on a request. `answers`: it is the submitter's, so it answers the questions before it."""

    id: str
    kind: CommentKind
    by: str
    at: datetime
    text: str
    via: str = "api"
    answers: bool = False


class Discussion(Record, frozen=True, kw_only=True):
    """All comments on one job's requests, the oldest first. Its id is the job's."""

    comments: tuple[Comment, ...] = ()


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
DISCUSSIONS = Kind("discussion", Discussion, table="discussions")
