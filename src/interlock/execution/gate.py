"""What an execution asks of Interlock, whichever way it is reached: a permission, and a record of the effect."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a grant was consumed for this execution, and if not why."""

    claimed: bool
    grant_id: str | None = None
    use: int | None = None
    reason: str | None = None


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The right to act, under this fence; or, if `replayed`, the result of having acted before."""

    fence: int
    replayed: bool = False
    result: Any = None


class Gate(Protocol):
    """The four questions. Each raises what went wrong; none is asked twice for one execution."""

    def claim(
        self, task: str, args: dict[str, Any], execution_id: str, *, grant_id: str | None, signed: bool
    ) -> Claim:
        """Find a grant that fits and consume one use."""
        ...

    def begin(
        self, action_id: str, request_hash: str, *, ttl_seconds: int, job_id: str | None = None
    ) -> Begun:
        """Record that the command is about to run."""
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
