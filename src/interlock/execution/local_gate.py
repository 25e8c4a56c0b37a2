"""The gate on a kernel in this process: the same commands as the service's, without the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from interlock.codec.canonical import canonical
from interlock.execution.gate import Begun, MaybeBegun, Needed, NotGranted
from interlock.grants.claiming import ClaimGrant, LookFurther
from interlock.kernel.refusal import OutcomeUnknown
from interlock.runtime.local_kernel import LocalKernel

if TYPE_CHECKING:
    from interlock.effects.rules import BeginEffect
    from interlock.effects.rules import Begun as BegunEffect


class LocalGate:
    """Asks the kernel."""

    def __init__(self, kernel: LocalKernel) -> None:
        self._kernel = kernel

    def begin(
        self,
        action_id: str,
        request_hash: str,
        *,
        ttl_seconds: int,
        job_id: str | None = None,
        grant: Needed | None = None,
    ) -> Begun:
        """Consume what permits it and record that the command is about to run, or neither."""
        from interlock.effects.refusals import GrantMissing
        from interlock.effects.rules import BeginEffect

        command = BeginEffect(
            caller=self._kernel.caller,
            action_id=action_id,
            request_hash=request_hash,
            ttl_seconds=ttl_seconds,
            job_id=job_id,
        )
        try:
            begun = self._kernel.run(command) if grant is None else self._begin_under(command, grant)
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
        from interlock.effects.settling import CommitEffect

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
        from interlock.effects.settling import FailEffect

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
