"""What an execution asks of Interlock, whichever way it is reached: a permission, and a record of the effect."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


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

    def begin(
        self,
        action_id: str,
        request_hash: str,
        *,
        ttl_seconds: int,
        job_id: str | None = None,
        grant: Needed | None = None,
    ) -> Begun:
        """Consume what permits it and record that the command is about to run, or neither.

        Raises `NotGranted`, and `MaybeBegun` if nobody can say which.
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
