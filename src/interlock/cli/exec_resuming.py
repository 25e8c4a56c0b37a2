"""`interlock exec --resume ID`: go on with an execution as its record says, never by guessing."""

from __future__ import annotations

from argparse import Namespace
from typing import Annotated, Any, cast

import msgspec

from interlock.cli.exec_ending import exit_code_of
from interlock.cli.exits import Exit, Failed
from interlock.execution.approved import finish_known, known_end

_JOB_PREFIX = "job_"


def resume(args: Namespace) -> int:
    """Replay how it ended if it did; refuse if that is open; else go on from where it stopped."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        ended = known_end(client, args.resume)
        is_job = args.resume.startswith(_JOB_PREFIX)
        if ended is not None:
            if is_job:
                _check_words(client, args)
                finish_known(client, args.resume, ended)
            return exit_code_of(ended)
        if is_job:
            return _resume_job(client, args)
        return _resume_claim(client, args)


def _check_words(client: Any, args: Namespace) -> None:
    """Refuse to tell how something else ended than what the caller names."""
    if not args.words:
        return
    from interlock.cli.exec_asking import refuse_drift
    from interlock.cli.exec_preparing import effective_command
    from interlock.execution.approved import Drifted
    from interlock.execution.effective import drift

    job = client.job(args.resume)
    approved = cast("dict[str, Any]", job.payload) if isinstance(job.payload, dict) else {}
    would_run = effective_command(args).command.document()
    asked, named = ({name: known.get(name) for name in ("task", "argv")} for known in (approved, would_run))
    if lines := drift(asked, named):
        raise refuse_drift(job, Drifted(job.id, lines))


def _resume_job(client: Any, args: Namespace) -> int:
    from interlock.cli.exec_asking import run_decided
    from interlock.cli.exec_preparing import effective_command
    from interlock.sdk.models import Job

    job: Job = client.job(args.resume)
    if args.grant:
        raise Failed(f"{job.id} needs no grant: it runs under its approval; leave --grant out", Exit.USAGE)
    if not args.words:
        _retype(args, job.id, job.payload)
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
    return exit_code_of(ended)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a job that `interlock exec` submitted says of its command."""

    argv: Annotated[list[str], msgspec.Meta(min_length=1)]
    args: list[str]
    task: str | None = None
    definition: dict[str, Any] | None = None
    env: dict[str, Any] | None = None
    timeout_seconds: int | None = None


def _retype(args: Namespace, job_id: str, payload: object) -> None:
    """Put the words that a job was asked for with, and the options that were part of it, where the caller left none."""
    try:
        asked = msgspec.convert(payload, _Asked)
    except msgspec.ValidationError:
        raise Failed(
            f"there is no command of `interlock exec` in {job_id}; it was submitted otherwise, or edited",
            Exit.USAGE,
        ) from None
    args.is_task = bool(asked.task)
    if asked.task and asked.definition is not None:
        args.words = [asked.task, *asked.args]
        return
    args.words, args.command = ([asked.task, *asked.argv], asked.argv) if asked.task else (asked.argv, [])
    args.env = [*args.env, *(asked.env or {})]
    args.timeout = args.timeout or asked.timeout_seconds
