"""Interlock: who may do exactly what, once, with one owner at a time.

The names below are imported when they are first used, so that `import interlock` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.rooms.permits.verification import PermitInvalid as PermitInvalid
    from interlock.rooms.permits.verification import verify_permit as verify_permit
    from interlock.sdk.arguments import NotJson as NotJson
    from interlock.sdk.async_client import AsyncInterlock as AsyncInterlock
    from interlock.sdk.client import Interlock as Interlock
    from interlock.sdk.gated_call import CurrentCall as CurrentCall
    from interlock.sdk.held import AsyncHeldLease as AsyncHeldLease
    from interlock.sdk.held import AsyncHeldRun as AsyncHeldRun
    from interlock.sdk.held import HeldLease as HeldLease
    from interlock.sdk.held import HeldRun as HeldRun
    from interlock.sdk.once import Committed as Committed
    from interlock.sdk.once import NotCommitted as NotCommitted
    from interlock.sdk.once import NotDone as NotDone
    from interlock.sdk.once import Unknown as Unknown
    from interlock.sdk.outcomes import AlreadyDone as AlreadyDone
    from interlock.sdk.outcomes import Ambiguous as Ambiguous
    from interlock.sdk.outcomes import Busy as Busy
    from interlock.sdk.outcomes import Conflict as Conflict
    from interlock.sdk.outcomes import Denied as Denied
    from interlock.sdk.outcomes import Expired as Expired
    from interlock.sdk.outcomes import Final as Final
    from interlock.sdk.outcomes import Forbidden as Forbidden
    from interlock.sdk.outcomes import Full as Full
    from interlock.sdk.outcomes import InterlockError as InterlockError
    from interlock.sdk.outcomes import InvalidRequest as InvalidRequest
    from interlock.sdk.outcomes import LeaseLost as LeaseLost
    from interlock.sdk.outcomes import NoStore as NoStore
    from interlock.sdk.outcomes import NotFound as NotFound
    from interlock.sdk.outcomes import Rejected as Rejected
    from interlock.sdk.outcomes import Retryable as Retryable
    from interlock.sdk.outcomes import StillPending as StillPending
    from interlock.sdk.outcomes import Unauthenticated as Unauthenticated
    from interlock.sdk.outcomes import Unavailable as Unavailable
    from interlock.sdk.outcomes import UnexpectedAnswer as UnexpectedAnswer
    from interlock.sdk.retry import NO_RETRIES as NO_RETRIES
    from interlock.sdk.retry import Backoff as Backoff
    from interlock.sdk.retry import Retry as Retry
    from interlock.sdk.retry import RetryPolicy as RetryPolicy
    from interlock.sdk.worker import Worker as Worker
    from interlock.sdk.worker_jobs import AsyncWork as AsyncWork
    from interlock.sdk.worker_jobs import Work as Work
    from interlock.wire.effects import Effect as Effect
    from interlock.wire.jobs import Evidence as Evidence
    from interlock.wire.jobs import Job as Job
    from interlock.wire.jobs import Target as Target

_HOMES = {
    "interlock.rooms.permits.verification": ("PermitInvalid", "verify_permit"),
    "interlock.sdk.worker": ("Worker",),
    "interlock.sdk.worker_jobs": ("AsyncWork", "Work"),
    "interlock.sdk.async_client": ("AsyncInterlock",),
    "interlock.sdk.client": ("Interlock",),
    "interlock.sdk.arguments": ("NotJson",),
    "interlock.sdk.gated_call": ("CurrentCall",),
    "interlock.sdk.held": ("AsyncHeldLease", "AsyncHeldRun", "HeldLease", "HeldRun"),
    "interlock.wire.effects": ("Effect",),
    "interlock.sdk.once": ("Committed", "NotCommitted", "NotDone", "Unknown"),
    "interlock.wire.jobs": ("Evidence", "Job", "Target"),
    "interlock.sdk.retry": ("NO_RETRIES", "Backoff", "Retry", "RetryPolicy"),
    "interlock.sdk.outcomes": (
        "AlreadyDone",
        "Ambiguous",
        "Busy",
        "Conflict",
        "Denied",
        "Expired",
        "Final",
        "Forbidden",
        "Full",
        "InterlockError",
        "InvalidRequest",
        "LeaseLost",
        "NoStore",
        "NotFound",
        "Rejected",
        "Retryable",
        "StillPending",
        "Unauthenticated",
        "Unavailable",
        "UnexpectedAnswer",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Load what is asked for by name."""
    if name == "__version__":
        from importlib.metadata import version

        return version("interlock")
    if name not in _HOME:
        raise AttributeError(f"interlock has no {name!r}; it has {', '.join(sorted(_HOME))}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what can be asked for."""
    return sorted(_HOME)
