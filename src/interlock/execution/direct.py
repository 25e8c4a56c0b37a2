"""The gate on the embedded store itself: the same commands as the service's, without the service."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.codec.canonical import canonical
from interlock.execution.gate import Begun, Claim
from interlock.grants.claiming import ClaimGrant, LookFurther, NotClaimed
from interlock.runtime.direct import DirectStore

_LOOKS_MAX = 64
# Nobody shares a batch with this claim, so the oldest few will do; more are loaded only if none of them fits.
_FIRST_LOOK = 2


class DirectGate:
    """Asks the kernel."""

    def __init__(self, store: DirectStore) -> None:
        self._store = store

    def claim(
        self, task: str, args: dict[str, Any], execution_id: str, *, grant_id: str | None, signed: bool
    ) -> Claim:
        """Find a grant that fits and consume one use."""
        command = ClaimGrant(
            caller=self._store.caller,
            task=task,
            args=msgspec.Raw(canonical(args)),
            execution_id=execution_id,
            grant_id=grant_id,
            signed_only=signed,
            first_look=_FIRST_LOOK,
        )
        for look in range(_LOOKS_MAX):
            try:
                found = self._store.run(msgspec.structs.replace(command, is_last_look=look == _LOOKS_MAX - 1))
            except LookFurther as further:
                command = msgspec.structs.replace(command, after=further.after)
            else:
                if isinstance(found, NotClaimed):
                    return Claim(claimed=False, reason=found.reason)
                return Claim(claimed=True, grant_id=found.grant_id, use=found.use)
        raise AssertionError("the last look always answers")

    def begin(
        self, action_id: str, request_hash: str, *, ttl_seconds: int, job_id: str | None = None
    ) -> Begun:
        """Record that the command is about to run."""
        from interlock.effects.rules import BeginEffect

        begun = self._store.run(
            BeginEffect(
                caller=self._store.caller,
                action_id=action_id,
                request_hash=request_hash,
                ttl_seconds=ttl_seconds,
                job_id=job_id,
            )
        )
        result = msgspec.json.decode(begun.effect.result)
        return Begun(fence=begun.effect.fence, replayed=begun.replayed, result=result)

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
