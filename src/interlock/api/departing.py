"""Waiting no longer than whoever asked is there to be answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from interlock.api.http import Request
from interlock.kernel.lines import Place
from interlock.kernel.wakes import Subscription


@contextlib.asynccontextmanager
async def departure(request: Request) -> AsyncGenerator[asyncio.Event]:
    """An event that is set when the client goes away."""
    gone = asyncio.Event()

    async def watch() -> None:
        if request.gone is not None:
            await request.gone()
            gone.set()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()


async def sleep(seconds: float, woken: Subscription | Place, gone: asyncio.Event) -> None:
    """Until woken, until the client leaves, or for so long."""
    waits = [asyncio.create_task(woken.wait(seconds)), asyncio.create_task(gone.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
    finally:
        for task in waits:
            task.cancel()
