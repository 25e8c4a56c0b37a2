"""The gate on the embedded store itself: the same commands as the service's, without the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from interlock.codec.canonical import canonical
from interlock.execution.gate import Begun, Needed, NotGranted
from interlock.grants.claiming import ClaimGrant, LookFurther
from interlock.grants.model import GrantUse
from interlock.kernel.command import Command
from interlock.runtime.direct import DirectStore

T = TypeVar("T")

_LOOKS_MAX = 64
# Nobody shares a batch with this claim, so the oldest few will do; more are loaded only if none of them fits.
_FIRST_LOOK = 2


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a use of a grant was consumed, and if not why."""

    claimed: bool
    grant_id: str | None = None
    use: int | None = None
    reason: str | None = None


class DirectGate:
    """Asks the kernel."""

    def __init__(self, store: DirectStore) -> None:
        self._store = store

    def claim(
        self, task: str, args: dict[str, Any], execution_id: str, *, grant_id: str | None, signed: bool
    ) -> Claim:
        """Find a grant that fits and consume one use, for whoever runs nothing under it yet."""
        needed = Needed(task=task, args=args, execution_id=execution_id, grant_id=grant_id, signed=signed)
        found = self._look(self._claim_of(needed), lambda claim: claim)
        if isinstance(found, GrantUse):
            return Claim(claimed=True, grant_id=found.grant_id, use=found.use)
        return Claim(claimed=False, reason=found.reason)

    def begin(
        self,
        action_id: str,
        request_hash: str,
        *,
        ttl_seconds: int,
        job_id: str | None = None,
        grant: Needed | None = None,
    ) -> Begun:
        """Consume what permits it and record that the command is about to run, or neither. Raises `NotGranted`."""
        from interlock.effects.refusals import GrantMissing
        from interlock.effects.rules import BeginEffect

        command = BeginEffect(
            caller=self._store.caller,
            action_id=action_id,
            request_hash=request_hash,
            ttl_seconds=ttl_seconds,
            job_id=job_id,
        )
        if grant is None:
            begun = self._store.run(command)
        else:
            claim = msgspec.structs.replace(self._claim_of(grant), action_id=action_id)
            try:
                begun = self._look(claim, lambda claim: msgspec.structs.replace(command, grant=claim))
            except GrantMissing as missing:
                raise NotGranted(missing.reason) from missing
        effect = begun.effect
        return Begun(
            fence=effect.fence,
            replayed=begun.replayed,
            result=msgspec.json.decode(effect.result),
            grant_id=effect.grant.id if effect.grant else None,
        )

    def commit(self, action_id: str, fence: int, result: dict[str, Any]) -> None:
        """Record that it ran, and how it ended."""
        from interlock.effects.settling import CommitEffect

        self._store.run(
            CommitEffect(
                caller=self._store.caller,
                action_id=action_id,
                fence=fence,
                result=msgspec.Raw(canonical(result)),
            )
        )

    def fail(self, action_id: str, fence: int, error: dict[str, Any]) -> None:
        """Record that it surely did not run."""
        from interlock.effects.settling import FailEffect

        self._store.run(
            FailEffect(
                caller=self._store.caller,
                action_id=action_id,
                fence=fence,
                error=msgspec.Raw(canonical(error)),
                safe_to_retry=True,
            )
        )

    def _claim_of(self, needed: Needed) -> ClaimGrant:
        return ClaimGrant(
            caller=self._store.caller,
            task=needed.task,
            args=msgspec.Raw(canonical(needed.args)),
            execution_id=needed.execution_id,
            grant_id=needed.grant_id,
            signed_only=needed.signed,
            first_look=_FIRST_LOOK,
        )

    def _look(self, claim: ClaimGrant, command_of: Callable[[ClaimGrant], Command[T]]) -> T:
        """Run a command with a claim in it; while the oldest grants do not fit and there are more, look further."""
        for look in range(_LOOKS_MAX):
            claim = msgspec.structs.replace(claim, is_last_look=look == _LOOKS_MAX - 1)
            try:
                return self._store.run(command_of(claim))
            except LookFurther as further:
                claim = claim.looking_further(further)
        raise AssertionError("the last look always answers")
