"""Runs a command once: with a permission from Interlock, embedded or over HTTP, and a record of the effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from interlock.cli.execution.prepared import Effective
from interlock.cli.execution.process import NotStarted, Signals, Stopped, run
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.refusal import OutcomeUnknown
from interlock.rooms.grants.claims import ClaimGrant, LookFurther
from interlock.sdk.outcomes import Ambiguous, Conflict, Denied
from interlock.service.local_kernel import LocalKernel

if TYPE_CHECKING:
    from interlock.rooms.jobs.effect_intent import BeginEffect, BegunEffect
    from interlock.sdk.client import Interlock


class Needed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The permission that an execution needs: one use of a grant for this task that fits these arguments.

    `groups`: of a person in one of them. `claimed_before`: the use that this execution has, and no other. What is not
    asked for is not sent, so that a server that does not know it is no hindrance.
    """

    task: str
    args: dict[str, Any]
    execution_id: str
    grant_id: str | None = None
    signed: bool = False
    groups: tuple[str, ...] = ()
    claimed_before: bool = False


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that is about to run: its effect, and the job or the grant that permits it."""

    action_id: str
    request_hash: str
    ttl_seconds: int
    job_id: str | None = None
    grant: Needed | None = None


class NotGranted(Exception):
    """No grant permits it; nothing was consumed and nothing begun."""


class MaybeBegun(Exception):
    """The answer was lost: it may have been begun and its grant consumed. The command was not started."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The right to act, under this fence; or, if `replayed`, the result of having acted before."""

    fence: int
    replayed: bool = False
    result: Any = None
    grant_id: str | None = None


class Gate(Protocol):
    """The three questions. Each raises what went wrong; none is asked twice for one execution."""

    def begin(self, attempt: Attempt) -> Begun:
        """Consume what permits it and record that the command is about to run, or neither.

        Raises `NotGranted`, and `MaybeBegun` if the answer was lost.
        """
        ...

    def commit(self, action_id: str, fence: int, result: dict[str, Any]) -> None:
        """Record that it ran, and how it ended."""
        ...

    def fail(self, action_id: str, fence: int, error: dict[str, Any]) -> None:
        """Record that it surely did not run."""
        ...


def action_id_of(execution_id: str) -> str:
    """The name of an execution's effect."""
    return f"exec:{execution_id}"


class LocalGate:
    """Asks the kernel."""

    def __init__(self, kernel: LocalKernel) -> None:
        self._kernel = kernel

    def begin(self, attempt: Attempt) -> Begun:
        """Consume what permits it and record that the command is about to run, or neither."""
        from interlock.rooms.effects.model import GrantMissing
        from interlock.rooms.jobs.effect_intent import BeginEffect

        command = BeginEffect(
            caller=self._kernel.caller,
            action_id=attempt.action_id,
            request_hash=attempt.request_hash,
            ttl_seconds=attempt.ttl_seconds,
            job_id=attempt.job_id,
        )
        try:
            needed = attempt.grant
            begun = self._kernel.run(command) if needed is None else self._begin_under(command, needed)
        except GrantMissing as missing:
            raise NotGranted(missing.reason) from missing
        except OutcomeUnknown as lost:
            raise MaybeBegun(str(lost)) from lost
        effect = begun.effect
        return Begun(
            fence=effect.fence,
            replayed=begun.replayed,
            result=msgspec.json.decode(effect.result),
            grant_id=effect.grant.id if effect.grant else None,
        )

    def commit(self, action_id: str, fence: int, result: dict[str, Any]) -> None:
        """Record that it ran, and how it ended."""
        from interlock.rooms.effects.settlement import CommitEffect

        self._kernel.run(
            CommitEffect(
                caller=self._kernel.caller,
                action_id=action_id,
                fence=fence,
                result=msgspec.Raw(canonical(result)),
            )
        )

    def fail(self, action_id: str, fence: int, error: dict[str, Any]) -> None:
        """Record that it surely did not run."""
        from interlock.rooms.effects.settlement import FailEffect

        self._kernel.run(
            FailEffect(
                caller=self._kernel.caller,
                action_id=action_id,
                fence=fence,
                error=msgspec.Raw(canonical(error)),
                safe_to_retry=True,
            )
        )

    def _begin_under(self, command: BeginEffect, needed: Needed) -> BegunEffect:
        """Begin with a claim; while the oldest grants do not fit and there are more, look further."""
        claim = self._claim_of(needed, command.action_id)
        while True:
            try:
                return self._kernel.run(msgspec.structs.replace(command, grant=claim))
            except LookFurther as further:
                claim = further.claim

    def _claim_of(self, needed: Needed, action_id: str) -> ClaimGrant:
        return ClaimGrant(
            caller=self._kernel.caller,
            task=needed.task,
            args=msgspec.Raw(canonical(needed.args)),
            execution_id=needed.execution_id,
            action_id=action_id,
            grant_id=needed.grant_id,
            signed_only=needed.signed,
            groups=needed.groups,
            claimed_before=needed.claimed_before,
        )


