"""Exit codes of the contract, and the only map from outcomes to them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.sdk.outcomes import InterlockError


class Exit(IntEnum):
    """What a script can branch on."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    DENIED = 3  # denied, rejected, or ended without an approval: it will not run
    WAITING = 4
    BUSY = 5  # busy or full: the same command later may succeed
    UNAVAILABLE = 6


# A job's state as the answer to "may it run?"; a state that is not listed is still on its way to a person.
OF_STATE: Mapping[str, Exit] = {
    "PENDING": Exit.DONE,
    "RUNNING": Exit.DONE,
    "SUCCEEDED": Exit.DONE,
    "FAILED": Exit.ERROR,
    "DENIED": Exit.DENIED,
    "CANCELLED": Exit.DENIED,
    "EXPIRED": Exit.DENIED,
}


class Failed(Exception):
    """A command ends here. `detail` is a readable paragraph with the next step; `problem` is for `--json`.

    It has the members of the API's problem documents, as far as they are known; `retryable` always.
    """

    def __init__(
        self,
        detail: str,
        code: Exit = Exit.ERROR,
        *,
        name: str = "error",
        problem: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.exit = code
        may_repeat = code in (Exit.BUSY, Exit.UNAVAILABLE)
        told = {"title": name, "detail": detail, "code": name, "retryable": may_repeat}
        self.problem: Mapping[str, object] = {**told, **(problem or {})}


def exit_of_state(state: str) -> Exit:
    """How a command that submitted or waited for a job ends, by the job's state."""
    return OF_STATE.get(state, Exit.WAITING)


def exit_of(outcome: InterlockError) -> Exit:
    """How a command ends whose call ended in this outcome."""
    from interlock.sdk import outcomes as o

    by_type: tuple[tuple[type[InterlockError], Exit], ...] = (
        (o.Denied, Exit.DENIED),
        (o.Rejected, Exit.DENIED),
        (o.Expired, Exit.DENIED),
        (o.StillPending, Exit.WAITING),
        (o.Busy, Exit.BUSY),
        (o.Full, Exit.BUSY),
        (o.Unavailable, Exit.UNAVAILABLE),
        # Whether it happened is not known, because the service cannot be asked.
        (o.Ambiguous, Exit.UNAVAILABLE),
    )
    return next((code for kind, code in by_type if isinstance(outcome, kind)), Exit.ERROR)
