"""Bounded choices of grants."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.grants.model import GRANTS, Grant, GrantState
from interlock.kernel.record import Kind, Params, Pick, micros

# Before every grant.
START = (0, "")


class OpenGrants(Pick[Grant], frozen=True, kw_only=True):
    """The oldest grants of a task that were open at the load, after a given one; standing ones or the others.

    `after` is the moment and the id of the last grant that was looked at before. It is to see, and those found
    are owned by their keys in the second load: that waits for whoever holds one, where a pick to own would pass
    over it, and a claimant would hear "none" while somebody else makes up their mind. One that was spent in between
    no longer matches; that there may be more behind it, `World.last_seen` tells.
    """

    own: bool = False

    tenant: str
    task: str
    standing: bool = False
    after: tuple[int, str] = START

    @property
    def kind(self) -> Kind[Grant]:
        return GRANTS

    @property
    def uses_up(self) -> int:
        """A claim spends one grant at most."""
        return 1

    @property
    def query(self) -> str:
        return "grants.open_grants"

    def params(self, now: datetime) -> Params:
        return {
            "tenant": self.tenant,
            "task": self.task,
            "standing": int(self.standing),
            "after_at": self.after[0],
            "after_id": self.after[1],
            "now": micros(now),
        }

    def matches(self, record: Grant, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.task == self.task
            and record.standing == self.standing
            and (micros(record.issued_at), record.id) > self.after
            and record.state_at(now) is GrantState.OPEN
        )

    def sort_key(self, record: Grant) -> Any:
        return (record.issued_at, record.id)


class LatestGrants(Pick[Grant], frozen=True, kw_only=True):
    """The newest grants of a task, whatever became of them. To see: they only explain."""

    own: bool = False

    tenant: str
    task: str

    @property
    def kind(self) -> Kind[Grant]:
        return GRANTS

    @property
    def query(self) -> str:
        return "grants.latest_grants"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "task": self.task}

    def matches(self, record: Grant, now: datetime) -> bool:
        return record.tenant == self.tenant and record.task == self.task

    def sort_key(self, record: Grant) -> Any:
        # Ids downwards, byte by byte as the stores compare them; the end sorts after whatever is longer.
        return (*(-byte for byte in record.id.encode()), 1)


class OverdueGrants(Pick[Grant], frozen=True, kw_only=True):
    """Grants whose time has run out, in every tenant, the longest overdue first."""

    @property
    def kind(self) -> Kind[Grant]:
        return GRANTS

    @property
    def query(self) -> str:
        return "grants.overdue_grants"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Grant, now: datetime) -> bool:
        return record.state is GrantState.OPEN and now >= record.expires_at

    def sort_key(self, record: Grant) -> Any:
        return (record.expires_at, record.tenant, record.id)
