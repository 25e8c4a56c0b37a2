"""`interlock worker`: runs a command for each job, for work that is not written in Python.

The job's payload is the command's standard input; the job's identity and the permit are in its environment. Exit 0
completes the job with the command's output (as JSON, if it is JSON), exit 75 (EX_TEMPFAIL) asks for another attempt,
and any other exit is final unless `--retry-any`. The worker keeps trying while it cannot claim, so it has no
`--patience`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from argparse import Namespace
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, given, makes_store, wants_json
from interlock.cli.output import say, say_json
from interlock.kernel.codec.strict import DEPTH_MAX, JsonRefused, parse
from interlock.sdk.outcomes import Final, InvalidRequest, Retryable
from interlock.sdk.worker_jobs import AsyncWork, Settled

if TYPE_CHECKING:
    from interlock.wire.jobs import HeldJob

_EVERY_TOPIC = ("**",)
_MORE = """\
the command gets:
  stdin                 the payload, as JSON
  INTERLOCK_PERMIT      a signed token, for the tool that acts
  INTERLOCK_CHECKPOINT  what the attempt before recorded, as JSON, or empty
  INTERLOCK_JOB_ID, INTERLOCK_JOB_HASH, INTERLOCK_TOPIC, INTERLOCK_FENCE and
  INTERLOCK_ATTEMPT     what they say

exit codes of the command:
  0     done; what it printed is the result
  75    try again later (EX_TEMPFAIL)
  else  a dead letter; with --retry-any, try again
"""


def declare_worker() -> Parser:
    """The options of `interlock worker`."""
    parser = Parser(
        "interlock worker",
        description="Run a command for each approved job, and say how it ended.\n"
        "Leases are renewed while it runs; SIGTERM lets what was begun finish.\n"
        "While the service is out of reach, it keeps trying.",
        examples=(
            "interlock worker --topic finance.payment.* --exec './pay.sh'",
            "interlock worker --topic mail.send --exec 'python send.py' --concurrency 8",
        ),
        more=_MORE,
    )
    parser.add_argument(
        "--topic", action="append", metavar="TOPIC", help="exact or a glob; repeatable (default: every topic)"
    )
    parser.add_argument("--exec", dest="command", required=True, metavar="CMD", help="a shell command")
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="jobs at a time (default 1)")
    parser.add_argument(
        "--lease-seconds", type=int, default=30, metavar="N", help="length of a lease (default 30)"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=30.0, metavar="N", help="time to finish (default 30)"
    )
    parser.add_argument("--retry-any", action="store_true", help="try again after every failure")
    parser.add_argument("--once", action="store_true", help="wait for one job, do it, and end")
    return finished(parser, run_worker, gives_up=False)


def run_worker(args: Namespace) -> int:
    """Work until told to stop; with `--once`, end as the job did."""
    from interlock.cli.connection import translated
    from interlock.sdk.worker import Worker

    ends: list[Settled] = []

    def settled(job: HeldJob, end: Settled) -> None:
        ends.append(end)
        _tell(job, end, as_json=wants_json(args))

    with translated(args):
        try:
            worker = Worker(
                given(args, "url"),
                given(args, "api_key"),
                store=given(args, "store"),
                make_store=makes_store(args),
                concurrency=1 if args.once else args.concurrency,
                lease_seconds=args.lease_seconds,
                drain_seconds=args.drain_seconds,
                jobs_max=1 if args.once else None,
                on_settled=settled,
            )
            worker.handler(*(args.topic or _EVERY_TOPIC))(run_command(args.command, retry_any=args.retry_any))
        except (ValueError, InvalidRequest) as error:
            raise Failed(str(error), Exit.USAGE) from None
        worker.run()
    if args.once and ends != [Settled.SUCCEEDED]:
        return Exit.ERROR if ends else Exit.WAITING
    return Exit.DONE


def _tell(job: HeldJob, end: Settled, *, as_json: bool) -> None:
    import sys

    if as_json:
        say_json(
            {"job_id": job.id, "topic": job.topic, "attempt": job.attempt, "fence": job.fence, "outcome": end}
        )
    else:
        say(f"{job.id} {job.topic}: {end.value} (attempt {job.attempt})")
    sys.stdout.flush()


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
