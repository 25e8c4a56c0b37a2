"""One gated call while it runs: holds its job, sets `current` for the function, and records how it ended.

The caller always gets what the function returned or raised. If the service could not be reached to record it, that is
logged, and the call becomes ambiguous once the lease has expired. If the hold was lost, the result is refused and the
caller gets `Ambiguous`, like every repeat: another caller may have been told already that the outcome is unknown.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from interlock.kernel.hold import RenewalTask, RenewalThread
from interlock.sdk.flow import Flow, NothingRun, settled
from interlock.sdk.held import Held
from interlock.sdk.operations.jobs import cancel_job
from interlock.sdk.operations.work import complete_job, fail_job, renew_job
from interlock.sdk.outcomes import (
    Ambiguous,
    Conflict,
    InterlockError,
    InvalidRequest,
    NotFound,
    described,
)
from interlock.sdk.results import Kept
from interlock.wire.jobs import HeldJob
from interlock.wire.problem import Problem

if TYPE_CHECKING:
    from interlock.sdk.gate import Gate, Passage
    from interlock.sdk.session import Session

log = logging.getLogger("interlock")

Drive: TypeAlias = "Callable[[Flow[Any]], Any]"
DriveInLoop: TypeAlias = "Callable[[Flow[Any]], Awaitable[Any]]"


class CurrentCall:
    """The gated call that is running here: what it may prove to a tool, and whether it still may act."""

    def __init__(self, held: Held[HeldJob], session: Session, outer: CurrentCall | None) -> None:
        self._held = held
        self.session, self.outer = session, outer

    @property
    def job(self) -> HeldJob:
        """The job of this call, as it was claimed."""
        return self._held.now

    @property
    def fence(self) -> int:
        """The number to pass to whatever is written to; it only grows."""
        return self._held.now.fence

    @property
    def permit(self) -> str:
        """A signed token that a tool can check offline; a new one after each renewal."""
        return self._held.now.permit

    @property
    def downstream_key(self) -> str:
        """What to pass to the remote side as its idempotency key: the same for every attempt of this call."""
        key = self._held.now.downstream_key
        if key is None:  # an empty one would make all calls one call to the remote side
            raise RuntimeError(
                f"the service gave job {self._held.now.id} no downstream_key; update the server"
            )
        return key

    @property
    def lost(self) -> bool:
        """Whether this process may no longer act: its lease ran out by its own clock, or a renewal was refused."""
        return self._held.lost


_current: ContextVar[CurrentCall | None] = ContextVar("interlock_current", default=None)


def current_call(session: Session) -> CurrentCall:
    """The innermost gated call of this client that is running here."""
    call = _current.get()
    while call is not None and call.session is not session:
        call = call.outer
    if call is None:
        raise RuntimeError("no gated call of this client is running here; ask inside the gated function")
    return call


class Call:
    """One call that may run: it is held, and ends in `complete` or `fail` exactly once."""

    def __init__(self, passage: Passage, gate: Gate, session: Session) -> None:
        self.held = Held(passage.job, gate.lease, passage.sent_at)
        self._gate, self._session = gate, session
        self._pid = os.getpid()
        self._current = CurrentCall(self.held, session, _current.get())

    def step(self, code: Callable[[], Any]) -> Any:
        """Run the function's code with this call as the current one; of a generator, up to its next item."""
        token = _current.set(self._current)
        try:
            return code()
        finally:
            _current.reset(token)

    async def step_in_loop(self, code: Awaitable[Any]) -> Any:
        """As `step`, for what is awaited."""
        token = _current.set(self._current)
        try:
            return await code
        finally:
            _current.reset(token)

    def renewal(self, job: HeldJob) -> Flow[HeldJob]:
        renewed = yield from renew_job(self._session, job.id, job.fence)
        return msgspec.structs.replace(job, permit=renewed.permit, lease_expires_at=renewed.lease_expires_at)

    def returned(self, kept: Kept) -> Flow[None]:
        """Record the result. One that the service does not take is recorded by its text."""
        if self._is_forked:
            return
        job, name = self.held.now, f"{self.held.now.id}/{self.held.fence}/complete"
        try:
            try:
                yield from complete_job(
                    self._session, job.id, job.fence, kept.result, result_text=kept.text, key=name
                )
            except InvalidRequest as refused:
                text = f"a result that could not be kept: {refused}"[:2000]
                yield from complete_job(
                    self._session, job.id, job.fence, result_text=text, key=f"{name}/text"
                )
        except (Conflict, NotFound) as refused:
            if refused.is_foreign:
                self._log(refused)
                return
            raise self._lost(refused) from refused
        except InterlockError as trouble:
            self._log(trouble)

    def raised(self, error: BaseException) -> Flow[None]:
        """Record that the function raised: it did nothing if it says so, else the call is in doubt."""
        if self._is_forked:
            return
        job, undone = self.held.now, self._gate.is_undone(error)
        try:
            yield from fail_job(
                self._session,
                job.id,
                job.fence,
                error=described(error),
                retryable=undone,
                key=f"{job.id}/{job.fence}/fail",
            )
            if undone and self._gate.key is None:
                # No repeat will ever find this job: it would wait for its caller for ever.
                yield from cancel_job(self._session, job.id, reason=f"it raised {type(error).__name__}")
        except InterlockError as trouble:
            self._log(trouble)
            error.add_note(f"job {job.id} could not be told of it ({trouble})")
            return
        if not (undone or self._gate.repeatable):
            error.add_note(
                f"whether the gated call happened is not known (job {job.id}); it does not run again until a person "
                f"records what happened, with reconcile= or resolve_effect('call:{job.id}', …). An exception that "
                "means that surely nothing happened can be named in not_done=, or raised as NotDone"
            )

    @property
    def _is_forked(self) -> bool:
        """Whether this is a child that the function forked: the call is its parent's, which says how it ended."""
        return self._pid != os.getpid()

    def begun_too_late(self, refused: InterlockError) -> Ambiguous:
        """What is raised instead of running a call whose hold was lost before it began."""
        job = self.held.now
        detail = (
            f"the hold on this call (job {job.id}) was lost before the function was begun, so it was not run. Others "
            f"may have been told that it is in doubt: have a person say resolve_effect('call:{job.id}', "
            "'not_committed', evidence='…'), or call again with a reconcile= that asks the remote side"
        )
        return _ambiguous(job, refused, detail)

    def _lost(self, refused: InterlockError) -> Ambiguous:
        job = self.held.now
        detail = (
            f"the hold on this call (job {job.id}) was lost before it ended, so what it returned was refused, and "
            f"others were told that it is in doubt. If it did happen, have a person say so with "
            f"resolve_effect('call:{job.id}', 'committed', evidence='…', result=…), or call again with a reconcile= "
            "that asks the remote side"
        )
        return _ambiguous(job, refused, detail)

    def _log(self, trouble: InterlockError) -> None:
        log.warning("job %s: how the call ended could not be recorded: %s", self.held.now.id, trouble)


