"""Runs a command that needs no person: under a grant, or because the policy allows it at once.

On the embedded store it uses the same kernel commands as the service, without the service. Anything that is not plainly
allowed goes through the service.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from interlock.cli.exec import Prepared, begun_or_not, embedded_folder, exit_code_of
from interlock.cli.execution.gates import (
    Ended,
    LocalGate,
    MaybeBegun,
    Needed,
    NotGranted,
    begin,
    replayed,
    run_begun,
)
from interlock.cli.execution.prepared import Effective, topic_of
from interlock.cli.execution.process import NotStarted, Signals, Stopped, hearing
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import acquire_seconds, given, makes_store, wants_json
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.hold import HoldState, RenewalThread
from interlock.kernel.refusal import Fault, Refusal
from interlock.rooms.jobs.claims import ClaimJob
from interlock.rooms.jobs.completion import CompleteJob, FailJob
from interlock.rooms.jobs.holds import Backoff, RenewJob
from interlock.rooms.jobs.model import Job, JobState
from interlock.rooms.jobs.rules import SubmitJob
from interlock.rooms.policy.action import Action
from interlock.service.local_kernel import LocalKernel

if TYPE_CHECKING:
    from interlock.cli.exec import Prepared
    from interlock.cli.execution.gates import Begun, Ended, Gate


def run_allowed(args: Namespace, prepared: Prepared) -> int:
    """The command's exit code. What has to wait for people, or was denied, goes on through the client."""
    with _errors_explained(args):
        ended, job_id = _attempted(args, prepared)
    if ended is not None:
        return exit_code_of(ended, args)
    from interlock.cli.exec_approved import run_asking

    return run_asking(args, prepared, job_id)


