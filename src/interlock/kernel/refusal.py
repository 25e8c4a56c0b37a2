"""The two ways in which a command ends without a result.

A refusal is an expected, typed "no": the state or the rules do not allow it. A fault means that the service could not
decide. Neither knows HTTP; only `api/problems.py` gives them a status.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Next(msgspec.Struct, frozen=True):
    """What a refused caller does next: an operation of the API by its id, with the arguments that are known.

    `needs` names the fields that only the caller can fill in, such as the evidence of a resolution.
    """

    operation: str
    arguments: Mapping[str, str | int]
    needs: tuple[str, ...] = ()


class Refusal(Exception):
    """An expected "no". Subclasses carry what the caller needs to understand it and the next step.

    `next` is for programs and for each surface to put into its own words; a detail never names a route or a command.
    """

    next: Next | None = None

    @property
    def detail(self) -> str:
        """One sentence for a person, ending with what to do next in words that fit every surface."""
        return str(self.args[0]) if self.args else type(self).__name__


class Unreadable(Refusal):
    """A stored record is not what was written. It is refused to callers that ask for it, and concerns no others.

    `why` is for the operator, not for callers: it may show a little of what is stored.
    """

    def __init__(self, kind: str, record_id: str | None = None, *, why: str = "") -> None:
        self.kind = kind
        self.why = why
        what = kind.replace("_", " ") if record_id is None else f"{kind.replace('_', ' ')} {record_id}"
        super().__init__(
            f"the stored {what} cannot be read: it was changed in the store; put it back from a copy of the store"
        )


class Fault(Exception):
    """The service could not decide. `retry_after_seconds` is an estimate from what is known."""

    def __init__(self, detail: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds


class LockBusy(Fault):
    """Another actor held a needed record for longer than the acquire budget; nothing was decided."""


class StoreUnavailable(Fault):
    """The store did not answer within the budget; nothing was decided."""


class OutcomeUnknown(Fault):
    """The COMMIT may or may not have happened; repeat the call with the same idempotency key."""


class Overloaded(Fault):
    """The kernel's queue is full; refused before any work was done."""


class CommandFailed(Fault):
    """This one command broke (a bug or a value the store cannot keep); its neighbours went on."""
