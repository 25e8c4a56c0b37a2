"""Telling the service how work ended, through trouble, for as long as the job is ours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from interlock.sdk.outcomes import (
    Conflict,
    Forbidden,
    InterlockError,
    InvalidRequest,
    NoStore,
    NotFound,
    Unauthenticated,
)
from interlock.sdk.worker_errors import Final, LeaseLost, Retryable, described

if TYPE_CHECKING:
    from interlock.sdk.async_client import AsyncInterlock
    from interlock.sdk.models import Job
    from interlock.sdk.worker_jobs import Hold

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5
# Said by the service, these do not pass by themselves.
REFUSALS = (Forbidden, Unauthenticated, InvalidRequest, NoStore)


class Settled(StrEnum):
    """How a worker's hold on a job ended. `LOST`: somebody else has it, and nothing of ours was kept."""

    SUCCEEDED = "succeeded"
    RETRYING = "retrying"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"


_OF_STATE = {"SUCCEEDED": Settled.SUCCEEDED, "FAILED": Settled.FAILED, "PENDING": Settled.RETRYING}


async def settle_result(client: AsyncInterlock, hold: Hold, result: Any) -> Settled:
    """Complete the job. A result that the service cannot keep makes it a dead letter that says so."""
    job = hold.job
    try:
        return await _settle(
            hold, lambda: client.complete(job.id, job.fence, result=result, key=_key(hold, "complete"))
        )
    except InvalidRequest as refused:
        return await settle_failure(
            client, hold, Final(f"the work is done, but its result was refused: {refused}")
        )


async def settle_failure(client: AsyncInterlock, hold: Hold, error: Exception) -> Settled:
    """Fail the job; only `Final` is not tried again."""
    if isinstance(error, LeaseLost):
        return Settled.LOST
    job, retryable = hold.job, not isinstance(error, Final)
    expected = isinstance(error, Final | Retryable)
    said = described(error)
    trace = None if expected else error
    log.warning("work on %s failed: %s: %s", job.id, said["type"], said["message"], exc_info=trace)
    return await _settle(
        hold,
        lambda: client.fail(job.id, job.fence, error=said, retryable=retryable, key=_key(hold, "fail")),
    )


async def settle_release(client: AsyncInterlock, hold: Hold) -> Settled:
    """Give the job back."""
    job = hold.job
    ended = await _settle(hold, lambda: client.release(job.id, job.fence, key=_key(hold, "release")))
    return Settled.RELEASED if ended is Settled.RETRYING else ended


async def _settle(hold: Hold, attempt: Callable[[], Awaitable[Job]]) -> Settled:
    """Try until the service has answered or the job is lost. Repeating is safe: the call carries a key."""
    while not hold.lost.is_set():
        try:
            job = await hold.settle(attempt)
        except InterlockError as error:
            if isinstance(error, REFUSALS) and not error.is_foreign:
                raise
            if isinstance(error, Conflict | NotFound) and not error.is_foreign:
                log.warning("%s was lost: %s", hold.job.id, error)
                return Settled.LOST
            log.warning("cannot say how %s ended: %s", hold.job.id, error)
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return _OF_STATE.get(job.state, Settled.FAILED)
    return Settled.LOST


def _key(hold: Hold, verb: str) -> str:
    return f"{hold.job.id}/{hold.job.fence}/{verb}"
