"""The two ways a command ends without a result.

A refusal is an expected, typed "no": the state or the rules do not allow it. A fault is the service's
own inability to decide. Neither knows anything of HTTP; `api/problems.py` alone gives them a status.
"""

from __future__ import annotations


class Refusal(Exception):
    """An expected "no". Subclasses carry what the caller needs to understand it and the next step."""

    @property
    def detail(self) -> str:
        """One sentence for a person, ending with what to do next."""
        return str(self.args[0]) if self.args else type(self).__name__


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