@contextmanager
def _errors_explained(args: Namespace) -> Generator[None]:
    """Turn an unexpected error into how the command ends. The module that explains errors is loaded only then."""
    try:
        yield
    except (Failed, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception:
        from interlock.cli.connection import translated

        with translated(args):
            raise


@contextmanager
def _opened_kernel(args: Namespace) -> Generator[LocalKernel]:
    kernel = LocalKernel(
        given(args, "store"), acquire_seconds=acquire_seconds(args.patience), makes_store=makes_store(args)
    )
    try:
        yield kernel
    finally:
        kernel.close()


def _attempted(args: Namespace, prepared: Prepared) -> tuple[Ended | None, str | None]:
    """How the command ended, if it ran; and the id of its job, if it was submitted."""
    with _opened_kernel(args) as kernel:
        job = submit_here(kernel, prepared.command)
        if job is None:
            return None, None
        try:
            return run_here(kernel, job, prepared.command), job.id
        except NotStarted as error:
            raise Failed(
                f"{error}; {job.id} was used up without running. Ask again once it can start"
            ) from None
        except MaybeBegun as lost:
            raise begun_or_not(job.id, lost) from lost


def run_granted(args: Namespace, prepared: Prepared) -> int | None:
    """The command's exit code if a grant was claimed; None if an approval has to be asked for instead."""
    from interlock.kernel.ids import new_id

    with _errors_explained(args), opened_gate(args) as gate:
        ended = claim_and_run(gate, args, prepared, new_id("exec"))
    return None if ended is None else exit_code_of(ended, args)


def claim_and_run(gate: Gate, args: Namespace, prepared: Prepared, execution_id: str) -> Ended | None:
    """Claim and begin in one decision, then run. None if no grant fits and an approval may be asked for."""
    from interlock.cli.execution.process import NotStarted, hearing

    with hearing() as signals:
        with signals.stopping():
            begun = _begin(gate, args, prepared, execution_id)
        if begun is None:
            return None
        if begun.replayed:
            return replayed(execution_id, begun.result)
        try:
            return run_begun(gate, prepared.command, execution_id, begun, signals)
        except NotStarted as error:
            used = f"grant {begun.grant_id} was used"
            raise Failed(f"{error}; {used}. {_again(execution_id, prepared)}") from None


def _begin(gate: Gate, args: Namespace, prepared: Prepared, execution_id: str) -> Begun | None:
    needed = _needed(args, prepared, execution_id)
    try:
        return begin(gate, prepared.command, execution_id, grant=needed)
    except NotGranted as missing:
        if needed.claimed_before:
            raise _not_resumed(execution_id, prepared, str(missing)) from None
        if needed.grant_id or needed.signed:
            raise _refused(prepared, str(missing)) from None
        if not wants_json(args):
            _tell_asking(prepared, str(missing))
        return None
    except MaybeBegun as lost:
        raise begun_or_not(execution_id, lost, prepared.retyped) from lost


def _needed(args: Namespace, prepared: Prepared, execution_id: str) -> Needed:
    return Needed(
        task=prepared.task_name or "",
        args=prepared.command.document(),
        execution_id=execution_id,
        grant_id=args.grant,
        signed=prepared.approval is not None and prepared.approval.signed,
        groups=prepared.approval.groups if prepared.approval else (),
        claimed_before=args.resume is not None,
    )


@contextmanager
def opened_gate(args: Namespace) -> Generator[Gate]:
    """The store itself if it is embedded and nobody else's key is shown; else a client."""
    if embedded_folder(args) is not None:
        with _opened_kernel(args) as kernel:
            yield LocalGate(kernel)
        return
    from interlock.cli.connection import connected
    from interlock.cli.execution.gates import ClientGate

    with connected(args) as client:
        yield ClientGate(client)


def _refused(prepared: Prepared, reason: str) -> Failed:
    signed = " --sign-with KEYFILE" if prepared.approval and prepared.approval.signed else ""
    advice = f"One that fits is issued with `interlock grant {prepared.task_name}{signed}`"
    problem = {"task": prepared.task_name, "reason": reason}
    return Failed(
        f"no grant was claimed, so nothing ran: {reason}. {advice}",
        Exit.DENIED,
        name="not_claimed",
        problem=problem,
    )


def _not_resumed(execution_id: str, prepared: Prepared, reason: str) -> Failed:
    """How it ends if an execution has no claim for this: there is none, or it is for something else."""
    from interlock.cli.exec import WHAT_DIFFERS
    from interlock.rooms.grants.claims import CLAIMED_NOTHING, FOR_OTHER_ARGUMENTS

    task = prepared.task_name
    anew = "run it without --resume, which takes another grant or asks for an approval"
    if reason.endswith(CLAIMED_NOTHING):
        missing = f"no grant for {task} was claimed under it"
        detail = f"there is no execution or job {execution_id}: {missing}, so nothing ran"
        advice = f"Check the id, or {anew}"
    elif reason.endswith(FOR_OTHER_ARGUMENTS):
        detail = f"{execution_id} has claimed a grant for another command of {task}, so nothing ran: {WHAT_DIFFERS}"
        advice = f"Say exactly the same words in the same folder and environment, or {anew}"
    else:
        detail, advice = f"{execution_id} was not resumed, so nothing ran: {reason}", anew.capitalize()
    problem = {"execution_id": execution_id, "task": task, "reason": reason}
    return Failed(f"{detail}. {advice}", Exit.DENIED, name="not_claimed", problem=problem)


def _tell_asking(prepared: Prepared, reason: str) -> None:
    from interlock.cli.output import warn

    by_people = prepared.approval is not None and prepared.approval.required
    warn(
        f"no grant was claimed ({reason}); asking {'for an approval' if by_people else 'the policy'} instead"
    )


def _again(execution_id: str, prepared: Prepared) -> str:
    return f"Once it can start: interlock exec --resume {execution_id} {prepared.retyped}"


_LEASE_SECONDS = 30
# Anything larger is for the service to refuse, in its own words.
_PAYLOAD_BYTES_MAX = 500_000
_TOPIC_MAX = 255


def submit_here(kernel: LocalKernel, command: Effective) -> Job | None:
    """Put a command before the policy. None if nothing was submitted, so that it can be asked elsewhere."""
    payload, topic = canonical(command.document()), topic_of(command.task, command.program)
    if len(payload) > _PAYLOAD_BYTES_MAX or len(topic) > _TOPIC_MAX:
        return None
    action = Action(topic=topic, payload=msgspec.Raw(payload))
    try:
        return kernel.run(SubmitJob(caller=kernel.caller, action=action))
    except Refusal:
        return None


def run_here(kernel: LocalKernel, job: Job, command: Effective) -> Ended | None:
    """Run a job that nobody has to decide. None if it is not for us to take. Raises `NotStarted`."""
    if job.state is not JobState.PENDING:
        return None
    take = ClaimJob(caller=kernel.caller, job_id=job.id, lease_seconds=_LEASE_SECONDS, backoff=Backoff())
    sent_at = time.monotonic()
    try:
        held = kernel.run(take).job
    except Refusal:
        return None
    gate = LocalGate(kernel)
    with hearing() as signals:
        with _renewals(kernel, held, sent_at):
            with signals.stopping():
                begun = begin(gate, command, held.id, job_id=held.id)
            try:
                ended = run_begun(gate, command, held.id, begun, signals)
            except NotStarted as error:
                _fail(kernel, held, {"error": str(error)})
                raise
        return ended if ended.unrecorded else _finish(kernel, held, ended, signals)


def _finish(kernel: LocalKernel, held: Job, ended: Ended, signals: Signals) -> Ended:
    """Say on the job how the command ended. The effect says it too, and that one decides."""
    try:
        with signals.stopping():
            if ended.exit_code == 0:
                kernel.run(
                    CompleteJob(caller=kernel.caller, job_id=held.id, fence=held.fence, result=ended.result)
                )
            else:
                _fail(kernel, held, ended.result)
    except (Refusal, Fault, Stopped) as trouble:
        return msgspec.structs.replace(ended, unfinished=str(trouble))
    return ended


def _fail(kernel: LocalKernel, held: Job, error: object) -> None:
    kernel.run(
        FailJob(
            caller=kernel.caller,
            job_id=held.id,
            fence=held.fence,
            backoff=Backoff(),
            error=error,
            retryable=False,
        )
    )


def _renewals(kernel: LocalKernel, held: Job, sent_at: float) -> RenewalThread:
    """Renew the job's lease while the command runs. Losing it changes nothing for the command: its effect is begun."""
    renewal = RenewJob(caller=kernel.caller, job_id=held.id, fence=held.fence, backoff=Backoff())
    state = HoldState(_LEASE_SECONDS, sent_at, is_final=lambda why: isinstance(why, Refusal))
    return RenewalThread(state, lambda: kernel.run(renewal))
