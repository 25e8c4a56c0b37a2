"""Background loops: sweeps that expire and delete, the advance of workflow runs, and counts that are stored.

Any number of servers may run them at once; each pass is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec

from interlock.kernel.ids import TellTime
from interlock.kernel.kernel import Kernel
from interlock.kernel.record import micros
from interlock.kernel.refusal import CommandFailed, Fault, LockBusy, Refusal, StoreUnavailable
from interlock.kernel.storage import LockTimeout, Store, StoreDown
from interlock.kernel.world import Command
from interlock.rooms.admission.queries import read_run, tenants_with_expired_runs
from interlock.rooms.admission.rules import ForgetTallies, KeepTally, ReclaimSlots
from interlock.rooms.admission.slots import RECLAIM_MAX
from interlock.rooms.admission.traffic import ForgetTraffic, RollUpTallies
from interlock.rooms.audit.model import NoteStoreState
from interlock.rooms.effects.queries import count_ambiguous_by_tenant
from interlock.rooms.effects.settlement import SweepOverdueEffects
from interlock.rooms.grants.rules import SweepOverdueGrants
from interlock.rooms.identity.sessions import ForgetSessions
from interlock.rooms.jobs.model import ADVANCE_TOPIC
from interlock.rooms.jobs.queries import count_awaiting, count_dead
from interlock.rooms.jobs.sweeps import OfferUnclaimed, SweepDueJobs, SweepLostLeases
from interlock.rooms.leases.transfers import SweepOverdueLeases
from interlock.rooms.policy.rules import ForgetFullBuckets
from interlock.rooms.workflows.advance import AdvanceRun
from interlock.rooms.workflows.queries import runs_under_way
from interlock.service.admission_stats import AdmissionStats, Unstored
from interlock.service.measures import Measures
from interlock.service.settings import TENANT_DEFAULT

T = TypeVar("T")

log = logging.getLogger(__name__)

_PASS_MAX = 100
_FEWER = 10
_PRUNE_EVERY = 60
_PRUNED_MAX = 1000
# Sweeps that report how many records they changed, by the name under which they are counted.
_SWEEPS: Mapping[str, Command[int]] = {
    "due_jobs": SweepDueJobs(),
    "overdue_leases": SweepOverdueLeases(),
    "overdue_effects": SweepOverdueEffects(),
    "overdue_grants": SweepOverdueGrants(),
}
_FORGETS: Mapping[str, Command[int]] = {
    "full_buckets": ForgetFullBuckets(),
    "old_tallies": ForgetTallies(),
    "old_traffic": ForgetTraffic(),
    "old_sessions": ForgetSessions(),
}


class BackgroundLoop:
    """A task of this server that runs from `start` until `close`."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=type(self).__name__)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        raise NotImplementedError


