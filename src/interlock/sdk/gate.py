"""The gate: a function runs only after the policy, and people if the policy asks for them, agreed; and then once.

What the reviewer sees is what runs, byte for byte. The arguments of a call, defaults included, are copied into the
job's payload before the request is sent. After the approval, the stored payload is compared with that copy in canonical
JSON, and the function gets the copy, so later changes have no effect.

A call with a key is one intent, for ever. Claiming its job records that it may have begun to act. So a repeat returns
what the first call returned, runs what certainly did not happen, or raises `Ambiguous` for what may have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.sdk.arguments import named_by
from interlock.sdk.flow import Flow, NothingRun, Raised, act, now, sleep, taken
from interlock.sdk.once import Committed, NotCommitted, NotDone, Reconcile, Unknown
from interlock.sdk.operations.jobs import get_job, submit, watch
from interlock.sdk.operations.shared import get_effect
from interlock.sdk.operations.work import claim_job, reconcile_job, release_job
from interlock.sdk.outcomes import (
    Ambiguous,
    Busy,
    Conflict,
    Denied,
    Expired,
    InterlockError,
    NotFound,
    Rejected,
    StillPending,
    because,
)
from interlock.wire.jobs import Evidence, HeldJob, Job, Target
from interlock.wire.problem import Problem

if TYPE_CHECKING:
    from interlock.kernel.codec.strict import JsonValue
    from interlock.sdk.arguments import Arguments, BoundCall, CallShape
    from interlock.sdk.results import Result, Yielded
    from interlock.sdk.session import Session

T = TypeVar("T")
# One that runs or failed may be a crashed call's: whether it may run again is for the service to say.
RUNNABLE = ("PENDING", "RUNNING", "FAILED")
_TURN_SECONDS = 2.0  # how long one look at a call that runs elsewhere lasts: it may be given back meanwhile
Said: TypeAlias = T | Callable[..., T]  # said once, or computed from the call's arguments


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run one call: its arguments, and the job that is held, claimed at `sent_at` or later."""

    arguments: Arguments
    job: HeldJob
    sent_at: float


class Finished(msgspec.Struct, frozen=True):
    """The call was made before, and is done: its job has what it returned."""

    job: Job


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
    repeatable: bool = False
    not_done: tuple[type[BaseException], ...] = ()
    reconcile: Reconcile | None = None
    lease: float = 60

    def __post_init__(self) -> None:
        """Refuse what would be found only when the function is called, or once it has run."""
        given: dict[str, Any] = msgspec.structs.asdict(self)
        if not isinstance(given["topic"], str):
            raise TypeError(
                "a gate takes the topic of its calls first, such as @il.gate('finance.payment.execute')"
            )
        for name in ("key", "on_pending", "reconcile"):
            if given[name] is not None and not callable(given[name]):
                raise TypeError(f"{name} takes a function, not {given[name]!r}")
        for name in ("wait", "lease"):
            is_number = isinstance(given[name], int | float) and not isinstance(given[name], bool)
            if given[name] is not None and not is_number:
                raise TypeError(f"{name} takes a number of seconds, not {given[name]!r}")

    def passage(
        self, session: Session, shape: CallShape, result: Result | Yielded, call: BoundCall
    ) -> Flow[Passage | Finished]:
        """Ask for one call, wait for the answer, and take the right to run it, or learn how it ended."""
        ends_at = inf if self.wait is None else (yield from now()) + self.wait
        asked = yield from self._asked(session, call)
        # A repeat is answered as it was the first time; where it stands now is for the job to say.
        is_news = asked.replayed or asked.payload is msgspec.UNSET
        seen = (yield from get_job(session, asked.id)) if is_news else asked
        while True:
            seen = yield from self._decided(session, seen, ends_at)
            if seen.state == "SUCCEEDED":
                return Finished(seen)
            if seen.state == "CANCELLED":
                raise (yield from _cancelled(session, seen))
            agreed = self._agreed(shape, call, asked, seen)
            sent_at = yield from now()
            try:
                job = yield from self._taken(session, seen)
            except Busy as busy:
                if busy.code == "in_grace":
                    seen = yield from self._past_grace(session, seen, busy)
                elif busy.code == "effect_in_progress":
                    seen = yield from self._finished_elsewhere(session, seen, ends_at)
                else:
                    raise
            except Ambiguous as doubt:
                yield from self._reconciled(session, result, seen, doubt)
                seen = yield from get_job(session, seen.id)
            except Conflict as conflict:
                seen = yield from self._moved_on(session, seen, conflict)
            else:
                return Passage(arguments=agreed, job=job, sent_at=sent_at)

    def is_undone(self, error: BaseException) -> bool:
        """Whether an exception says that the function surely did nothing."""
        return isinstance(error, (NotDone, NothingRun, *self.not_done))

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
                    executor="caller",
                    key=self._name(call),
                )
            )
        except Conflict as conflict:
            if conflict.code != "idempotency_key_reused":
                raise
            message = (
                f"the key of this call of {self.topic} named an earlier request that differs from it: it had other "
                "arguments, another topic, or other options such as env, labels or evidence; a key must name one "
                "intent, so make it depend on whatever makes two calls differ"
            )
            raise Conflict(conflict.problem, message) from conflict

    def _decided(self, session: Session, seen: Job, ends_at: float) -> Flow[Job]:
        if seen.is_decided:
            return seen
        if self.on_pending is not None:
            self.on_pending(seen)
        left = None if ends_at == inf else max(0.0, ends_at - (yield from now()))
        try:
            return (yield from watch(session, seen, timeout=left, until="decided", aloud=self.wait is None))
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

    def _taken(self, session: Session, decided: Job) -> Flow[HeldJob]:
        claim = claim_job(
            session, decided.id, lease_seconds=self.lease, repeatable=self.repeatable, busy_seconds=0
        )
        return (yield from taken(claim, lambda job, _: release_job(session, job.id, job.fence)))

    def _finished_elsewhere(self, session: Session, running: Job, ends_at: float) -> Flow[Job]:
        """The job once it is no longer running; `Busy` if that takes longer than the gate waits."""
        left = 0.0 if ends_at == inf else ends_at - (yield from now())
        if left <= 0:
            raise _busy((yield from get_job(session, running.id)))
        try:
            # What is running becomes finished, is given back or, when its lease runs out, is in doubt.
            turn = min(left, _TURN_SECONDS)
            return (yield from watch(session, running, timeout=turn, until="finished"))
        except StillPending:
            return (yield from get_job(session, running.id))

    def _past_grace(self, session: Session, released: Job, busy: Busy) -> Flow[Job]:
        """The job a little later: its approval may have been withdrawn, or can no longer be."""
        yield from sleep(min(busy.problem.retry_after_seconds or 0.0, _TURN_SECONDS))
        return (yield from get_job(session, released.id))

    def _reconciled(
        self, session: Session, result: Result | Yielded, job: Job, doubt: Ambiguous
    ) -> Flow[None]:
        """Record what the remote side says of a call in doubt; raise `Ambiguous` if it cannot tell."""
        if doubt.code != "effect_ambiguous":
            raise doubt
        unknown = _in_doubt(job, doubt)
        if self.reconcile is None:
            raise unknown from doubt
        reconcile, effect = self.reconcile, (yield from get_effect(session, f"call:{job.id}"))
        found = yield from act(lambda: reconcile(effect))
        match found:
            case Raised(error=Exception() as error) if not isinstance(error, NothingRun):
                raise _in_doubt(job, doubt, f" (it was asked, and raised {type(error).__name__})") from error
            case Raised(error=error):
                raise error
            case Committed(result=value, evidence=evidence):
                recorded = result.found(value)
                yield from reconcile_job(session, job.id, "committed", evidence, result=recorded)
            case NotCommitted(evidence=evidence):
                yield from reconcile_job(session, job.id, "not_committed", evidence)
            case Unknown():
                raise unknown from doubt
            case _:
                raise TypeError(
                    f"reconcile returned {found!r}; return Committed(result), NotCommitted() or Unknown()"
                )

    def _moved_on(self, session: Session, before: Job, conflict: Conflict) -> Flow[Job]:
        """The job as another caller has changed it since; raises the conflict itself if nothing changed."""
        after = yield from get_job(session, before.id)
        if conflict.code != "not_actionable" or after.version == before.version:
            raise conflict
        return after

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


