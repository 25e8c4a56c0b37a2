"""Runs a command under an approval: submit, wait, claim the job, run it once, record how it ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from interlock.cli.execution.gates import ClientGate, Ended, action_id_of, begin, replayed, run_begun
from interlock.cli.execution.prepared import Effective, drift, topic_of
from interlock.cli.execution.process import NotStarted, Signals, Stopped, hearing
from interlock.kernel.hold import HoldState, RenewalThread
from interlock.sdk.held import is_final
from interlock.sdk.outcomes import (
    Ambiguous,
    Busy,
    Conflict,
    Denied,
    Expired,
    InterlockError,
    NotFound,
    Rejected,
)
from interlock.wire.problem import Problem

if TYPE_CHECKING:
    from interlock.cli.execution.tasks import TaskApproval
    from interlock.kernel.refusal import Next
    from interlock.sdk.client import Interlock
    from interlock.wire.effects import Effect
    from interlock.wire.jobs import HeldJob, Job


# What a service never answers with: people's no, and a task file that asks for more than the policy.
_OF_OURS = {"rejected": (409, "Rejected"), "approval_required": (403, "Approval required")}


def problem_here(code: str, detail: str, then: Next | None = None, /, **members: object) -> Problem:
    """The problem called `code`, with all that every problem document has."""
    from interlock.api.problem import problem

    if code in _OF_OURS:
        status, title = _OF_OURS[code]
        members["type"] = "about:blank"  # no page of a service explains it
        told = Problem(code=code, title=title, status=status, detail=detail, retryable=False, fields=members)
    else:
        told = problem(code, detail, then=then, members=members)
    return msgspec.structs.replace(told, fields=told.document())


LEASE_SECONDS = 30


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is put before the policy and people."""

    approval: TaskApproval | None
    execution_id: str
    wait_seconds: float


class Drifted(Exception):
    """What would run is not what was approved; `lines` are the differences."""

    def __init__(self, job_id: str, lines: list[str]) -> None:
        super().__init__(f"{job_id} was approved for something else than would run now")
        self.lines = lines


def submit(client: Interlock, command: Effective, asked: Asked) -> Job:
    """Put a command before the policy. Raises `Denied`."""
    return client.submit(
        topic_of(command.task, command.program),
        command.document(),
        risk=asked.approval.risks if asked.approval and asked.approval.risks else None,
        approval_groups=asked.approval.groups if asked.approval and asked.approval.required else None,
        key=asked.execution_id,
    )


def settle(client: Interlock, job: Job, wait_seconds: float, tell: Callable[[Job], None]) -> Job:
    """Wait until the job is decided. Raises `StillPending`, `Rejected` or `Expired`."""
    if not job.is_decided:
        if wait_seconds:
            tell(job)
        job = client.wait(job.id, timeout=wait_seconds, until="decided")
    if job.state in ("PENDING", "RUNNING", "SUCCEEDED", "FAILED"):
        return job
    raise _over(job)


def run_approved(client: Interlock, job: Job, command: Effective, approval: TaskApproval | None) -> Ended:
    """Run what was approved, and nothing else. The job is taken and its effect recorded first."""
    approved = cast("dict[str, Any]", job.payload) if isinstance(job.payload, dict) else {}
    lines = drift(approved, command.document())
    if lines:
        raise Drifted(job.id, lines)
    try:
        _check_people(job, approval)
    except Denied:
        _take_back(client, job)
        raise
    sent_at = time.monotonic()
    try:
        held = client.claim_job(job.id, lease_seconds=LEASE_SECONDS)
    except Conflict as refused:
        return _end_elsewhere(client, job.id, refused)
    with hearing() as signals:
        with _renewals(client, held, sent_at):
            ended = _run(client, held, command, signals)
        return _finish(client, held, ended, signals)


def _take_back(client: Interlock, job: Job) -> None:
    """Cancel a job that will never run, so that no worker takes it; if it can still be cancelled."""
    with contextlib.suppress(InterlockError):
        client.cancel_job(job.id, reason="interlock.yaml asks for more than it was released with")


def _end_elsewhere(client: Interlock, job_id: str, refused: Conflict) -> Ended:
    """How it ended in the process that claimed it first. Raises `Busy` while it runs there, else the refusal."""
    ended = known_end(client, job_id)
    if ended is not None:
        return ended
    if refused.problem.fields.get("state") != "RUNNING":
        raise refused
    detail = f"{job_id} is being run elsewhere; wait for it to end"
    raise Busy(problem_here("effect_in_progress", detail, job_id=job_id, state="RUNNING")) from refused


def finish_known(client: Interlock, job_id: str, ended: Ended) -> None:
    """Have a job that waits to be run, though its command has ended, say how it did; as far as it lets us."""
    with contextlib.suppress(InterlockError):
        if client.get_job(job_id).state == "PENDING":
            _say_end(client, client.claim_job(job_id, lease_seconds=LEASE_SECONDS), ended)


def known_end(client: Interlock, execution_id: str) -> Ended | None:
    """How an execution ended, if it did. Raises what the effect's state says: in progress, or unknown."""
    effect = known_effect(client, execution_id)
    return None if effect is None else end_of(execution_id, effect)


def known_effect(client: Interlock, execution_id: str) -> Effect | None:
    """The record of what an execution did; None if it never began."""
    try:
        return client.get_effect(action_id_of(execution_id))
    except NotFound:
        return None


def end_of(execution_id: str, effect: Effect) -> Ended | None:
    """How an execution ended by its record; None if it surely did not run. Raises what else the record says."""
    state = effect.state
    if state == "COMMITTED":
        return replayed(execution_id, effect.result)
    if state == "FAILED":
        return None
    raise _unsettled(execution_id, effect)


