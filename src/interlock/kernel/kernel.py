"""The kernel: takes whatever commands are waiting and carries them in one transaction.

A lane takes everything queued (up to `batch_max`) the moment it is free, so a lone command pays no
batching delay and a burst shares one commit. The hard part is what can go wrong, and each way has one
answer:

* somebody else wrote a key first (`WriteConflict`): load afresh and decide again;
* somebody holds a record: only the commands that need it go back to the queue; one whose acquire
  budget is spent ends in `LockBusy`;
* the store is gone: the batch is tried again until each command's budget is spent, then
  `StoreUnavailable`;
* COMMIT was sent and no answer came: ask the store to settle the batch id for ever. Committed: answer
  with the results. Never can commit: run again. Cannot say: `OutcomeUnknown`;
* the batch itself fails in the store: split it, so that one poisonous command fails alone.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from interlock.kernel.batch import Batch, Pending
from interlock.kernel.command import Command
from interlock.kernel.observe import BatchObserver, Unobserved
from interlock.kernel.refusal import (
    CommandFailed,
    Fault,
    LockBusy,
    OutcomeUnknown,
    Overloaded,
    StoreUnavailable,
)
from interlock.kernel.storage import (
    BatchStore,
    CommitUnknown,
    LockTimeout,
    StoreDown,
    Transaction,
    WriteConflict,
)
from interlock.kernel.wakes import Wakes
from interlock.kernel.world import NewId

T = TypeVar("T")

_REAP_SECONDS = 0.05
_RETRY_PAUSE_SECONDS = 0.02
_CONFLICT_RERUNS_MAX = 8


class KernelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound of the kernel in one place."""

    batch_max: int = 256
    queue_max: int = 4096
    queue_bytes_max: int = 64 * 1024 * 1024
    acquire_seconds: float = 2.0
    settle_seconds: float = 2.0