def _cancelled(session: Session, job: Job) -> Flow[InterlockError]:
    """Why a cancelled call may not run. Cancelling does not undo: if it was begun, whether it happened is not known."""
    try:
        effect = yield from get_effect(session, f"call:{job.id}")
    except NotFound:
        return _refusal(job)
    if effect.state not in ("IN_PROGRESS", "AMBIGUOUS"):
        return _refusal(job)
    detail = (
        f"this call of {job.topic} (job {job.id}) was cancelled after it was begun, and whether it happened is not "
        f"known; it is never run again. Ask the remote side (the key that it was given is {effect.downstream_key}). "
        f"Then a person records the answer with resolve_effect('call:{job.id}', …), and a new intent needs a new key"
    )
    fields = {"job_id": job.id, "state": job.state, "downstream_key": effect.downstream_key}
    return Ambiguous(
        Problem(status=409, code="effect_ambiguous", title="Ambiguous", detail=detail, fields=fields)
    )


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


def _busy(job: Job) -> Busy:
    holder = job.leased_by or "another caller"
    until = (
        f" until {job.lease_expires_at:%Y-%m-%dT%H:%M:%SZ} unless it renews" if job.lease_expires_at else ""
    )
    detail = (
        f"{holder} is running this call (job {job.id}){until}; pass wait= to the gate to wait for its result. If its "
        "process died, a call after that time says so, and what to do"
    )
    fields = {"job_id": job.id, "state": job.state, "holder": {"principal": job.leased_by}}
    return Busy(Problem(status=409, code="effect_in_progress", title="Busy", detail=detail, fields=fields))


def _in_doubt(job: Job, doubt: Ambiguous, asked: str = "") -> Ambiguous:
    """The outcome of a call that may have happened, with the next step in the SDK's words."""
    key = doubt.problem.fields.get("downstream_key")
    about = f" (the key that it was given is {key})" if key else ""
    detail = (
        f"this call of {job.topic} (job {job.id}) was begun before, and whether it happened is not known; it is not "
        f"run again by itself. Ask the remote side{about}, or give the gate a reconcile= that does{asked}. Then a "
        f"person says what happened with resolve_effect('call:{job.id}', 'committed', evidence='…', result=…), and a "
        "repeat returns that result; or with 'not_committed', and a repeat runs once more"
    )
    fields = {**doubt.problem.fields, "job_id": job.id}
    return Ambiguous(msgspec.structs.replace(doubt.problem, detail=detail, next=None, fields=fields))