def _run(client: Interlock, held: HeldJob, command: Effective, signals: Signals) -> Ended:
    gate = ClientGate(client)
    with signals.stopping():
        begun = begin(gate, command, held.id, job_id=held.id)
    if begun.replayed:
        return replayed(held.id, begun.result)
    try:
        return run_begun(gate, command, held.id, begun, signals)
    except NotStarted as error:
        client.fail_job(held.id, held.fence, error={"error": str(error)}, retryable=False)
        raise


def _finish(client: Interlock, held: HeldJob, ended: Ended, signals: Signals) -> Ended:
    """Say on the job how the command ended. The effect says it too, and that one decides."""
    if ended.unrecorded is not None:
        return ended
    try:
        with signals.stopping():
            _say_end(client, held, ended)
    except (InterlockError, Stopped) as trouble:
        return msgspec.structs.replace(ended, unfinished=str(trouble))
    return ended


def _say_end(client: Interlock, held: HeldJob, ended: Ended) -> None:
    if ended.exit_code == 0:
        client.complete_job(held.id, held.fence, result=ended.result)
    else:
        client.fail_job(held.id, held.fence, error=ended.result, retryable=False)


def _renewals(client: Interlock, held: HeldJob, sent_at: float) -> RenewalThread:
    """Renew the job's lease while the command runs. Losing it changes nothing for the command: its effect is begun."""
    state = HoldState(LEASE_SECONDS, sent_at, is_final=is_final)
    return RenewalThread(state, lambda: client.renew_job(held.id, held.fence))


def _check_people(job: Job, approval: TaskApproval | None) -> None:
    """A task may ask for more than the policy does, never for less."""
    if approval is None:
        return
    if approval.signed:
        raise _asks_for_more(
            job, "a signed grant", "have one issued with `interlock grant --sign-with KEYFILE`"
        )
    if not approval.required or _is_said_within(job, approval.groups):
        return
    names = ", ".join(approval.groups)
    asking = f"`decision: require_human`{f' and `approval: {{groups: [{names}]}}`' if names else ''}"
    rule = f"add a rule for {job.topic} with {asking}, or have a grant issued"
    raise _asks_for_more(job, f"a person's approval{f' by {names}' if names else ''}", rule)


def _is_said_within(job: Job, groups: tuple[str, ...]) -> bool:
    """Whether people said yes, asked or by a standing grant, each of them in one of these groups."""
    if job.approval is not None and job.approval.state == "approved":
        asked, said = job.approval.groups, [vote.groups for vote in job.approval.votes]
    elif job.grant_use is not None:
        asked, said = job.grant_use.groups, []
    else:
        return False
    if not groups or (asked and set(asked) <= set(groups)):
        return True
    return bool(said) and all(set(groups) & set(theirs) for theirs in said)


def _asks_for_more(job: Job, what: str, advice: str) -> Denied:
    detail = f"interlock.yaml asks for {what}, and {job.id} was released without it; {advice}"
    return Denied(problem_here("approval_required", detail, job_id=job.id))


def _over(job: Job) -> InterlockError:
    said = job.approval
    if job.state == "DENIED" and said is not None and said.state == "rejected":
        reason, by = said.reason or "no reason given", said.decided_by
        fields = {"job_id": job.id, "state": job.state, "reason": reason, "reviewer": by}
        return Rejected(problem_here("rejected", f"{by} rejected {job.id}: {reason}", **fields))
    if job.state == "DENIED":
        return _denied(job)
    ended, code = f"is {job.state}", "not_actionable"
    if job.state == "EXPIRED":
        is_agreed = said is None or said.state == "approved"
        ended = "was not run in its time" if is_agreed else "was not decided in time"
        code = "approval_expired"
    detail = f"{job.id} {ended}; nothing ran. Ask again by running the command again"
    return Expired(problem_here(code, detail, job_id=job.id, state=job.state))


def _denied(job: Job) -> Denied:
    from interlock.rooms.policy.refusals import denial
    from interlock.rooms.policy.rules import NO_POLICY

    rule, reason = (job.decision.rule, job.decision.reason) if job.decision else (None, None)
    detail, then = denial(job.topic, rule, reason, has_rules=job.policy_snapshot != NO_POLICY)
    return Denied(
        problem_here(
            "policy_denied",
            detail,
            then,
            job_id=job.id,
            state=job.state,
            rule=rule,
            reason=reason,
            job_hash=job.job_hash,
            policy_snapshot=job.policy_snapshot,
        )
    )


def _unsettled(execution_id: str, effect: Effect) -> InterlockError:
    action_id, state, begun_by = action_id_of(execution_id), effect.state, effect.begun_by
    begun_at, expires_at = msgspec.to_builtins((effect.begun_at, effect.expires_at))  # as a server spells it
    if state == "IN_PROGRESS":
        detail = (
            f"{execution_id} is running elsewhere, begun by {begun_by} at {begun_at}; "
            f"wait for it to end. If it was killed, its outcome counts as unknown from {expires_at} on"
        )
        return Busy(problem_here("effect_in_progress", detail, state=state, begun_by=begun_by))
    detail = (
        f"whether {execution_id} ran is not known: it was begun by {begun_by} at {begun_at} and "
        f"its outcome was not recorded. Find out, then record it with `interlock effect resolve {action_id} "
        "committed|not_committed --evidence …`"
    )
    key = effect.downstream_key
    return Ambiguous(
        problem_here("effect_ambiguous", detail, state=state, begun_by=begun_by, downstream_key=key)
    )
