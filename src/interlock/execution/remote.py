"""The gate through the SDK: a server, or the service in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from interlock.execution.gate import Begun, MaybeBegun, Needed, NotGranted
from interlock.sdk.outcomes import Ambiguous, Conflict, Denied

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock

# What an execution was permitted for is its whole command; for another one there is no permission.
_NOT_GRANTED = ("not_claimed", "action_id_reused")
_BEGUN_BEFORE = "effect_ambiguous"


class ClientGate:
    """Asks through a client, with its retries."""

    def __init__(self, client: Interlock) -> None:
        self._client = client

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
        body: dict[str, Any] = {"request_hash": request_hash, "ttl_seconds": ttl_seconds, "job_id": job_id}
        if grant is not None:
            body["grant"] = msgspec.to_builtins(grant)
        try:
            effect = self._client.call("POST", "effects", action_id, "begin", body=body)
        except (Denied, Conflict) as refused:
            if grant is None or refused.code not in _NOT_GRANTED:
                raise
            raise NotGranted(refused.problem.fields.get("reason") or str(refused)) from refused
        except Ambiguous as lost:
            if lost.code == _BEGUN_BEFORE:
                raise
            raise MaybeBegun(lost.problem.detail or str(lost)) from lost
        used = effect["grant"]
        return Begun(
            fence=effect["fence"],
            replayed=effect["replayed"],
            result=effect["result"],
            grant_id=used["id"] if used else None,
        )

    def commit(self, action_id: str, fence: int, result: dict[str, Any]) -> None:
        """Record that it ran, and how it ended."""
        self._client.call("POST", "effects", action_id, "commit", body={"fence": fence, "result": result})

    def fail(self, action_id: str, fence: int, error: dict[str, Any]) -> None:
        """Record that it surely did not run."""
        body = {"fence": fence, "error": error, "safe_to_retry": True}
        self._client.call("POST", "effects", action_id, "fail", body=body)
