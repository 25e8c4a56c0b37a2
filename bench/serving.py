"""Serving a service that was put together for a comparison, in a process of its own: `python -m MODULE PORT`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine

import uvloop

from interlock.api.assembly import assemble
from interlock.api.logs import Log
from interlock.runtime.listening import Listening
from interlock.runtime.memory import settle_memory
from interlock.runtime.service import Service


async def serve(service: Service, port: int) -> None:
    """Answer until the process is killed."""
    listening = Listening(assemble(service, Log(level="error")))
    async with await listening.loop.create_server(listening.connection, "127.0.0.1", port):
        settle_memory()
        await asyncio.Event().wait()


def main(served: Callable[[int], Coroutine[None, None, None]]) -> None:
    """Run on the same loop as a server does."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(served(int(sys.argv[1])))
