"""A worker of the demo, in its own process so that it can be killed: `python -m interlock.demo.hand PART`.

It finds the service and its key where every client does, in `INTERLOCK_URL` and `INTERLOCK_KEY`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from interlock.sdk.worker import Worker
from interlock.sdk.worker_jobs import AsyncWork

PAYOUT = "finance.payout.execute"
REPORT = "reports.render"
RESERVED = {"reserved": "bank-ref-88"}
LEASE_SECONDS = 1
_FOR_EVER_SECONDS = 3600.0


async def stall(work: AsyncWork) -> None:
    """Do the first half, leave a note of it, and never come to the second."""
    await work.checkpoint(RESERVED)
    await asyncio.sleep(_FOR_EVER_SECONDS)


async def finish(work: AsyncWork) -> dict[str, Any]:
    """Do what is left to do."""
    return {"went_on_from": work.last_checkpoint}


async def render(work: AsyncWork) -> str:
    """Render a report, unless it is the one that no worker survives."""
    if work.payload.get("poison"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "rendered"


PARTS: Mapping[str, tuple[str, Callable[[AsyncWork], Awaitable[Any]]]] = {
    "stall": (PAYOUT, stall),
    "finish": (PAYOUT, finish),
    "render": (REPORT, render),
}


def main(part: str) -> None:
    """Work until ended."""
    topic, act = PARTS[part]
    worker = Worker(concurrency=1, lease_seconds=LEASE_SECONDS)
    worker.handler(topic)(act)
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1])
