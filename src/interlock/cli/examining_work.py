"""What `interlock doctor` looks at in work: dead letters, calls in doubt, leases nobody settled, idle jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from interlock.cli.connection import listing, typed
from interlock.cli.examining import EXAMINED_MAX, Finding
from interlock.cli.job_page import is_call
from interlock.cli.wording import counted, safe
from interlock.sdk.models import Job

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock

UNCLAIMED_LONG = timedelta(minutes=5)
UNSETTLED_LONG = timedelta(minutes=1)


def examine_work(client: Interlock) -> Iterator[Finding]:
    """Every finding about work."""
    now = datetime.now(UTC)
    failed = _jobs(client, "FAILED")
    yield from dead_letters([job for job in failed if not is_call(job)])
    yield from calls_in_doubt([job for job in failed if is_call(job)])
    yield from unsettled_leases(_jobs(client, "RUNNING"), now)
    yield from unclaimed_topics(_jobs(client, "PENDING"), now)


def dead_letters(failed: Sequence[Job]) -> Iterator[Finding]:
    """What failed for good, and waits for somebody to retry or dismiss it?"""
    if failed:
        oldest = min(failed, key=_changed)
        yield Finding(
            level="note",
            about="dead letters",
            text=f"{counted(len(failed), 'job')} failed for good, the oldest {oldest.id} ({safe(oldest.topic)})",
            since=_changed(oldest),
            next_step=f"interlock job {oldest.id} says why; interlock retry {oldest.id}, or interlock cancel",
        )


def calls_in_doubt(failed: Sequence[Job]) -> Iterator[Finding]:
    """Which gated calls may or may not have happened, and wait for somebody to find out?"""
    if failed:
        oldest = min(failed, key=_changed)
        whether = f"whether {'it' if len(failed) == 1 else 'they'} happened is not known"
        yield Finding(
            level="note",
            about="calls",
            text=f"{counted(len(failed), 'gated call')} in doubt ({whether}), "
            f"the oldest {oldest.id} ({safe(oldest.topic)})",
            since=_changed(oldest),
            next_step=f"interlock effect show call:{oldest.id} says what to ask, and how to record the answer",
        )


def unsettled_leases(running: Sequence[Job], now: datetime) -> Iterator[Finding]:
    """Whose worker is gone, and no sweep has noticed?"""
    ended = [job for job in running if job.lease_expires_at and job.lease_expires_at < now - UNSETTLED_LONG]
    if ended:
        yield Finding(
            level="wrong",
            about="leases",
            text=f"{counted(len(ended), 'lease')} ran out and nobody settled it",
            since=min(job.lease_expires_at for job in ended if job.lease_expires_at),
            next_step="keep one `interlock serve` running; it settles them within seconds",
        )


def unclaimed_topics(pending: Sequence[Job], now: datetime) -> Iterator[Finding]:
    """Which topics have work that no worker takes, and which jobs may not run although they were released?"""
    waiting: dict[str, list[Job]] = defaultdict(list)
    for job in pending:
        if job.held_up is not None:
            yield Finding(
                level="wrong",
                about="work",
                text=f"{job.id} is held up: {safe(job.held_up)}",
                since=_changed(job),
                next_step="correct the policy (`interlock policy evaluate` explains it); it is then tried again",
            )
        elif is_call(job):
            continue  # no worker may take it: it waits until its caller calls again
        elif (job.not_before or _changed(job)) < now - UNCLAIMED_LONG:
            waiting[job.topic].append(job)
    for topic, jobs in sorted(waiting.items()):
        yield Finding(
            level="wrong",
            about="work",
            text=f"{counted(len(jobs), 'job')} of {safe(topic)} released, and no worker takes it",
            since=min(job.not_before or _changed(job) for job in jobs),
            next_step=f"start a worker for it: interlock worker --topic {safe(topic)} --exec CMD",
        )


def _changed(job: Job) -> datetime:
    return job.updated_at or job.submitted_at or datetime.now(UTC)


def _jobs(client: Interlock, state: str) -> tuple[Job, ...]:
    page = listing(client, "jobs", limit=EXAMINED_MAX, cursor=None, query={"state": state})
    return tuple(typed(item, Job) for item in page["items"])
