"""Runs a command under an approval: ask, wait as long as the caller allows, then run what was approved."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec

from interlock.cli.exec import WHAT_DIFFERS, begun_or_not, effective_command, exit_code_of, prepared_again
from interlock.cli.execution.approved import (
    Asked,
    Drifted,
    end_of,
    finish_known,
    known_effect,
    known_end,
    run_approved,
    settle,
    submit,
)
from interlock.cli.execution.gates import ClientGate, MaybeBegun
from interlock.cli.execution.process import NotStarted
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import wants_json
from interlock.cli.output import warn

if TYPE_CHECKING:
    from interlock.cli.exec import Prepared
    from interlock.cli.execution.gates import Ended
    from interlock.sdk.client import Interlock
    from interlock.wire.effects import Effect
    from interlock.wire.jobs import Job


def run_asking(args: Namespace, prepared: Prepared, job_id: str | None = None) -> int:
    """Put the command before policy and people, unless `job_id` has done so, and run it if they agree."""
    from interlock.cli.connection import connected
    from interlock.kernel.ids import new_id

    with connected(args) as client:
        asked = Asked(approval=prepared.approval, execution_id=new_id("exec"), wait_seconds=args.wait)
        job = client.get_job(job_id) if job_id else submit(client, prepared.command, asked)
        return run_decided(client, args, prepared, job)


def run_decided(client: Interlock, args: Namespace, prepared: Prepared, job: Job) -> int:
    """Wait for the decision on a job, and run the command if it was approved."""
    from interlock.sdk.outcomes import StillPending

    try:
        decided = settle(client, job, args.wait, _untold if wants_json(args) else _tell_waiting)
        if decided is not job:
            # The task, the program's path or the environment may have changed while people looked.
            prepared = prepared_again(args, prepared)
        return exit_code_of(run_approved(client, decided, prepared.command, prepared.approval), args)
    except StillPending:
        raise still_waiting(job, args.tasks) from None
    except Drifted as drifted:
        raise refuse_drift(job, drifted) from None
    except NotStarted as error:
        raise Failed(f"{error}; {job.id} was used up without running. Ask again once it can start") from None
    except MaybeBegun as lost:
        raise begun_or_not(job.id, lost, _task_file(args.tasks)) from lost


def still_waiting(job: Job, task_file: str | None) -> Failed:
    """How the command ends when the caller's patience is over and people's is not."""
    declared = _task_file(task_file)
    resume = f"interlock exec {declared}{' ' if declared else ''}--resume {job.id} --wait 10m"
    return Failed(
        f"{job.id} still waits for a decision; go on with `{resume}`",
        Exit.WAITING,
        name="still_pending",
        problem={"job_id": job.id, "resume": resume},
    )


def refuse_drift(job: Job, drifted: Drifted) -> Failed:
    """How the command ends when what would run is not what was approved."""
    lines = "\n".join(drifted.lines)
    return Failed(
        f"{drifted}, so nothing ran:\n{lines}\nRun the approved command as it was, or ask for this one anew",
        Exit.DENIED,
        name="drifted",
        problem={"job_id": job.id, "drift": drifted.lines},
    )


def _task_file(path: str | None) -> str:
    return f"--tasks {shlex.quote(path)}" if path else ""


def _untold(_: Job) -> None:
    """For a program: it learns of the job as the command ends."""


def _tell_waiting(job: Job) -> None:
    groups = f" of {', '.join(job.approval.groups)}" if job.approval and job.approval.groups else ""
    warn(f"{job.id} waits for a person{groups}: interlock approve {job.id} --job-hash {job.job_hash}")


_JOB_PREFIX = "job_"
_GRANT_PREFIX = "gnt_"


def resume(args: Namespace) -> int:
    """Replay how it ended if it did; refuse if that is open; else go on from where it stopped."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        if args.resume.startswith(_JOB_PREFIX):
            return _resume_job(client, args)
        return _resume_execution(client, args)


def _resume_job(client: Any, args: Namespace) -> int:
    ended = known_end(client, args.resume)
    if ended is None:
        return _go_on(client, args)
    _check_words(client, args)
    finish_known(client, args.resume, ended)
    return exit_code_of(ended, args)


def _resume_execution(client: Any, args: Namespace) -> int:
    # Once: what came through stdin can be read no second time.
    prepared = effective_command(args) if args.words else None
    effect = known_effect(client, args.resume)
    if effect is None:
        return _resume_claim(client, args, _named(args, prepared, _unknown(args.resume)))
    if prepared is not None:
        _check_command(args.resume, effect, prepared)
    ended = end_of(args.resume, effect)
    if ended is not None:
        return exit_code_of(ended, args)
    return _resume_claim(client, args, _named(args, prepared, _unnamed(args.resume)))


def _check_words(client: Any, args: Namespace) -> None:
    """Refuse to tell how something else ended than what the caller names."""
    if not args.words:
        return

    from interlock.cli.execution.prepared import drift

    job = client.get_job(args.resume)
    approved = cast("dict[str, Any]", job.payload) if isinstance(job.payload, dict) else {}
    would_run = effective_command(args).command.document()
    asked, named = ({name: known.get(name) for name in ("task", "argv")} for known in (approved, would_run))
    if lines := drift(asked, named):
        raise refuse_drift(job, Drifted(job.id, lines))


def _check_command(execution_id: str, effect: Effect, prepared: Prepared) -> None:
    """Refuse to tell of an execution, or to go on with it, for another command than it was begun for."""
    begun, named = effect.request_hash, prepared.command.document()["command_hash"]
    if begun == named:
        return
    raise Failed(
        f"{execution_id} was for another command, so nothing ran: {WHAT_DIFFERS}. Say exactly what was run, in the "
        f"same folder and environment, or only `interlock exec --resume {execution_id}` to hear how it ended",
        Exit.DENIED,
        name="drifted",
        problem={"execution_id": execution_id, "begun_for": begun, "would_run": named},
    )


def _go_on(client: Any, args: Namespace) -> int:

    job: Job = client.get_job(args.resume)
    if args.grant:
        raise Failed(f"{job.id} needs no grant: it runs under its approval; leave --grant out", Exit.USAGE)
    if not args.words:
        _retype(args, job.id, job.payload)
    return run_decided(client, args, effective_command(args), job)


def _named(args: Namespace, prepared: Prepared | None, otherwise: Failed) -> Prepared:
    """The command of a task: a grant is claimed for nothing else."""
    if prepared is None or not args.is_task:
        raise otherwise
    return prepared


def _resume_claim(client: Any, args: Namespace, prepared: Prepared) -> int:
    """A claim that never started: the same execution id gets the same use, and only for the same command."""
    from interlock.cli.exec_granted import claim_and_run

    # Never None: an earlier claim is run or refused, without asking people.
    return exit_code_of(cast("Ended", claim_and_run(ClientGate(client), args, prepared, args.resume)), args)


def _unnamed(execution_id: str) -> Failed:
    again = f"interlock exec --resume {execution_id} TASK ARGS"
    return Failed(f"{execution_id} never started; say its task and arguments again: {again}", Exit.USAGE)


def _unknown(execution_id: str) -> Failed:
    if execution_id.startswith(_GRANT_PREFIX):
        advice = f"It reads like a grant's: interlock exec --grant {execution_id} TASK ARGS"
    else:
        again = f"interlock exec --resume {execution_id} TASK ARGS"
        advice = f"If a grant was claimed under this id beforehand, say its task and arguments too: {again}"
    detail = f"there is no execution or job {execution_id}, so nothing ran. {advice}"
    return Failed(detail, name="not_found", problem={"execution_id": execution_id})


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
