"""`interlock exec --resume ID`: go on with an execution as its record says, never by guessing."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, cast

from interlock.cli.exits import Exit, Failed
from interlock.execution.approved import known_end

_JOB_PREFIX = "job_"


def resume(args: Namespace) -> int:
    """Replay how it ended if it did; refuse if that is open; else go on from where it stopped."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        ended = known_end(client, args.resume)
        if ended is not None:
            _tell_replayed(args.resume, ended.exit_code)
            return ended.exit_code
        if args.resume.startswith(_JOB_PREFIX):
            return _resume_job(client, args)
        return _resume_claim(client, args)


def _resume_job(client: Any, args: Namespace) -> int:
    from interlock.cli.exec_asking import run_decided
    from interlock.cli.exec_preparing import effective_command
    from interlock.sdk.models import Job

    job: Job = client.job(args.resume)
    if not args.words:
        args.words, args.is_task, args.command = _words_of(job.id, job.payload)
    return run_decided(client, args, effective_command(args), job)


def _resume_claim(client: Any, args: Namespace) -> int:
    """A claim that never started: the same execution id gets the same use, and only for the same command."""
    from interlock.cli.exec_granted import claim_and_run
    from interlock.cli.exec_preparing import effective_command
    from interlock.execution.remote import ClientGate

    if not args.words or not args.is_task:
        again = f"interlock exec --resume {args.resume} TASK ARGS"
        raise Failed(f"{args.resume} never started; say its task and arguments again: {again}", Exit.USAGE)
    prepared = effective_command(args)
    ended = claim_and_run(ClientGate(client), args, prepared, args.resume)
    if ended is None:
        raise Failed(
            f"{args.resume} has no claimed grant for this command, so nothing ran; run it without --resume to ask",
            Exit.DENIED,
            name="not_claimed",
        )
    return ended.exit_code


def _words_of(job_id: str, payload: object) -> tuple[list[str], bool, list[str]]:
    """The words that a job was asked for with, whether a task comes first, and the command after its dashes."""
    asked = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if "argv" not in asked or "args" not in asked:
        raise Failed(f"{job_id} was not submitted by `interlock exec`; there is no command in it", Exit.USAGE)
    task, argv = asked.get("task"), list(asked["argv"])
    if task and asked.get("definition") is None:
        return [str(task), *argv], True, argv
    return ([str(task), *asked["args"]], True, []) if task else (argv, False, [])


def _tell_replayed(execution_id: str, exit_code: int) -> None:
    from interlock.cli.output import warn

    warn(f"{execution_id} ran before and ended with {exit_code}; it did not run again")
