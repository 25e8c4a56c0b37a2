"""How starts of runs ended, as the SDK gives it."""

from __future__ import annotations

import msgspec


class StartsOfWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """How starts of one workflow ended: admitted, refused as full, or not evaluated."""

    workflow: str
    admitted: int
    full_429: int
    unavailable_503: int


class AdmissionStats(msgspec.Struct, frozen=True, kw_only=True):
    """How starts ended within the window, on the server that answered."""

    tenant: str
    window: str
    admitted: int
    full_429: int
    unavailable_503: int
    workflows: tuple[StartsOfWorkflow, ...] = ()


class ClearedLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a scope had a limit of its own, which it no longer has."""

    scope: str
    cleared: bool
