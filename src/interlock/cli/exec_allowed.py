"""Runs a command that the policy allows at once, on the embedded store: submit, claim, run once, record how it ended.

It uses the same kernel commands as the service, without the service. Anything that is not plainly allowed goes
through the service. A granted task does not load this module: it needs neither the rules of jobs nor those of policy.
"""

from __future__ import annotations

import time
from argparse import Namespace

import msgspec

from interlock.cli.exec import Prepared, begun_or_not, exit_code_of
from interlock.cli.exec_granted import errors_explained, opened_kernel
from interlock.cli.execution.gates import (
    Ended,
    LocalGate,
    MaybeBegun,
    begin,
    run_begun,
)
from interlock.cli.execution.prepared import Effective, topic_of
from interlock.cli.execution.process import NotStarted, Signals, Stopped, hearing
from interlock.cli.exits import Failed
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.hold import HoldState, RenewalThread
from interlock.kernel.refusal import Fault, Refusal
from interlock.rooms.jobs.claims import ClaimJob
from interlock.rooms.jobs.holds import CompleteJob, FailJob, JobBackoff, RenewJob
from interlock.rooms.jobs.model import Job, JobState
from interlock.rooms.jobs.rules import SubmitJob
from interlock.rooms.policy.action import Action
from interlock.service.local_kernel import LocalKernel

_LEASE_SECONDS = 30
# Anything larger is for the service to refuse, in its own words.
_PAYLOAD_BYTES_MAX = 500_000
_TOPIC_MAX = 255


def run_allowed(args: Namespace, prepared: Prepared) -> int:
    """The command's exit code. What has to wait for people, or was denied, goes on through the client."""
    with errors_explained(args):
        ended, job_id = _attempted(args, prepared)
    if ended is not None:
        return exit_code_of(ended, args)
    from interlock.cli.exec_approved import run_asking

    return run_asking(args, prepared, job_id)


def _attempted(args: Namespace, prepared: Prepared) -> tuple[Ended | None, str | None]:
    """How the command ended, if it ran; and the id of its job, if it was submitted."""
    with opened_kernel(args) as kernel:
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
    """Run a job that needs no decision. None if it cannot be claimed here. Raises `NotStarted`."""
    if job.state is not JobState.PENDING:
        return None
    take = ClaimJob(caller=kernel.caller, job_id=job.id, lease_seconds=_LEASE_SECONDS, backoff=JobBackoff())
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
            backoff=JobBackoff(),
            error=error,
            retryable=False,
        )
    )


def _renewals(kernel: LocalKernel, held: Job, sent_at: float) -> RenewalThread:
    """Renew the job's lease while the command runs. Losing it changes nothing for the command: its effect is begun."""
    renewal = RenewJob(caller=kernel.caller, job_id=held.id, fence=held.fence, backoff=JobBackoff())
    state = HoldState(_LEASE_SECONDS, sent_at, is_final=lambda why: isinstance(why, Refusal))
    return RenewalThread(state, lambda: kernel.run(renewal))
