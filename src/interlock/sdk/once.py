"""Side effects that happen once: the intent is recorded before the call, the result after it.

    receipt = il.once(f"refund:{txn}", refund, txn, amount)

A function that raises `NotDone` says that it certainly did nothing, and may be called again. Any other exception, a
crash or a timeout leaves the outcome unknown: the effect is `AMBIGUOUS`, and it does not run again until a person
reports what happened, or `reconcile` has asked the remote system.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from interlock.kernel.codec.canonical import NotCanonical, digest
from interlock.sdk.arguments import CallShape
from interlock.sdk.calls import invalid
from interlock.sdk.flow import Flow, NothingRun, Raised, act, settled, taken
from interlock.sdk.operations.shared import (
    begin_effect,
    commit_effect,
    fail_effect,
    get_effect,
    get_effect_result,
    resolve_effect,
)
from interlock.sdk.outcomes import Ambiguous, Conflict, InterlockError, InvalidRequest, kept_text
from interlock.wire.effects import Effect
from interlock.wire.jobs import HeldJob, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from interlock.sdk.session import Session

KEY_PARAMETER = "downstream_key"
_ERROR_CHARACTERS_MAX = 2000


class NotDone(Exception):
    """Raise it from the function to say that the effect surely did not happen; it may be tried again."""


class Committed(msgspec.Struct, frozen=True):
    """The remote side says that it happened, with this result."""

    result: Any = None
    evidence: Any = "the remote side says so"


class NotCommitted(msgspec.Struct, frozen=True):
    """The remote side says that it did not happen, and will not."""

    evidence: Any = "the remote side says so"


class Unknown(msgspec.Struct, frozen=True):
    """The remote side cannot tell either."""


Finding: TypeAlias = Committed | NotCommitted | Unknown
Reconcile: TypeAlias = "Callable[[Effect], Finding | Awaitable[Finding]]"
GrantNeeded: TypeAlias = str | Mapping[str, Any]  # a task, or what `begin_effect` takes as `grant`


class LeaseLike(Protocol):
    """Whatever names a lease, such as a lease or what `with il.lease(…)` holds: its id and its fence."""

    @property
    def lease_id(self) -> str: ...
    @property
    def fence(self) -> int: ...


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What must hold for the effect to begin, and how long it may take."""

    ttl: float | None = None
    job: HeldJob | str | None = None
    lease: LeaseLike | None = None
    target: Target | None = None
    grant: GrantNeeded | None = None
    reconcile: Reconcile | None = None

    def permitting(self, arguments: Any) -> Conditions:
        """These conditions with a grant named by its task alone spelled out: it must fit these arguments."""
        if not isinstance(self.grant, str):
            return self
        return msgspec.structs.replace(self, grant={"task": self.grant, "args": arguments})

    def begin(self, session: Session, action_id: str, request_hash: str) -> Flow[Effect]:
        """Begin, or learn that it was done."""
        job = self.job
        begin = begin_effect(
            session,
            action_id,
            request_hash=request_hash,
            job_id=job.id if isinstance(job, HeldJob) else job,
            permit=job.permit if isinstance(job, HeldJob) else None,
            lease=_lease_ref(session, self.lease) if self.lease else None,
            target=msgspec.to_builtins(self.target),
            grant={"task": self.grant} if isinstance(self.grant, str) else self.grant,
            ttl_seconds=self.ttl,
        )
        return (yield from taken(begin, lambda effect, _: _left(session, effect)))


def once(
    session: Session,
    action_id: str,
    function: Callable[..., Any],
    /,
    *args: Any,
    ttl: float | None = None,
    reconcile: Reconcile | None = None,
    job: HeldJob | str | None = None,
    lease: LeaseLike | None = None,
    target: Target | None = None,
    grant: GrantNeeded | None = None,
    **kwargs: Any,
) -> Flow[Any]:
    """`once` of both clients, which say more of it."""
    conditions = Conditions(ttl=ttl, reconcile=reconcile, job=job, lease=lease, target=target, grant=grant)
    return (yield from run_once(session, action_id, function, args, kwargs, conditions))


def run_once(
    session: Session,
    action_id: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    conditions: Conditions,
) -> Flow[Any]:
    """`once`, for a function whose parameters may have any name."""
    named = _name_of_call(function, args, kwargs)
    conditions = conditions.permitting(named["arguments"])
    effect = yield from opened(session, action_id, hash_of_request(named), conditions)
    if effect.replayed:
        return effect.result
    call = _with_key(function, args, kwargs, effect.downstream_key)
    ran = yield from act(call)
    if isinstance(ran, Raised):
        yield from settled(told_of_failure(session, effect, ran.error))
        raise ran.error
    yield from settled(committed(session, effect, ran))
    return ran


