"""Searching jobs by words, newest first.

A word that begins as our ids do is looked up where such ids are. For other words one page goes through a bounded
number of jobs, however many there are: it may have fewer items than were asked for, or none, and still say where to
go on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from interlock.kernel.pages import NEWEST, Records, readable, rows_for_page
from interlock.kernel.storage import Store
from interlock.rooms.jobs.inbox_queries import has_words
from interlock.rooms.jobs.model import JOBS, Job, JobState
from interlock.rooms.jobs.queries import listing_of
from interlock.rooms.policy.matching import topic_test

_ROWS_A_LOOK = 500
_LOOKS_A_PAGE = 10
_BEGINNING_OF_ID = re.compile(r"job_[0-9a-f]{1,32}")


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are looked for: every word occurs in what names them. `topic` may be a pattern."""

    words: tuple[str, ...] = ()
    topic: str | None = None
    state: JobState | None = None


async def search_jobs(
    store: Store, tenant: str, sought: Sought, *, now: datetime, before: str | None, limit: int
) -> Records[Job]:
    """The jobs that are sought, newest first."""
    words = tuple(word.casefold() for word in sought.words)
    first = max((word for word in words if _BEGINNING_OF_ID.fullmatch(word)), key=len, default="")
    is_exact = sought.topic is not None and "*" not in sought.topic
    name, params = listing_of(tenant, sought.state, sought.topic if is_exact else None, now)
    fits_topic = topic_test(sought.topic) if sought.topic else None
    place = min(before or NEWEST, f"{first}{NEWEST}") if first else before or NEWEST
    count, items = _ROWS_A_LOOK, list[Job]()
    for _ in range(_LOOKS_A_PAGE):
        rows, is_full = await rows_for_page(store, name, {**params, "before": place, "limit": count})
        found = readable(JOBS, (row[0] for row in rows))
        is_last = not is_full and len(rows) < count
        if not found and not is_last:
            count *= 2  # Not even where to go on can be read, so look further from here.
            continue
        items += [
            job
            for job in found
            if sought.state in (None, job.state_at(now))
            and (fits_topic is None or fits_topic(job.action.topic))
            and _is_named(job, words, first)
        ]
        if len(items) > limit:
            return Records(items[:limit], items[limit - 1].id)
        if is_last or (found and found[-1].id < first):
            return Records(items, None)
        place = found[-1].id
    return Records(items, place)


def _is_named(job: Job, words: Sequence[str], first: str) -> bool:
    return job.id.startswith(first) and (not words or has_words(job, words))
