"""The loop that advances workflow runs. Any number of servers may run it at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import CommandFailed, Fault, LockBusy, Refusal
from interlock.kernel.storage import Store, StoreDown
from interlock.rooms.admission.queries import read_run
from interlock.rooms.jobs.model import ADVANCE_TOPIC
from interlock.rooms.workflows.advance import AdvanceRun
from interlock.rooms.workflows.queries import runs_under_way

log = logging.getLogger(__name__)

_PASS_MAX = 200
_POLL_SECONDS = 2.0


class WorkflowEngine:
    """Looks at every run under way whenever a job of one has changed, and slowly otherwise."""

    def __init__(self, kernel: Kernel, store: Store) -> None:
        self._kernel = kernel
        self._store = store
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="workflows")

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def advance_all(self) -> int:
        """One look at every run under way; returns how many there were."""
        seen, after = 0, ""
        while True:
            found = await runs_under_way(self._store, after=after, limit=_PASS_MAX)
            await asyncio.gather(*(self._look(tenant, run_id) for tenant, run_id in found))
            seen += len(found)
            if len(found) < _PASS_MAX:
                return seen
            after = found[-1][1]

    async def _look(self, tenant: str, run_id: str) -> None:
        """Advance one run. One that breaks or is locked is told of, and keeps nobody else's from going on."""
        try:
            await self._advance(tenant, run_id)
        except (Refusal, CommandFailed, LockBusy) as stuck:
            log.warning("run %s of tenant %s cannot be advanced: %s", run_id, tenant, stuck.detail)

    async def _advance(self, tenant: str, run_id: str) -> None:
        run = await read_run(self._store, tenant, run_id)
        if run is not None:
            command = AdvanceRun(
                tenant=tenant, run_id=run_id, workflow=run.workflow, started_by=run.started_by
            )
            await self._kernel.run(command)

    async def _run(self) -> None:
        with self._kernel.wakes.subscribe(ADVANCE_TOPIC) as woken:
            while True:
                try:
                    await self.advance_all()
                except (Fault, StoreDown) as fault:
                    log.debug("workflow runs could not be advanced: %s", fault)
                except Exception:
                    log.exception("advancing workflow runs broke; it goes on in %.1f s", _POLL_SECONDS)
                await woken.wait(_POLL_SECONDS)
