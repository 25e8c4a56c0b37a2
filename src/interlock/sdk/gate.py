"""The gate: a function that runs only after policy, and people where policy asks for them, agreed.

What the reviewer sees is what runs, byte for byte. The arguments of a call, defaults included, are copied
into the job's payload before anybody is asked; after the yes, the stored payload is compared with that
copy in canonical JSON, and the function gets the copy, so nothing that changed meanwhile gets through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from interlock.codec.canonical import canonical
from interlock.sdk.arguments import named_by
from interlock.sdk.denials import because
from interlock.sdk.flow import Flow, taken
from interlock.sdk.gate_running import GATE_LEASE_SECONDS, Passage
from interlock.sdk.models import Evidence, Job, Target
from interlock.sdk.operations.jobs import job as read_job
from interlock.sdk.operations.jobs import submit
from interlock.sdk.operations.waiting import watch
from interlock.sdk.operations.work import claim_job, release
from interlock.sdk.outcomes import Conflict, Denied, Expired, InterlockError, Rejected, StillPending
from interlock.sdk.problems import Problem

if TYPE_CHECKING:
    from interlock.codec.strict import JsonValue
    from interlock.sdk.arguments import Arguments, BoundCall, CallShape
    from interlock.sdk.session import Session

T = TypeVar("T")
# One that runs may be a crashed call's: whether its lease has run out is for the service's clock to say.
RUNNABLE = ("PENDING", "RUNNING")
Said: TypeAlias = T | Callable[..., T]  # said once, or computed from the call's arguments


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate asks for, and how it waits. See `Interlock.gate` for the meaning of each."""

    topic: str
    key: Callable[..., str | int] | None = None
    env: str | None = None
    channel: str | None = None
    labels: Said[Mapping[str, str] | None] = None
    risk: Said[Sequence[str] | None] = None
    priority: Literal["low", "normal", "high", "critical"] | None = None
    target: Said[Target | None] = None
    evidence: Said[Sequence[Evidence] | None] = None
    expires_in: str | None = None
    wait: float | None = None
    on_pending: Callable[[Job], object] | None = None
    accept_edits: bool = False

    def passage(self, session: Session, shape: CallShape, call: BoundCall) -> Flow[Passage]:
        """Ask for one call, wait for the answer, and take the right to run it."""
        asked = yield from self._asked(session, call)
        decided = yield from self._decided(session, asked)
        agreed = self._agreed(shape, call, asked, decided)
        job = yield from taken(
            claim_job(session, decided.id, lease_seconds=GATE_LEASE_SECONDS),
            lambda unwanted, _: release(session, unwanted.id, unwanted.fence),
        )
        return Passage(session=session, arguments=agreed, job=job, repeatable=self.key is not None)

    def _asked(self, session: Session, call: BoundCall) -> Flow[Job]:
        try:
            return (
                yield from submit(
                    session,
                    self.topic,
                    call.payload,
                    env=self.env,
                    channel=self.channel,
                    labels=_said(self.labels, call),
                    risk=_said(self.risk, call),
                    priority=self.priority,
                    target=_said(self.target, call),
                    evidence=_said(self.evidence, call),
                    expires_in=self.expires_in,
                    key=self._name(call),
                )
            )
        except Conflict as conflict:
            if conflict.code != "idempotency_key_reused":
                raise
            message = (
                f"this call's key named an earlier call of {self.topic} that had other arguments; "
                "a key must name one intent, so make it depend on whatever makes two calls differ"
            )
            raise Conflict(conflict.problem, message) from conflict

    def _decided(self, session: Session, asked: Job) -> Flow[Job]:
        seen = asked
        if asked.replayed or asked.payload is msgspec.UNSET:
            # A repeat is answered as it was the first time; where it stands now is for the job to say.
            seen = yield from read_job(session, asked.id)
        if seen.is_decided:
            return seen
        if self.on_pending is not None:
            self.on_pending(seen)
        try:
            return (yield from watch(session, seen, timeout=self.wait, until="decided"))
        except StillPending as pending:
            again = "call again with the same arguments to go on waiting"
            without_key = "give the gate a key= so that the same call finds it again"
            resume = again if self.key else without_key
            raise StillPending(seen.id, state=pending.state, resume=resume) from None

    def _agreed(self, shape: CallShape, call: BoundCall, asked: Job, decided: Job) -> Arguments:
        """The arguments that may run: the job is released, and is what this call asked for."""
        if decided.state not in RUNNABLE:
            raise _refusal(decided)
        stored = cast("JsonValue", decided.payload)
        same = canonical(stored) == canonical(call.payload)
        if same and decided.job_hash == asked.job_hash:
            return shape.arguments(call, call.payload)
        if same or not self.accept_edits:
            raise _conflict(decided, _changed(decided, same=same))
        try:
            return shape.arguments(call, cast("Mapping[str, Any]", stored))
        except (ValueError, TypeError) as error:
            detail = f"the request was edited into something that {self.topic} cannot run: {error}"
            raise _conflict(decided, detail) from error

    def _name(self, call: BoundCall) -> str | None:
        """The intent's name, if the gate was told how to name it."""
        return None if self.key is None else named_by(self.key(**call.payload), "the gate's key")


def _said(said: Said[T], call: BoundCall) -> T:
    return cast("T", said(**call.payload)) if callable(said) else said


def _refusal(job: Job) -> InterlockError:
    """Why a job that is decided may not run."""
    fields = {"job_id": job.id, "state": job.state}
    if job.state == "EXPIRED" or (job.approval and job.approval.state == "expired"):
        is_agreed = job.approval is None or job.approval.state == "approved"
        detail = (
            f"the time of job {job.id} to begin has passed"
            if is_agreed
            else f"nobody decided job {job.id} in time"
        )
        return Expired(
            Problem(status=409, code="approval_expired", title="Expired", detail=detail, fields=fields)
        )
    if job.state == "DENIED" and job.approval and job.approval.state == "rejected":
        return _rejected(job, fields)
    if job.state == "DENIED":
        rule = job.decision.rule if job.decision else None
        detail = f"the policy denies {job.topic} ({because(job.decision)})"
        return Denied(
            Problem(
                status=403,
                code="policy_denied",
                title="Denied",
                detail=detail,
                fields=fields | {"rule": rule},
            )
        )
    return _conflict(job, f"job {job.id} is {job.state}, so this call may not run it")


def _rejected(job: Job, fields: dict[str, str]) -> Rejected:
    decision = job.approval
    reason = (decision.reason if decision else None) or "no reason given"
    reviewer = (decision.decided_by if decision else None) or "a reviewer"
    return Rejected(
        Problem(
            status=403,
            code="rejected",
            title="Rejected",
            detail=f"{reviewer} rejected job {job.id}: {reason}",
            fields=fields | {"reason": reason, "reviewer": reviewer},
        )
    )


def _changed(job: Job, *, same: bool) -> str:
    if same:
        return f"job {job.id} is no longer what was asked for (its hash changed), so nothing was run"
    return (
        f"job {job.id} was edited before it was approved, so the arguments of this call were not run; "
        "read the new ones in the job's payload, or let the gate run them with accept_edits=True"
    )


def _conflict(job: Job, detail: str) -> Conflict:
    fields = {"job_id": job.id, "state": job.state}
    return Conflict(Problem(status=409, code="conflict", title="Conflict", detail=detail, fields=fields))
