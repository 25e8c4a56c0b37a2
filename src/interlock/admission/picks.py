"""Bounded choices of runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.admission.model import RUNS, Run, RunState
from interlock.kernel.record import Kind, Params, Pick, micros


class ExpiredRuns(Pick[Run], frozen=True, kw_only=True):
    """Runs of a tenant that stopped renewing, the longest gone first."""

    tenant: str

    @property
    def kind(self) -> Kind[Run]:
        return RUNS

    @property
    def query(self) -> str:
        return "admission.expired_runs"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "now": micros(now)}

    def matches(self, record: Run, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.state is RunState.RUNNING
            and now >= record.slot_expires_at
        )

    def sort_key(self, record: Run) -> Any:
        return (record.slot_expires_at, record.id)
