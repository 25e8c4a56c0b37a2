"""Bounded choices of leases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.kernel.record import Kind, Params, Pick, micros
from interlock.leases.model import LEASES, Lease

# The character after "/": every path under `p` sorts between `p/` and `p0`.
_AFTER_SLASH = "0"


class LeasesUnder(Pick[Lease], frozen=True, kw_only=True):
    """Leases on what lies under a path that nobody has ended yet, live or overdue."""

    tenant: str
    path: str

    @property
    def kind(self) -> Kind[Lease]:
        return LEASES

    @property
    def query(self) -> str:
        return "leases.leases_under"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "low": f"{self.path}/", "high": f"{self.path}{_AFTER_SLASH}"}

    def matches(self, record: Lease, now: datetime) -> bool:
        return record.tenant == self.tenant and record.is_held and record.resource.startswith(f"{self.path}/")

    def sort_key(self, record: Lease) -> Any:
        return (record.resource, record.id)


class OverdueLeases(Pick[Lease], frozen=True, kw_only=True):
    """Leases whose time has run out, in every tenant, the longest overdue first."""

    @property
    def kind(self) -> Kind[Lease]:
        return LEASES

    @property
    def query(self) -> str:
        return "leases.overdue_leases"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Lease, now: datetime) -> bool:
        return record.is_held and now >= record.expires_at

    def sort_key(self, record: Lease) -> Any:
        return (record.expires_at, record.tenant, record.id)