# What an execution was permitted for is its whole command; for another one there is no permission.
_NOT_GRANTED = ("not_claimed", "action_id_reused")
_BEGUN_BEFORE = "effect_ambiguous"


class ClientGate:
    """Asks through a client, with its retries."""

    def __init__(self, client: Interlock) -> None:
        self._client = client

    def begin(self, attempt: Attempt) -> Begun:
        """Consume what permits it and record that the command is about to run, or neither."""
        try:
            effect = self._client.begin_effect(
                attempt.action_id,
                request_hash=attempt.request_hash,
                ttl_seconds=attempt.ttl_seconds,
                job_id=attempt.job_id,
                grant=msgspec.to_builtins(attempt.grant),
            )
        except (Denied, Conflict) as refused:
            if attempt.grant is None or refused.code not in _NOT_GRANTED:
                raise
            raise NotGranted(refused.problem.fields.get("reason") or str(refused)) from refused
        except Ambiguous as lost:
            if lost.code == _BEGUN_BEFORE:
                raise
            raise MaybeBegun(lost.problem.detail or str(lost)) from lost
        return Begun(
            fence=effect.fence,
            replayed=effect.replayed,
            result=effect.result,
            grant_id=effect.grant.id if effect.grant else None,
        )

    def commit(self, action_id: str, fence: int, result: dict[str, Any]) -> None:
        """Record that it ran, and how it ended."""
        self._client.commit_effect(action_id, fence, result)

    def fail(self, action_id: str, fence: int, error: dict[str, Any]) -> None:
        """Record that it surely did not run."""
        self._client.fail_effect(action_id, fence, error, safe_to_retry=True)


# The record outlives the command, so that a command which ends in time never leaves its outcome unknown.
_SETTLING_SECONDS = 120


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended; `replayed` if it had run before and did not now.

    `unrecorded` is why the effect's record does not say so, and `fence` what it could still be recorded under;
    `unfinished` is why its job alone does not. `unheard` is why what it said could not all be passed on.
    """

    execution_id: str
    exit_code: int
    replayed: bool
    result: dict[str, Any]
    fence: int = 0
    unrecorded: str | None = None
    unfinished: str | None = None
    unheard: str | None = None


def begin(
    gate: Gate,
    command: Effective,
    execution_id: str,
    *,
    job_id: str | None = None,
    grant: Needed | None = None,
) -> Begun:
    """Take the right to run it, or learn how it ended before. Raises `NotGranted` or `MaybeBegun`."""
    attempt = Attempt(
        action_id=action_id_of(execution_id),
        request_hash=command.document()["command_hash"],
        ttl_seconds=command.timeout_seconds + _SETTLING_SECONDS,
        job_id=job_id,
        grant=grant,
    )
    return gate.begin(attempt)


def run_begun(gate: Gate, command: Effective, execution_id: str, begun: Begun, signals: Signals) -> Ended:
    """Run what was begun and record how it ended. Raises `NotStarted` after recording that nothing happened.

    Once the command has run, no trouble with its record hides how it ended: who saw a failure would run it again.
    """
    action_id = action_id_of(execution_id)
    try:
        ran = run(command, signals)
    except NotStarted as error:
        with signals.stopping():
            gate.fail(action_id, begun.fence, {"error": str(error)})
        raise
    result: dict[str, Any] = msgspec.to_builtins(ran)
    ended = Ended(
        execution_id=execution_id,
        exit_code=ran.exit_code,
        replayed=False,
        unheard=result.pop("unheard"),
        result=result,
        fence=begun.fence,
    )
    try:
        with signals.stopping():
            gate.commit(action_id, begun.fence, result)
    except (Exception, Stopped) as trouble:  # noqa: BLE001 - whatever it is, the command has run
        return msgspec.structs.replace(ended, unrecorded=str(trouble) or type(trouble).__name__)
    return ended


def replayed(execution_id: str, result: Any) -> Ended:
    """How it ended when it ran, from its record. A result that another program recorded may lack an exit code."""
    known = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    code = known.get("exit_code")
    return Ended(
        execution_id=execution_id, exit_code=code if isinstance(code, int) else 0, replayed=True, result=known
    )
