"""Calling a handler. What it raises is how its job ends, never how the worker or its other jobs do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

from interlock.sdk.worker_errors import Final, Retryable
from interlock.sdk.worker_jobs import AsyncWork, Hold, Work


async def call_handler(
    function: Callable[..., Any], hold: Hold, *, keeping: asyncio.Task[None], threads: Executor | None
) -> Any:
    """Run the handler. A coroutine is cancelled when its job is lost; a thread cannot be, and is told."""
    if not inspect.iscoroutinefunction(function):
        return await asyncio.get_running_loop().run_in_executor(threads, _call, function, Work(hold))
    running = asyncio.ensure_future(_awaited(function(AsyncWork(hold))))
    is_over = False
    try:
        await asyncio.wait({running, keeping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_over = running.done()
        if not is_over:
            running.cancel()
            await asyncio.wait({running})
    if is_over and running.cancelled():
        # Nobody told it to stop. As if it had been, its job would be given back for ever, no attempt counted.
        raise _quit(asyncio.CancelledError())
    return running.result()


def _call(function: Callable[[Work], Any], work: Work) -> Any:
    try:
        return _run(function(work))
    except Exception:
        raise
    except BaseException as error:
        raise _quit(error) from error


def _run(result: Any) -> Any:
    """A result, but none that would have to be run first: that work was done would not be true."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        if not inspect.isasyncgen(result):
            result.close()
        kind = type(result).__name__
        raise Final(f"the handler returned a {kind}, so nothing was done; make it a function or `async def`")
    return result


async def _awaited(working: Awaitable[Any]) -> Any:
    try:
        return _run(await working)
    except SystemExit as error:
        raise _quit(error) from error


def _quit(error: BaseException) -> Retryable:
    return Retryable(f"the handler raised {type(error).__name__}, which ends its job and not the worker")
