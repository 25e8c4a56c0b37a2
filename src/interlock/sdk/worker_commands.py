"""A handler that runs a command for each job: payload in, exit code and output out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from interlock.kernel.codec.strict import DEPTH_MAX, JsonRefused, parse
from interlock.sdk.outcomes import Final, Retryable
from interlock.sdk.worker_jobs import AsyncWork

TEMPFAIL = 75
OUTPUT_BYTES_MAX = 128 * 1024
STOP_SECONDS = 5.0
# A result travels one level inside the body of its call.
_RESULT_DEPTH_MAX = DEPTH_MAX - 1


def run_command(command: str, *, retry_any: bool = False) -> Callable[[AsyncWork], Awaitable[Any]]:
    """A handler that gives each job to `command`, a line for the shell.

    It is ended, with everything it started, when its job is lost: SIGTERM, then SIGKILL.
    """

    async def run(work: AsyncWork) -> Any:
        process = await _started(command, _environment(work))
        try:
            output = await _talk(process, msgspec.json.encode(work.payload))
        except BaseException:
            await _end(process)
            raise
        return _result(process.returncode, output, retry_any=retry_any)

    return run


async def _started(command: str, environment: dict[str, str]) -> Process:
    """Start the command as the leader of a group of its own; if the job is lost meanwhile, end the group."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_shell(
            command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cut off in the middle of starting, asyncio would end the shell alone and leave its children.
        await _end(await starting)
        raise


async def _talk(process: Process, payload: bytes) -> bytes:
    """Write the payload, read what comes, wait for the end. A command need not read its input."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the command was started without pipes")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(payload)
        await process.stdin.drain()
    process.stdin.close()
    output = bytearray()
    while chunk := await process.stdout.read(65536):
        output += chunk
        if len(output) > OUTPUT_BYTES_MAX:
            raise Final(f"the command printed more than {OUTPUT_BYTES_MAX} bytes; print a reference instead")
    await process.wait()
    return bytes(output)


def _result(code: int | None, output: bytes, *, retry_any: bool) -> Any:
    if code == 0:
        return _parsed(output)
    how = f"the command was ended by signal {-code}" if code is not None and code < 0 else f"exit {code}"
    if code == TEMPFAIL or retry_any:
        raise Retryable(how)
    raise Final(how)


def _parsed(output: bytes) -> Any:
    """What was printed: as JSON if the service can keep it so, else as text. The work is done, whatever it says."""
    try:
        return parse(output, depth_max=_RESULT_DEPTH_MAX)
    except JsonRefused:
        return output.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip() or None


async def _end(process: Process) -> None:
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
            return


def _environment(work: AsyncWork) -> dict[str, str]:
    left = work.last_checkpoint
    # The worker's own key stays with the worker: a command gets a permit for its job, and no more.
    inherited = {name: value for name, value in os.environ.items() if name != "INTERLOCK_KEY"}
    return inherited | {
        "INTERLOCK_PERMIT": work.permit,
        "INTERLOCK_JOB_ID": work.id,
        "INTERLOCK_JOB_HASH": work.job_hash,
        "INTERLOCK_TOPIC": work.topic,
        "INTERLOCK_FENCE": str(work.fence),
        "INTERLOCK_ATTEMPT": str(work.attempt),
        "INTERLOCK_CHECKPOINT": "" if left is None else msgspec.json.encode(left).decode(),
    }
