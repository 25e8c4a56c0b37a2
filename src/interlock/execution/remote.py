"""The gate through the SDK: a server, or the service in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.execution.gate import Begun, Claim

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock


class ClientGate:
    """Asks through a client, with its retries."""

    def __init__(self, client: Interlock) -> None:
        self._client = client

    def claim(
        self, task: str, args: dict[str, Any], execution_id: str, *, grant_id: str | None, signed: bool
    ) -> Claim:
        """Find a grant that fits and consume one use."""
        found = self._client.claim(
            task, args=args, execution_id=execution_id, grant_id=grant_id, signed=signed or None
        )
        return Claim(claimed=found.claimed, grant_id=found.grant_id, use=found.use, reason=found.reason)

    def begin(
        self, action_id: str, request_hash: str, *, ttl_seconds: int, job_id: str | None = None
    ) -> Begun:
        """Record that the command is about to run."""
        body = {"request_hash": request_hash, "ttl_seconds": ttl_seconds, "job_id": job_id}
        effect = self._client.call("POST", "effects", action_id, "begin", body=body)
        return Begun(fence=effect["fence"], replayed=effect["replayed"], result=effect["result"])

    def commit(self, action_id: str, fence: int, result: dict[str, Any]) -> None:
        """Record that it ran, and how it ended."""
        self._client.call("POST", "effects", action_id, "commit", body={"fence": fence, "result": result})

    def fail(self, action_id: str, fence: int, error: dict[str, Any]) -> None:
        """Record that it surely did not run."""
        body = {"fence": fence, "error": error, "safe_to_retry": True}
        self._client.call("POST", "effects", action_id, "fail", body=body)