class Kernel:
    """Runs commands against one store."""

    def __init__(
        self,
        store: BatchStore,
        *,
        new_id: NewId,
        limits: KernelLimits | None = None,
        observer: BatchObserver | None = None,
    ) -> None:
        self.store = store
        self.wakes = Wakes()
        self.limits = limits or KernelLimits()
        self._new_id = new_id
        self._observer = observer or Unobserved()
        self._queue: deque[Pending] = deque()
        self._queued_bytes = 0
        self._arrived = asyncio.Event()
        self._trouble: type[Fault] | None = None
        self._last_answer_at = 0.0
        self._retry_after = 1.0
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def queue_depth(self) -> int:
        return len(self._queue)

    def start(self) -> None:
        """Start the lanes; needs a running event loop."""
        self._tasks = [asyncio.create_task(self._lane(), name=f"lane-{n}") for n in range(self.store.lanes)]
        self._tasks.append(asyncio.create_task(self._reap(), name="reaper"))

    async def close(self) -> None:
        """Finish what was accepted, then stop."""
        self._closing = True
        self._arrived.set()
        lanes = self._tasks[:-1]
        if lanes:
            await asyncio.gather(*lanes, return_exceptions=True)
            self._tasks[-1].cancel()
        self._fail(list(self._queue), StoreUnavailable("the server is shutting down; repeat the call"))
        self._queue.clear()

    async def run(self, command: Command[T], *, weight: int = 0, acquire_seconds: float | None = None) -> T:
        """Decide one command durably. Raises its `Refusal`, or a `Fault` if it could not be decided.

        Nobody's cancellation stops a decision under way: it commits or not as if the caller still waited.
        """
        limits = self.limits
        if len(self._queue) >= limits.queue_max or self._queued_bytes + weight > limits.queue_bytes_max:
            self._observer.refused_overloaded()
            raise Overloaded(
                "more work is queued than this server may hold; retry after the given time",
                retry_after_seconds=self._drain_seconds(),
            )
        if self._closing:
            raise StoreUnavailable("the server is shutting down; repeat the call")
        loop = asyncio.get_running_loop()
        budget = limits.acquire_seconds if acquire_seconds is None else acquire_seconds
        pending = Pending(command, loop.create_future(), now=loop.time(), budget=budget, weight=weight)
        self._queue.append(pending)
        self._queued_bytes += weight
        self._arrived.set()
        return await pending.future

    # Lanes.

    async def _lane(self) -> None:
        while True:
            members = self._take(self.limits.batch_max)
            if members:
                await self._carry(members)
            elif self._closing:
                return
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def _take(self, count: int) -> list[Pending]:
        members: list[Pending] = []
        while self._queue and len(members) < count:
            pending = self._queue.popleft()
            self._queued_bytes -= pending.weight
            if not pending.future.done():
                members.append(pending)
        return members

    async def _carry(self, members: list[Pending]) -> None:
        """Carry these commands to an answer each, or put back those that must wait."""
        reruns = 0
        while members:
            batch = Batch(self._new_id("batch"), members, self._new_id)
            try:
                await self._transact(batch)
            except WriteConflict:
                reruns += 1
                self._observer.reran("write_conflict")
                if reruns > _CONFLICT_RERUNS_MAX:
                    members = await self._expire(members, LockBusy)
            except LockTimeout:
                members = await self._expire(members, LockBusy)
            except StoreDown as down:
                self._retry_after = down.retry_after_seconds
                members = await self._expire(members, StoreUnavailable)
            except OutcomeUnknown as unknown:
                self._fail(members, unknown)
                return
            except Exception as error:  # the store refused the batch as a whole
                await self._split(members, error)
                return
            else:
                self._trouble = None
                return

    async def _transact(self, batch: Batch) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        acquire = max(0.0, min(member.deadline for member in batch.members) - started)
        transaction = Transaction(batch.id, batch.reads(), batch.more, batch.decide, acquire)
        try:
            await self.store.transact(transaction)
        except CommitUnknown:
            if not await self._settle(batch):
                raise WriteConflict(batch.id) from None
        self._observer.committed(len(batch.members), clock() - started)
        self._deliver(batch)

    async def _settle(self, batch: Batch) -> bool:
        self._observer.reran("commit_unknown")
        try:
            return await self.store.committed(batch.id, self.limits.settle_seconds)
        except (StoreDown, LockTimeout) as down:
            raise OutcomeUnknown(
                "the store went away during COMMIT and cannot say whether it happened; "
                "repeat the call with the same Idempotency-Key",
                retry_after_seconds=getattr(down, "retry_after_seconds", 1.0),
            ) from down

    def _deliver(self, batch: Batch) -> None:
        self._last_answer_at = asyncio.get_running_loop().time()
        for member, outcome in batch.outcomes.items():
            _answer(member, outcome)
        self.wakes.publish(batch.wakes)
        if batch.deferred:
            asyncio.get_running_loop().call_later(
                _RETRY_PAUSE_SECONDS * random.random(), self._requeue, batch.deferred
            )

    def _requeue(self, members: Sequence[Pending]) -> None:
        """Put deferred commands back at the front, in their order, unless their budget is spent."""
        now = asyncio.get_running_loop().time()
        alive = [member for member in members if member.deadline > now]
        self._fail([member for member in members if member.deadline <= now], self._fault(LockBusy))
        self._queue.extendleft(reversed(alive))
        self._queued_bytes += sum(member.weight for member in alive)
        self._arrived.set()

    async def _expire(self, members: list[Pending], fault: type[Fault]) -> list[Pending]:
        """Fail the commands whose budget is spent; give the others, and the queue, another turn."""
        self._trouble = fault
        now = asyncio.get_running_loop().time()
        spent = [member for member in members if member.deadline <= now + 0.001]
        self._fail(spent, self._fault(fault))
        alive = [member for member in members if member.deadline > now + 0.001]
        await asyncio.sleep(_RETRY_PAUSE_SECONDS * random.random())
        return alive + self._take(self.limits.batch_max - len(alive))

    async def _split(self, members: list[Pending], error: Exception) -> None:
        if len(members) == 1:
            self._observer.reran("poison")
            failed = CommandFailed(f"the store could not keep {type(members[0].command).__name__}: {error}")
            failed.__cause__ = error
            _answer(members[0], failed)
            return
        half = len(members) // 2
        await self._carry(members[:half])
        await self._carry(members[half:])

    # Time.

    async def _reap(self) -> None:
        """Answer queued commands whose budget ran out while every lane was stuck."""
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            now = asyncio.get_running_loop().time()
            spent = [pending for pending in self._queue if pending.deadline <= now]
            if spent:
                stuck = now - self._last_answer_at > self.limits.acquire_seconds
                self._drop(spent)
                self._fail(spent, self._fault(self._trouble or (StoreUnavailable if stuck else Overloaded)))

    def _drop(self, spent: Sequence[Pending]) -> None:
        gone = set(map(id, spent))
        self._queue = deque(pending for pending in self._queue if id(pending) not in gone)
        self._queued_bytes -= sum(pending.weight for pending in spent)

    def _fault(self, fault: type[Fault]) -> Fault:
        budget = self.limits.acquire_seconds
        if fault is LockBusy:
            return LockBusy(f"another actor held a needed record for more than {budget:g} s; retry")
        if fault is Overloaded:
            return Overloaded(
                f"the queue did not reach this call within {budget:g} s; retry after the given time",
                retry_after_seconds=self._drain_seconds(),
            )
        return StoreUnavailable(
            f"the store did not answer within {budget:g} s; retry after the given time",
            retry_after_seconds=self._retry_after,
        )

    def _drain_seconds(self) -> float:
        return self._observer.drain_seconds(len(self._queue))

    def _fail(self, members: Sequence[Pending], fault: Fault) -> None:
        for member in members:
            _answer(member, copy.copy(fault))


def _answer(member: Pending, outcome: Any | BaseException) -> None:
    if member.future.done():
        return
    if isinstance(outcome, BaseException):
        member.future.set_exception(outcome)
    else:
        member.future.set_result(outcome)