def _ambiguous(job: HeldJob, refused: InterlockError, detail: str) -> Ambiguous:
    fields = {**refused.problem.fields, "job_id": job.id}
    return Ambiguous(
        Problem(status=409, code="effect_ambiguous", title="Ambiguous", detail=detail, fields=fields)
    )


@contextlib.contextmanager
def running(call: Call, drive: Drive) -> Generator[None]:
    """Hold the job while the block runs, renewed from a thread; record what the block raises."""

    def renew_now() -> None:
        call.held.now = drive(call.renewal(call.held.now))

    try:
        renewing = RenewalThread(call.held.hold, renew_now)
        renewing.start()
    except (Conflict, NotFound) as refused:
        raise call.begun_too_late(refused) from refused
    except BaseException:
        drive(call.raised(NothingRun("it was stopped before it began")))
        raise
    try:
        yield
    except BaseException as error:
        renewing.stop()
        drive(call.raised(error))
        raise
    renewing.stop()


@contextlib.asynccontextmanager
async def running_in_loop(call: Call, drive: DriveInLoop) -> AsyncGenerator[None]:
    """Hold the job while the block runs, renewed from a task; record what the block raises."""

    async def renew_now() -> None:
        call.held.now = await drive(call.renewal(call.held.now))

    try:
        renewing = RenewalTask(call.held.hold, renew_now)
        await renewing.start()
    except (Conflict, NotFound) as refused:
        raise call.begun_too_late(refused) from refused
    except BaseException:
        await drive(settled(call.raised(NothingRun("it was stopped before it began"))))
        raise
    try:
        yield
    except BaseException as error:
        renewing.stop()
        await drive(settled(call.raised(error)))
        raise
    renewing.stop()
