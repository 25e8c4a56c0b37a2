"""Running a command under an approval: ask, wait as long as the caller has patience, run what was approved."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import TYPE_CHECKING

from interlock.cli.exec_ending import begun_or_not, exit_code_of
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import wants_json
from interlock.execution.approved import Asked, Drifted, run_approved, settle, submit
from interlock.execution.gate import MaybeBegun
from interlock.execution.running import NotStarted

if TYPE_CHECKING:
    from interlock.cli.exec_preparing import Prepared
    from interlock.sdk.client import Interlock
    from interlock.sdk.models import Job


def run_asking(args: Namespace, prepared: Prepared, job_id: str | None = None) -> int:
    """Put the command before policy and people, unless `job_id` has done so, and run it if they agree."""
    from interlock.cli.connection import connected
    from interlock.kernel.ids import new_id

    with connected(args) as client:
        asked = Asked(approval=prepared.approval, execution_id=new_id("exec"), wait_seconds=args.wait)
        job = client.job(job_id) if job_id else submit(client, prepared.command, asked)
        return run_decided(client, args, prepared, job)


def run_decided(client: Interlock, args: Namespace, prepared: Prepared, job: Job) -> int:
    """Wait for the decision on a job, and run the command if it was yes."""
    from interlock.cli.exec_preparing import prepared_again
    from interlock.sdk.outcomes import StillPending

    try:
        decided = settle(client, job, args.wait, _untold if wants_json(args) else _tell_waiting)
        if decided is not job:
            # Somebody may have changed the task, the program's place or the environment while people looked.
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
    from interlock.cli.output import warn

    groups = f" of {', '.join(job.approval.groups)}" if job.approval and job.approval.groups else ""
    warn(f"{job.id} waits for a person{groups}: interlock approve {job.id} --job-hash {job.job_hash}")
