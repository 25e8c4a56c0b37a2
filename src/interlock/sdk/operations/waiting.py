"""Waiting for a job, for as long as it takes, without asking more often than it helps.

The service is asked to hold each question until there is news (a long poll). One that answers at once
instead, or does not know the parameters, is asked slowly, with jitter. A service that is away does not
end a long wait: the next question goes out when the breaker allows it, until the caller's time is up.
"""

from __future__ import annotations

from math import inf
from typing import Literal, TypeAlias

from interlock.sdk.calls import fetch, path
from interlock.sdk.flow import Flow, Say, now, sleep
from interlock.sdk.models import Job
from interlock.sdk.outcomes import Busy, Full, InterlockError, InvalidRequest, StillPending, Unavailable
from interlock.sdk.session import Session

Until: TypeAlias = Literal["decided", "finished"]

HOLD_SECONDS = 20
POLL_SECONDS_FIRST = 0.5
POLL_SECONDS_MOST = 10.0


def wait(
    session: Session, job_id: str, timeout: float | None = None, *, until: Until = "finished"
) -> Flow[Job]:
    """Wait until a job is `decided` (no person has to act any more) or `finished`, and return it.

    `timeout` is in seconds, None for ever, 0 to look once. Raises `StillPending` when it is up; the job
    goes on, and waiting again resumes where this wait left off.
    """
    seen = yield from fetch(session, path("jobs", job_id), Job)
    return (yield from watch(session, seen, timeout=timeout, until=until))


def watch(
    session: Session, seen: Job, *, timeout: float | None, until: Until, aloud: bool = False
) -> Flow[Job]:
    """Wait as `wait` does, beginning from a job already seen. `aloud` prints what is waited for, once."""
    latest: Job | InterlockError = seen
    latest_at = yield from now()
    ends_at = inf if timeout is None else latest_at + timeout
    pause = POLL_SECONDS_FIRST
    say = _says(session, seen, timeout, until, aloud=aloud)
    while not (isinstance(latest, Job) and _reached(latest, until)):
        if latest_at >= ends_at:
            raise _out_of_time(seen, latest)
        asked_at = yield from now()
        hold = _hold_seconds(session, ends_at - asked_at)
        latest = yield from _look(session, seen.id, until, hold, ends_at - asked_at, say)
        latest_at = yield from now()
        if hold and latest_at - asked_at >= hold * 0.9:
            pause = POLL_SECONDS_FIRST  # held as asked: the next question may follow at once
        elif not (isinstance(latest, Job) and _reached(latest, until)):
            yield from sleep(max(0.0, min(_rest(session, latest, pause), ends_at - latest_at)))
            pause = min(POLL_SECONDS_MOST, pause * 1.5)
    return latest


def _hold_seconds(session: Session, left: float) -> int:
    """How long the service is asked to hold a question; 0 asks it to answer at once."""
    return int(min(max(left, 0.0), HOLD_SECONDS)) if session.long_polls else 0


def _says(session: Session, job: Job, timeout: float | None, until: Until, *, aloud: bool) -> Say | None:
    approval = job.approval if job.state == "APPROVAL" else None
    if approval is None:
        what = f"job {job.id} ({job.topic}) to be {until}"
    else:
        left = max(1, approval.quorum - len(approval.votes))
        what = f"{left} approval{'s' if left > 1 else ''} of job {job.id} ({job.topic})"
    return session.says(what, timeout, until=approval.expires_at if approval else None, aloud=aloud)


def _look(
    session: Session, job_id: str, until: Until, hold: int, left: float, say: Say | None
) -> Flow[Job | InterlockError]:
    """Ask once. Trouble that passes is an answer too; a refusal is raised."""
    query = {"wait_seconds": hold, "until": until} if hold else {}
    deadline = max(left - hold, session.timeout_seconds)
    try:
        return (
            yield from fetch(
                session,
                path("jobs", job_id),
                Job,
                query,
                hold_seconds=hold,
                deadline_seconds=deadline,
                say=say,
            )
        )
    except InvalidRequest:
        if not hold:
            raise
        session.long_polls = False  # an older server; it is asked plainly from now on
        return (yield from fetch(session, path("jobs", job_id), Job, deadline_seconds=deadline))
    except (Unavailable, Busy, Full) as trouble:
        return trouble


def _reached(job: Job, until: Until) -> bool:
    return job.is_decided if until == "decided" else job.is_finished


def _rest(session: Session, latest: Job | InterlockError, pause: float) -> float:
    """How long to leave the service alone: around `pause`, and no shorter than it asked for."""
    asked = latest.problem.retry_after_seconds if isinstance(latest, InterlockError) else None
    return (asked or 0.0) + pause * (0.5 + session.fraction())


def _out_of_time(seen: Job, latest: Job | InterlockError) -> InterlockError:
    if isinstance(latest, InterlockError):
        return latest
    resume = f"resume with wait({seen.id!r}), or read it with job({seen.id!r})"
    return StillPending(seen.id, state=latest.state, resume=resume)
