"""Reading jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.ids import made_at
from interlock.kernel.pages import Records, page_of
from interlock.kernel.record import micros
from interlock.kernel.storage import Store
from interlock.rooms.jobs.model import JOBS, Job, JobState
from interlock.rooms.policy.matching import topics_test

DEAD_COUNTED_MAX = 10_000
AWAITING_COUNTED_MAX = 10_000

_EXACT_MAX = 4
_TOPICS_MAX = 16
_TOPIC_PAGE = 500
_TOPIC_PAGES_MAX = 20
_CLOCK_SLACK_MICROS = 2_000_000


async def read_job(store: Store, tenant: str, job_id: str) -> Job | None:
    return await store.get(JOBS, tenant, job_id)


async def list_jobs(
    store: Store,
    tenant: str,
    *,
    state: JobState | None,
    topic: str | None,
    now: datetime,
    before: str | None,
    limit: int,
) -> Records[Job]:
    """Jobs, newest first, narrowed by topic and by state as of `now`."""
    name, params = listing_of(tenant, state, topic, now)
    # What is due may be due for an escalation alone, so the clock's last word is the rule's, not the query's.
    return await page_of(
        store, JOBS, name, params, before, limit, keep=lambda job: state in (None, job.state_at(now))
    )


def listing_of(
    tenant: str, state: JobState | None, topic: str | None, now: datetime
) -> tuple[str, dict[str, Any]]:
    """The query that lists jobs of one topic and state, newest first, and its parameters but for the page's."""
    is_expired = state is JobState.EXPIRED
    given = {"state": state.value if state and not is_expired else None, "topic": topic}
    by = {name: value for name, value in given.items() if value is not None}
    listing = "list_expired_jobs" if is_expired else "list_jobs"
    name = f"jobs.{listing}{'_by_' if by else ''}{'_and_'.join(by)}"
    return name, {"tenant": tenant, **by, **({"now": micros(now)} if is_expired else {})}


async def list_observed(store: Store, tenant: str, *, before: str | None, limit: int) -> Records[Job]:
    """Jobs that enforcement would have stopped, newest first."""
    return await page_of(store, JOBS, "jobs.list_observed", {"tenant": tenant}, before, limit)


async def topics_to_claim(
    store: Store, tenant: str, patterns: Sequence[str], now: datetime
) -> tuple[str, ...]:
    """The exact topics that a claim should look at: a few exact ones as they are, else those with work.

    Globs become the topics that have work now, those whose first job is next in turn first. A topic that gets
    work a moment later is found the next time, to which its wake-up leads.
    """
    if len(patterns) <= _EXACT_MAX and not any("*" in pattern for pattern in patterns):
        return tuple(dict.fromkeys(patterns))
    wanted = topics_test(tuple(patterns))
    turns: list[tuple[bool, int, str]] = []
    after = ""
    for _ in range(_TOPIC_PAGES_MAX):
        params = {
            "tenant": tenant,
            "after": after,
            "now": micros(now) + _CLOCK_SLACK_MICROS,
            "limit": _TOPIC_PAGE,
        }
        rows = await store.query("jobs.runnable_topics", params)
        turns += [(turn is None, int(turn or 0), topic) for topic, turn in rows if wanted(topic)]
        if len(rows) < _TOPIC_PAGE:
            break
        after = rows[-1][0]
    return tuple(topic for _, _, topic in sorted(turns)[:_TOPICS_MAX])


async def count_dead(store: Store) -> int:
    """How many dead letters there are, counted up to a bound."""
    return int((await store.query("jobs.count_dead", {"limit": DEAD_COUNTED_MAX}))[0][0])


async def count_dead_of(store: Store, tenant: str, *, limit: int) -> int:
    """How many dead letters a tenant has, counted up to `limit`."""
    return int((await store.query("jobs.count_dead_of_tenant", {"tenant": tenant, "limit": limit}))[0][0])


class Awaiting(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for people in a tenant: how many requests, and since when the oldest."""

    tenant: str
    count: int
    since: datetime


async def count_awaiting(store: Store) -> list[Awaiting]:
    """What waits for people, by tenant, counted up to a bound in all."""
    rows = await store.query("jobs.count_awaiting", {"limit": AWAITING_COUNTED_MAX})
    return [Awaiting(tenant=row[0], count=int(row[1]), since=made_at(row[2])) for row in rows]
