"""Serving a service that was put together for a comparison, in a process of its own: `python -m MODULE PORT`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine

from interlock.api.asgi import InterlockApp
from interlock.api.server import granian, settle_memory
from interlock.service.logs import Log
from interlock.service.service import Service
from interlock.service.settings import Settings


async def serve(service: Service, port: int) -> None:
    """Answer until the process is killed."""
    app = InterlockApp(service.settings, Log(level="error"))
    with app.answering(service):
        settle_memory()
        await granian(app, Settings(port=port)).serve()


def main(served: Callable[[int], Coroutine[None, None, None]]) -> None:
    """Run on the same loop as a server does."""
    asyncio.run(served(int(sys.argv[1])))
