"""Which rooms exist and which kinds of record they keep: the one list that stores are built from."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, cast

from interlock.kernel.idempotency import KEPT_ANSWERS
from interlock.kernel.record import Kind

ROOMS = (
    "audit",
    "outbox",
    "identity",
    "relays",
    "conflicts",
    "permits",
    "policy",
    "leases",
    "admission",
    "effects",
    "targets",
    "grants",
    "approvals",
    "jobs",
    "workflows",
)


@cache
def kinds() -> dict[str, Kind[Any]]:
    """Every kind by name, as declared in each room's model."""
    found: list[Kind[Any]] = [KEPT_ANSWERS]
    for room in ROOMS:
        model = import_module(f"interlock.{room}.model")
        declared: list[object] = list(vars(model).values())
        found.extend(cast("Kind[Any]", value) for value in declared if isinstance(value, Kind))
    return {kind.name: kind for kind in found}