class Sweeps(BackgroundLoop):
    """Runs each sweep again and again; a full pass is followed by the next at once."""

    def __init__(self, kernel: Kernel, store: Store, measures: Measures, *, every_seconds: float) -> None:
        self._kernel = kernel
        self._store = store
        self._measures = measures
        self._every = every_seconds

    async def _run(self) -> None:
        turn = 0
        while True:
            # Spread the servers, so that they do not all sweep in step.
            await asyncio.sleep(self._every * random.uniform(0.75, 1.25))
            turn += 1
            await self.sweep_once()
            if turn % _PRUNE_EVERY == 0:
                await self.forget_once()

    async def sweep_once(self) -> None:
        """One pass over everything that time changes. A sweep that fails does not stop the others.

        They begin together, so that one batch carries all of them: there are as many sweepers as programs on a file.
        """
        others = {
            "lost runs": self._reclaim_slots,
            "lost leases": self._settle_lost_leases,
            "unclaimed jobs": self._offer_unclaimed,
            "the store's state": self._note_store_state,
        }
        ended = await asyncio.gather(
            *(self._surely(name, partial(self.until_few, name, sweep)) for name, sweep in _SWEEPS.items()),
            *(self._surely(name, sweep) for name, sweep in others.items()),
        )
        counts = {"dead letters": self._count_dead_letters, "waiting requests": self._count_what_waits}
        ended += [await self._surely(name, count) for name, count in counts.items()]
        if all(ended):
            self._measures.attention.swept()

    async def forget_once(self) -> None:
        """One pass over rows that are no longer needed."""
        await self._surely("forgotten_rows", self.prune)
        await self._surely("rolled_up_tallies", self._roll_up_tallies)
        for name, sweep in _FORGETS.items():
            await self._surely(name, partial(self.until_few, name, sweep))

    async def _surely(self, name: str, sweep: Callable[[], Awaitable[None]]) -> bool:
        """Run one sweep; returns whether it succeeded."""
        try:
            await sweep()
            return True
        except (Fault, StoreDown, LockTimeout) as fault:
            log.debug("the sweep of %s could not run: %s", name, fault)
        except Exception:
            log.exception("the sweep of %s broke; it runs again in %.1f s", name, self._every)
        return False

    async def until_few(self, what: str, sweep: Command[int]) -> None:
        """Run a sweep again as long as it finds as much as it may take at once."""
        is_full, most = True, _PASS_MAX
        while is_full:
            count, most = await self._pass(sweep, most)
            is_full = count == most
            if count:
                self._measures.swept.add(what, amount=count)

    async def _pass(self, sweep: Command[T], most: int) -> tuple[T, int]:
        """One pass over `most` records, or over fewer if the store cannot take them; with the limit that worked."""
        while True:
            try:
                return await self._kernel.run(msgspec.structs.replace(sweep, most=most)), most
            except StoreUnavailable:
                if most == 1:
                    raise
                # A hundred records of a megabyte each may be more than the store can do in the time for a batch.
                most = max(1, most // _FEWER)

    async def _note_store_state(self) -> None:
        await self._kernel.run(NoteStoreState(tenant=TENANT_DEFAULT))

    async def prune(self) -> None:
        """Delete the rows that no retention period keeps any longer."""
        gone = _PRUNED_MAX
        while gone >= _PRUNED_MAX:
            gone = await self._store.prune(rows_max=_PRUNED_MAX)
            if gone:
                self._measures.swept.add("forgotten_rows", amount=gone)

    async def _roll_up_tallies(self) -> None:
        # A pass may take fewer than it is allowed to, because they are large; so go on until there are none.
        while count := await self._kernel.run(RollUpTallies(most=_PASS_MAX)):
            self._measures.swept.add("rolled_up_tallies", amount=count)

    async def _count_dead_letters(self) -> None:
        self._measures.work.dead_letters = await count_dead(self._store)

    async def _count_what_waits(self) -> None:
        self._measures.attention.awaiting = await count_awaiting(self._store)
        self._measures.attention.ambiguous = await count_ambiguous_by_tenant(self._store)

    async def _reclaim_slots(self) -> None:
        # This machine's clock may be behind the store's, and would find expired runs later.
        now = micros(await self._kernel.run(TellTime()))
        for tenant in await tenants_with_expired_runs(self._store, now, limit=_PASS_MAX):
            lost = RECLAIM_MAX
            while lost == RECLAIM_MAX:
                lost = await self._kernel.run(ReclaimSlots(tenant=tenant))
                if lost:
                    self._measures.swept.add("lost_runs", amount=lost)

    async def _settle_lost_leases(self) -> None:
        is_full, most = True, _PASS_MAX
        while is_full:
            swept, most = await self._pass(SweepLostLeases(), most)
            is_full = swept.count == most
            self._measures.work.lost.add(amount=swept.count)
            self._measures.work.dead.add(amount=swept.dead)

    async def _offer_unclaimed(self) -> None:
        is_full, most = True, _PASS_MAX
        while is_full:
            swept, most = await self._pass(OfferUnclaimed(), most)
            is_full = swept.count == most
            self._measures.work.replayed.add(amount=swept.count)
            for age in swept.ages_seconds:
                self._measures.work.replay_age.observe(age)


_RUNS_PASS_MAX = 200
_POLL_SECONDS = 2.0


class WorkflowEngine(BackgroundLoop):
    """Looks at every run under way whenever a job of one has changed, and slowly otherwise."""

    def __init__(self, kernel: Kernel, store: Store) -> None:
        self._kernel = kernel
        self._store = store

    async def advance_all(self) -> int:
        """One look at every run under way; returns how many there were."""
        seen, after = 0, ""
        while True:
            found = await runs_under_way(self._store, after=after, limit=_RUNS_PASS_MAX)
            await asyncio.gather(*(self._look(tenant, run_id) for tenant, run_id in found))
            seen += len(found)
            if len(found) < _RUNS_PASS_MAX:
                return seen
            after = found[-1][1]

    async def _look(self, tenant: str, run_id: str) -> None:
        """Advance one run. One that fails or is locked is logged, and does not stop the others."""
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


_PAUSE_SECONDS = 0.1
_TROUBLE_SECONDS = 2.0
_AT_ONCE = 32


class Tallying(BackgroundLoop):
    """Hands counts in a moment after they were made, and once more at the end."""

    def __init__(self, kernel: Kernel, stats: AdmissionStats) -> None:
        self._kernel = kernel
        self._stats = stats

    async def close(self) -> None:
        await super().close()
        if self._task:
            with contextlib.suppress(Fault):
                await self.hand_in()

    async def hand_in(self) -> None:
        """Store everything that was counted and is not stored. What cannot be stored now is kept."""
        unstored = self._stats.unstored()
        for start in range(0, len(unstored), _AT_ONCE):
            some = unstored[start : start + _AT_ONCE]
            ended = await asyncio.gather(*map(self._store, some), return_exceptions=True)
            for error in ended:
                if error is not None:
                    raise error

    async def _store(self, counted: Unstored) -> None:
        for tally in counted.tallies:
            await self._kernel.run(KeepTally(tally=tally))
        self._stats.stored(counted)

    async def _run(self) -> None:
        while True:
            await self._stats.has_news.wait()
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self.hand_in()
            except Fault as fault:
                log.debug("counts of admission could not be handed in: %s", fault)
                await asyncio.sleep(_TROUBLE_SECONDS)
            except Exception:
                log.exception("handing in counts of admission broke; it goes on in %.0f s", _TROUBLE_SECONDS)
                await asyncio.sleep(_TROUBLE_SECONDS)
