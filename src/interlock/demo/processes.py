"""The processes that the demo starts and kills: `python -m interlock.demo.processes PART`.

Each of them finds the service and its key where every client does, in `INTERLOCK_URL` and `INTERLOCK_KEY`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from interlock.sdk.client import Interlock
from interlock.sdk.worker import Worker
from interlock.sdk.worker_jobs import AsyncWork

PAYOUT = "finance.payout.execute"
REPORT = "reports.render"
RESERVED = {"reserved": "bank-ref-88"}
LEASE_SECONDS = 1
REFUND_PART = "refund"
REFUND_ACTION = "refund:4711"
REFUND_TTL_SECONDS = 1
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


WORKER_PARTS: Mapping[str, tuple[str, Callable[[AsyncWork], Awaitable[Any]]]] = {
    "stall": (PAYOUT, stall),
    "finish": (PAYOUT, finish),
    "render": (REPORT, render),
}


def pay(ticket: str, cents: int, *, downstream_key: str = "") -> None:
    """Call the bank, or not: the process is killed before anyone can tell."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(part: str) -> None:
    """Work until killed; as `refund`, be killed while paying once."""
    if part == REFUND_PART:
        with Interlock() as il:
            il.once(REFUND_ACTION, pay, "4711", 4_200, ttl=REFUND_TTL_SECONDS)
        return
    topic, act = WORKER_PARTS[part]
    worker = Worker(concurrency=1, lease_seconds=LEASE_SECONDS)
    worker.handler(topic)(act)
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1])
