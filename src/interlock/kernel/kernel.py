"""The kernel: runs all commands that are waiting in one transaction.

A lane takes everything queued (up to `batch_max`) as soon as it is free, so a single command has no batching delay
and a burst shares one commit. The hard part is failures. Each has one answer:

* another process wrote a key first (`WriteConflict`): load and decide again; a batch that keeps colliding is
  split, and a command that keeps colliding alone goes back to the queue;
* another process holds a record: only the commands that need it go back to the queue;
* another process holds the whole store (`LockTimeout`): the batch goes back to the queue;
* the store is unreachable (`StoreDown`): the batch goes back to the queue and the lane tries until it answers;
* COMMIT was sent and no answer came: the store settles the batch id for good. Committed: answer with the
  results. Can never commit: run again. Not known: `OutcomeUnknown`;
* the store rejects the whole batch: split it, so that only the bad command fails;
* a decision needs a slow computation (`NotComputed`): the command leaves the batch and comes back when the
  result is there.

The budget of a command keeps running while it waits in the queue. When it is spent, the command is answered with the
fault that made it wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

import msgspec

from interlock.kernel.batch import CommandQueue, Pending
from interlock.kernel.clock import StoreTime
from interlock.kernel.computation import Computing, NotComputed, compute_here
from interlock.kernel.lane import BatchObserver, Lane, LaneParts, StoreTrouble, Unobserved
from interlock.kernel.refusal import CommandFailed, Overloaded, Refusal, StoreUnavailable
from interlock.kernel.storage import BatchStore
from interlock.kernel.wakes import Wakes
from interlock.kernel.world import Command, NewId

T = TypeVar("T")

_REAP_SECONDS = 0.05
# Each time around something is computed that was not known, so this many changes of policy must come in between.
_ROUNDS_MAX = 32


class KernelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound of the kernel in one place. `answer_seconds`: no call is left without an answer longer."""

    batch_max: int = 256
    batch_bytes_max: int = 1024 * 1024
    queue_max: int = 4096
    queue_bytes_max: int = 64 * 1024 * 1024
    acquire_seconds: float = 2.0
    settle_seconds: float = 2.0
    answer_seconds: float = 10.0


class Kernel:
    """Runs commands against one store."""

    def __init__(
        self,
        store: BatchStore,
        *,
        new_id: NewId,
        limits: KernelLimits | None = None,
        observer: BatchObserver | None = None,
        store_time: StoreTime | None = None,
        computing: Computing | None = None,
    ) -> None:
        self.store = store
        self.wakes = Wakes()
        self.limits = limits or KernelLimits()
        self._observer = observer or Unobserved()
        self._computing = computing
        self._waiting = CommandQueue(
            count_max=self.limits.queue_max,
            bytes_max=self.limits.queue_bytes_max,
            batch_bytes_max=self.limits.batch_bytes_max,
            spent=self._answer_spent,
        )
        self._trouble = StoreTrouble()
        parts = LaneParts(
            store=store,
            waiting=self._waiting,
            trouble=self._trouble,
            wakes=self.wakes,
            observer=self._observer,
            store_time=store_time or StoreTime(),
            new_id=new_id,
            compute=computing.compute if computing else compute_here,
            batch_max=self.limits.batch_max,
            settle_seconds=self.limits.settle_seconds,
        )
        self._lanes = [Lane(parts) for _ in range(store.lanes)]
        self._running: list[asyncio.Task[None]] = []
        self._reaper: asyncio.Task[None] | None = None

    @property
    def queue_depth(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Start the lanes; needs a running event loop."""
        self._running = [asyncio.create_task(lane.run(), name="lane") for lane in self._lanes]
        self._reaper = asyncio.create_task(self._reap(), name="reaper")

    async def close(self) -> None:
        """Finish the accepted commands, then stop."""
        self._waiting.close()
        await asyncio.gather(*self._running)
        if self._reaper is not None:
            self._reaper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reaper
        for pending in self._waiting.drain():
            pending.answer(_shutting_down())

    async def run(self, command: Command[T], *, weight: int = 0, acquire_seconds: float | None = None) -> T:
        """Decide one command durably. Raises its `Refusal`, or a `Fault` if it could not be decided.

        A cancelled caller does not stop a decision under way: it commits or not as if the caller still waited.
        """
        for _ in range(_ROUNDS_MAX):
            try:
                return await self._run_once(command, weight, acquire_seconds)
            except NotComputed as missing:
                if self._computing is None:
                    raise
                await self._computing.prepare(missing.computations)
        raise Overloaded("what it depends on kept changing while it was evaluated; nothing was decided")

    async def _run_once(self, command: Command[T], weight: int, acquire_seconds: float | None) -> T:
        if self._waiting.is_closed:
            raise _shutting_down()
        self.check_room(weight)
        pending = self._pending(command, weight, acquire_seconds)
        self._waiting.add(pending)
        return await pending.future

    def check_room(self, weight: int) -> None:
        """Refuse a command of that weight if the queue is full; worth asking before a call costs anything."""
        if not self._waiting.has_room(weight):
            self._observer.refused_overloaded()
            raise Overloaded(
                "more work is queued than this server may hold; nothing was decided",
                retry_after_seconds=self._observer.drain_seconds(len(self._waiting)),
            )

    def _pending(self, command: Command[T], weight: int, acquire_seconds: float | None) -> Pending:
        loop = asyncio.get_running_loop()
        budget = self.limits.acquire_seconds if acquire_seconds is None else acquire_seconds
        try:
            return Pending(command, loop.create_future(), now=loop.time(), budget=budget, weight=weight)
        except Refusal:
            raise
        except Exception as error:
            name = type(command).__name__
            raise CommandFailed(f"{name} cannot say what it reads; report it with the request id") from error

    # Time.

    async def _reap(self) -> None:
        """Answer commands whose budget ran out in the queue, and those a store keeps for too long."""
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            now = asyncio.get_running_loop().time()
            for lane in self._lanes:
                since = lane.in_flight_since()
                if since is not None and now - since > self.limits.answer_seconds:
                    lane.give_up_waiting()
                for pending in lane.put_off():
                    if pending.deadline <= now:
                        self._answer_spent(pending, now)
            self._waiting.remove_spent(now)

    def _answer_spent(self, spent: Pending, now: float) -> None:
        drain_seconds = self._observer.drain_seconds(len(self._waiting))
        stuck_at = self._stuck_at(now)
        spent.answer(self._trouble.fault(spent, now, stuck_at=stuck_at, drain_seconds=drain_seconds))

    def _stuck_at(self, now: float) -> float | None:
        """Since when the store has let every lane wait, if that is long for a single batch."""
        departures = [lane.in_flight_since() for lane in self._lanes]
        patience = self.limits.acquire_seconds / 2
        waiting = [since for since in departures if since is not None and now - since >= patience]
        return max(waiting) if len(waiting) == len(departures) else None


def _shutting_down() -> StoreUnavailable:
    return StoreUnavailable("this server is shutting down; repeat the call, another one may take it")
