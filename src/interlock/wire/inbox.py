"""What waits for a reviewer, and how much needs attention."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.wire.approvals import ApprovalItem


class InboxItem(ApprovalItem, frozen=True, kw_only=True):
    """A request that waits for people. It is `mine` if a yes of the caller's would count.

    `why_not` is `own_request`, `not_in_groups`, `voted` or `not_a_reviewer` if it is not. `ends_at` is when it expires
    for good. `blocks` counts, up to 100, the other jobs for the same target that have not run, and the run that waits
    for it. `open_questions` counts those that the submitter has not answered.
    """

    mine: bool = False
    why_not: str | None = None
    ends_at: datetime | None = None
    blocks: int = 0
    open_questions: int = 0


class InboxCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much needs attention, each 1,000 at most. Those in `at_least` may be more than was counted.

    `expiring_soon` are those of `waiting_for_me` that expire within the hour. `waiting` and the counts after it are of
    the whole tenant.
    """

    waiting_for_me: int = 0
    expiring_soon: int = 0
    waiting: int = 0
    conflicts_open: int = 0
    effects_ambiguous: int = 0
    dead_letters: int = 0
    at_least: tuple[str, ...] = ()


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """One page of what waits for people, and the counts.

    A page may have fewer items than were asked for, or none, and a `next_cursor` all the same; it is null on the last.
    """

    items: tuple[InboxItem, ...]
    next_cursor: str | None = None
    counts: InboxCounts = InboxCounts()