def opened(session: Session, action_id: str, request_hash: str, conditions: Conditions) -> Flow[Effect]:
    """Begin an effect; one whose outcome is unknown is reconciled first, if there is a way. At most twice."""
    try:
        effect = yield from conditions.begin(session, action_id, request_hash)
    except Ambiguous as unknown:
        if conditions.reconcile is None or unknown.code != "effect_ambiguous":
            raise
        settled = yield from _reconciled(session, action_id, conditions.reconcile, unknown)
        effect = settled or (yield from conditions.begin(session, action_id, request_hash))
    if effect.replayed and effect.stored_result is not None:
        whole = yield from get_effect_result(session, action_id)
        return msgspec.structs.replace(effect, result=whole.result)
    return effect


def committed(session: Session, effect: Effect, result: Any) -> Flow[Effect]:
    """Record the result. One that cannot be kept is recorded as text, and the caller is told: it has happened."""
    try:
        return (yield from commit_effect(session, effect.action_id, effect.fence, result=result))
    except InvalidRequest as refused:
        note = {"not_json": kept_text(result, _ERROR_CHARACTERS_MAX, repr)}
        yield from commit_effect(session, effect.action_id, effect.fence, result=note)
        raise invalid(
            f"the result of effect {effect.action_id} could not be kept ({refused}); it is committed, and a repeat "
            "returns the beginning of its text. Return less, and JSON"
        ) from refused


def told_of_failure(session: Session, effect: Effect, error: BaseException) -> Flow[None]:
    """Record that the function raised: done nothing if it says so, else unknown. Its own exception goes on."""
    safe = isinstance(error, NotDone | NothingRun)
    said = {"type": type(error).__name__, "message": kept_text(error, _ERROR_CHARACTERS_MAX)}
    try:
        after = yield from fail_effect(
            session, effect.action_id, effect.fence, error=said, safe_to_retry=safe
        )
    except InterlockError as trouble:
        error.add_note(
            f"effect {effect.action_id} could not be told of it ({trouble}); in time it is AMBIGUOUS"
        )
        return
    error.add_note(
        f"effect {effect.action_id} is {after.state}"
        + ("; it may be tried again" if safe else "; find out what happened, then resolve it with evidence")
    )


def _left(session: Session, effect: Effect) -> Flow[None]:
    """Record that nothing was done, for a caller that was cancelled while it began."""
    if not effect.replayed:
        yield from told_of_failure(session, effect, NotDone("cancelled before anything was done"))


def _name_of_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    if not hasattr(function, "__qualname__"):
        raise invalid(f"{function!r} has no name; pass a def, or use effect_scope with request=")
    if yields(function):
        raise invalid(
            f"{function.__qualname__} yields, so a call runs nothing of it; pass a def that returns"
        )
    given = dict(kwargs)
    takes_key = KEY_PARAMETER in inspect.signature(function).parameters
    if takes_key:
        given.setdefault(KEY_PARAMETER, "")
    arguments = CallShape(function).bind(args, given).payload
    arguments.pop(KEY_PARAMETER, None)
    # A retry after a crash may define the same function elsewhere: inside a main(), or in a file of its own.
    name = function.__qualname__.rpartition("<locals>.")[2]
    return {"function": name, "arguments": arguments}


def yields(function: Callable[..., Any]) -> bool:
    """Whether a call of it does nothing yet: it would be recorded as done."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def hash_of_request(request: Any) -> str:
    """Name a request by its content."""
    try:
        return digest("effect-request/v1", request)
    except NotCanonical as error:
        raise invalid(f"the request of an effect must be JSON: {error}") from error


def _reconciled(
    session: Session, action_id: str, reconcile: Reconcile, unknown: Ambiguous
) -> Flow[Effect | None]:
    """What the remote side says, recorded: the effect if it happened, None if it may be tried again."""
    effect = yield from get_effect(session, action_id)
    found = yield from act(lambda: reconcile(effect))
    if isinstance(found, Raised):
        raise found.error
    if isinstance(found, Committed):
        after = yield from resolve_effect(
            session, action_id, "committed", evidence=found.evidence, result=found.result
        )
        return msgspec.structs.replace(after, replayed=True)
    if isinstance(found, NotCommitted):
        try:
            yield from resolve_effect(session, action_id, "not_committed", evidence=found.evidence)
        except Conflict as other:
            raise unknown from other
        return None
    if isinstance(found, Unknown):
        raise unknown
    raise TypeError(f"reconcile returned {found!r}; return Committed(result), NotCommitted() or Unknown()")


def _lease_ref(client: Session, lease: LeaseLike) -> dict[str, object]:
    named: dict[str, object] = {"id": lease.lease_id, "fence": lease.fence}
    session = client.names(getattr(lease, "session", None) or None)
    return {**named, "session": session} if session else named


def _with_key(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: str
) -> Callable[[], Any]:
    if KEY_PARAMETER in inspect.signature(function).parameters:
        kwargs = {KEY_PARAMETER: key, **kwargs}
    return lambda: function(*args, **kwargs)
