"""What an operator does to the store itself after a restore or after a wrong clock, and the audit entry of it."""

from __future__ import annotations

from interlock.audit.upkeep import NoteStoreState
from interlock.kernel.store_state import Repaired, StoreState
from interlock.runtime.local_kernel import local_user
from interlock.runtime.service import Service
from interlock.runtime.settings import TENANT_DEFAULT


class NothingToRepair(Exception):
    """The clock of this store is not kept in it."""


async def raise_fences(service: Service, why: str) -> StoreState:
    """Begin another epoch: fences from now on are greater than all before."""
    await service.store.raise_epoch(why)
    return await service.kernel.run(NoteStoreState(tenant=TENANT_DEFAULT, actor=_operator()))


async def repair_clock(service: Service, *, only_look: bool) -> Repaired | None:
    """Set the store's clock back to this machine's; None if it is not ahead."""
    from interlock.store.sqlite import SqliteStore

    if not isinstance(service.store, SqliteStore):
        raise NothingToRepair(
            "only a SQLite store keeps its clock; on PostgreSQL the clock of the database's machine counts: "
            "set that right, and time in the store is right at once"
        )
    repaired = await service.store.repair_clock(only_look=only_look)
    if repaired is not None and not only_look:
        seconds = round(repaired.ahead.total_seconds(), 3)
        command = NoteStoreState(
            tenant=TENANT_DEFAULT, actor=_operator(), ahead_seconds=seconds, records=repaired.records
        )
        await service.kernel.run(command)
    return repaired


def _operator() -> str:
    return f"local:{local_user()}"
