"""Bounded choices of leases."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from interlock.kernel.record import Kind, Params, Pick, micros
from interlock.leases.model import LEASES, Lease, Mode

# The character after "/": every path under `p` sorts between `p/` and `p0`.
_AFTER_SLASH = "0"
# Whoever waits for a lease ends it when it runs out; the sweep, which takes locks in another order, comes after.
_GRACE = timedelta(seconds=1)


class LeasesUnder(Pick[Lease], frozen=True, kw_only=True):
    """Leases under a path that exclude one of this mode and that nobody has ended yet; the longest to go first.

    It only looks: a pick that locks skips what somebody else has locked, and a lease that is being renewed
    would not be seen. So live ones come first, and overdue ones are owned by the second reads before they end.
    """

    tenant: str
    path: str
    wanted: Mode
    own: bool = False

    @property
    def kind(self) -> Kind[Lease]:
        return LEASES

    @property
    def query(self) -> str:
        if self.wanted is Mode.EXCLUSIVE:
            return "leases.leases_under"
        return "leases.exclusive_leases_under"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "low": f"{self.path}/", "high": f"{self.path}{_AFTER_SLASH}"}

    def matches(self, record: Lease, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.is_held
            and record.resource.startswith(f"{self.path}/")
            and Mode.EXCLUSIVE in (record.mode, self.wanted)
        )

    def sort_key(self, record: Lease) -> Any:
        return (-micros(record.expires_at), record.id)


class OverdueLeases(Pick[Lease], frozen=True, kw_only=True):
    """Leases whose time has run out a while ago, in every tenant, the longest overdue first."""

    @property
    def kind(self) -> Kind[Lease]:
        return LEASES

    @property
    def query(self) -> str:
        return "leases.overdue_leases"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now - _GRACE)}

    def matches(self, record: Lease, now: datetime) -> bool:
        return record.is_held and now - _GRACE >= record.expires_at

    def sort_key(self, record: Lease) -> Any:
        return (record.expires_at, record.tenant, record.id)
