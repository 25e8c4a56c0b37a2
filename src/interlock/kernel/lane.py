"""A lane: runs one batch after another, and reacts to the failures that kernel.py lists."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.kernel.batch import Batch, CommandQueue, Pending
from interlock.kernel.clock import StoreTime
from interlock.kernel.computation import Compute
from interlock.kernel.record import Reads
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
    CommitUnconfirmed,
    CommitUnknown,
    Loaded,
    LockTimeout,
    StoreDown,
    StoreUnwritable,
    Transaction,
    WriteConflict,
    is_remembered,
)
from interlock.kernel.wakes import Wakes
from interlock.kernel.world import NewId

_RETRY_SECONDS = (0.1, 30.0)


class StoreTrouble:
    """Since when the store is locked as a whole, or does not answer, and why. A commit ends either."""

    def __init__(self) -> None:
        self._locked_at: float | None = None
        self._down_at: float | None = None
        self._down: StoreDown | None = None
        self._told: str | None = None

    def locked(self, now: float) -> None:
        """Another process holds the lock on the whole store, so the store does answer."""
        self._down_at = self._down = None
        if self._locked_at is None:
            self._locked_at = now

    def down(self, now: float, down: StoreDown) -> bool:
        """The store does not answer. Returns whether to log it: each cause once, until something is written."""
        if self._down_at is None:
            self._down_at = now
        self._down = down
        is_news = self._told != str(down)
        self._told = str(down)
        return is_news

    def over(self, *, wrote: bool) -> bool:
        """A batch went through. Returns whether that ends an outage that was logged.

        A batch without writes does not show that the store accepts writes.
        """
        self._locked_at = None
        if wrote or not isinstance(self._down, StoreUnwritable):
            self._down_at = self._down = None
        was_told = wrote and self._told is not None
        self._told = None if wrote else self._told
        return was_told

    def fault(self, spent: Pending, now: float, *, stuck_at: float | None, drain_seconds: float) -> Fault:
        """What to tell a command whose budget is spent. `stuck_at`: since when no lane got an answer."""
        within = f"within {spent.budget:g} s; nothing was decided"
        down_at = self._down_at if self._down_at is not None else stuck_at
        if down_at is not None:
            why = (
                f"the store did not answer {within}"
                if self._down is None
                else f"{self._down}; nothing was decided"
            )
            return StoreUnavailable(why, retry_after_seconds=_as_long_again(now - down_at))
        blocked_at = spent.blocked_at if spent.blocked_at is not None else self._locked_at
        if blocked_at is not None:
            return LockBusy(
                f"another actor did not let go of a needed record {within}",
                retry_after_seconds=_as_long_again(now - blocked_at),
            )
        return Overloaded(f"the queue did not reach this call {within}", retry_after_seconds=drain_seconds)


def _as_long_again(seconds: float) -> float:
    """The best guess of how much longer something lasts: as long as it has lasted."""
    least, most = _RETRY_SECONDS
    return min(most, max(least, seconds))


log = logging.getLogger(__name__)
# A program without logging gets the reason in the refusal, so it is not printed on stderr as well.
log.addHandler(logging.NullHandler())

_PAUSE_SECONDS = 0.02
# A command that conflicts even alone may wait in the store each time, and block its lane.
_CONFLICT_PAUSE_SECONDS = 0.1
_OUTAGE_PAUSE_SECONDS_MAX = 0.25
# Short turns at a lock on the whole store: between them the batch grows and spent budgets are answered.
_ACQUIRE_SECONDS_MIN = 0.01
_ACQUIRE_SECONDS_MAX = 0.1
_CONFLICT_RERUNS_MAX = 2
_PING_SECONDS = 1.0


class LaneParts(msgspec.Struct, frozen=True, kw_only=True):
    """What every lane of a kernel shares."""

    store: BatchStore
    waiting: CommandQueue
    trouble: StoreTrouble
    wakes: Wakes
    observer: BatchObserver
    store_time: StoreTime
    new_id: NewId
    compute: Compute
    batch_max: int
    settle_seconds: float


class Lane:
    """Takes the waiting commands, runs them as a batch, and begins again."""

    def __init__(self, parts: LaneParts) -> None:
        self._shared = parts
        self._flight: Batch | None = None
        self._departed_at = 0.0
        # Halves of a split batch that have not run yet.
        self._put_off: list[Sequence[Pending]] = []
        self._outage_pause = _PAUSE_SECONDS

    async def run(self) -> None:
        """Until everything is answered and the queue is closed."""
        waiting = self._shared.waiting
        while True:
            members = waiting.take(self._shared.batch_max)
            if members:
                await self._carry_surely(members)
            elif waiting.is_done:
                waiting.nudge()
                return
            else:
                await waiting.arrival()

    def in_flight_since(self) -> float | None:
        """When the batch under way was given to the store."""
        return self._departed_at if self._flight else None

    def give_up_waiting(self) -> None:
        """Answer the members of a batch that the store neither finishes nor fails."""
        if self._flight:
            for member in self._flight.members:
                member.answer(_outcome_unknown("the store has kept a batch for too long"))

    def put_off(self) -> list[Pending]:
        """The commands that are neither in the queue nor in the store, and whose budget is running."""
        return [member for members in self._put_off for member in members]

    async def _carry_surely(self, members: Sequence[Pending]) -> None:
        try:
            await self._carry(members)
        except Exception:
            log.exception("a lane stumbled; the batch is answered and the lane goes on")
            for member in members:
                member.answer(_outcome_unknown("the server stumbled after it gave the batch to the store"))
            self._put_off.clear()

    async def _carry(self, members: Sequence[Pending], reruns: int = _CONFLICT_RERUNS_MAX) -> None:
        """Answer each of these commands, or put back those that must wait."""
        if members[0].alone:
            reruns = 0
        while True:
            parts = self._shared
            batch = Batch(parts.new_id("batch"), members, parts.new_id, parts.compute)
            try:
                await self._transact(batch)
            except WriteConflict as conflict:
                self._shared.observer.reran("write_conflict")
                members = batch.members
                if reruns == 0:
                    return await self._part(members, conflict)
                reruns -= 1
            except LockTimeout:
                return await self._wait_for_lock(batch.members)
            except StoreDown as down:
                return await self._outlast(batch.members, down)
            except OutcomeUnknown as unknown:
                return self._leave_unknown(batch, unknown)
            except Exception as error:  # noqa: BLE001 - whatever it was, it concerns this batch as it is
                return await self._part(batch.members, error)
            else:
                return self._deliver(batch)

    async def _transact(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        self._flight, self._departed_at = batch, loop.time()
        left = min(member.deadline for member in batch.members) - self._departed_at
        acquire = max(_ACQUIRE_SECONDS_MIN, min(_ACQUIRE_SECONDS_MAX, left))
        began = time.time()

        def more(loaded: Loaded) -> Reads:
            self._shared.store_time.heard(loaded.now, loaded.state)
            return batch.more(loaded)

        try:
            await self._shared.store.transact(
                Transaction(batch.id, batch.reads(), more, batch.decide, acquire)
            )
        except CommitUnknown as lost:
            await self._settle(batch, lost, began)
        except CommitUnconfirmed as unconfirmed:
            raise _outcome_unknown(f"the store could not confirm a COMMIT ({unconfirmed})") from unconfirmed
        finally:
            self._flight = None

    async def _settle(self, batch: Batch, lost: CommitUnknown, began: float) -> None:
        """Return if the batch committed; `StoreDown` if it never can; `OutcomeUnknown` if it cannot be found out."""
        self._shared.observer.reran("commit_unknown")
        if not is_remembered(began):
            raise _outcome_unknown("this server slept during a COMMIT") from lost
        try:
            committed = await self._shared.store.committed(batch.id, self._shared.settle_seconds)
        except Exception as error:
            raise _outcome_unknown("the store went away during a COMMIT and cannot say more") from error
        if not committed:
            raise StoreDown(f"a COMMIT was lost on the way: {lost}") from lost

    def _deliver(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        if self._shared.trouble.over(wrote=batch.wrote):
            log.warning("the store takes writes again")
        self._outage_pause = _PAUSE_SECONDS
        for member, outcome in batch.outcomes.items():
            member.answer(outcome)
        self._shared.wakes.publish(batch.wakes)
        self._put_back_undecided(batch)
        if batch.outcomes:
            self._shared.observer.committed(len(batch.outcomes), loop.time() - self._departed_at)
        if not batch.is_decided:
            raise RuntimeError("the store took a batch and decided only a part of it")

    def _leave_unknown(self, batch: Batch, unknown: OutcomeUnknown) -> None:
        undecided = set(batch.undecided)
        for member in batch.members:
            if member not in undecided:
                member.answer(copy.copy(unknown))
        self._put_back_undecided(batch)

    def _put_back_undecided(self, batch: Batch) -> None:
        if batch.blocked:
            self._block(batch.blocked)
        if batch.early:
            _mark_blocked(batch.early)
            self._shared.waiting.put_back(batch.early)

    def _block(self, members: Sequence[Pending], seconds: float = _PAUSE_SECONDS) -> None:
        _mark_blocked(members)
        self._shared.waiting.set_aside(members, seconds * random.random())

    async def _wait_for_lock(self, members: Sequence[Pending]) -> None:
        self._shared.trouble.locked(asyncio.get_running_loop().time())
        self._shared.waiting.put_back(members)
        await asyncio.sleep(0)

    async def _outlast(self, members: Sequence[Pending], down: StoreDown) -> None:
        """Put the batch back and ask until the store answers; meanwhile budgets run out in the queue."""
        if self._shared.trouble.down(asyncio.get_running_loop().time(), down):
            log.warning("nothing can be decided: %s", down)
        self._shared.observer.reran("store_down")
        self._shared.waiting.put_back(members)
        answers = False
        while not answers and not self._shared.waiting.is_done:
            await asyncio.sleep(self._outage_pause * random.uniform(0.5, 1.0))
            self._outage_pause = min(_OUTAGE_PAUSE_SECONDS_MAX, 2 * self._outage_pause)
            answers = await self._answers()

    async def _answers(self) -> bool:
        try:
            await self._shared.store.ping(_PING_SECONDS)
        except StoreDown:
            return False
        return True

    async def _part(self, members: Sequence[Pending], error: Exception) -> None:
        """Run the halves separately, so that a command that makes its batch fail fails alone."""
        if len(members) > 1:
            half = len(members) // 2
            self._put_off.append(members[half:])
            await self._carry(members[:half], reruns=0)
            # A command that was answered meanwhile must not be decided any more.
            waiting = [member for member in self._put_off.pop() if not member.future.done()]
            if waiting:
                await self._carry(waiting, reruns=0)
        elif isinstance(error, WriteConflict):
            members[0].alone = True
            self._block(members, _CONFLICT_PAUSE_SECONDS)
        else:
            self._shared.observer.reran("poison")
            members[0].answer(_poisonous(members[0], error))


def _mark_blocked(members: Sequence[Pending]) -> None:
    now = asyncio.get_running_loop().time()
    for member in members:
        if member.blocked_at is None:
            member.blocked_at = now


def _poisonous(member: Pending, error: Exception) -> Fault:
    name = type(member.command).__name__
    log.error("the store could not keep what %s wrote", name, exc_info=error)
    failed = CommandFailed(f"the store could not keep what {name} wrote; report it with the request id")
    failed.__cause__ = error
    return failed


def _outcome_unknown(what: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"{what}; repeat the call with the same Idempotency-Key, which is safe")


class BatchObserver(Protocol):
    """Receives the kernel's figures; must be quick and must not raise."""

    def committed(self, commands: int, seconds: float) -> None: ...

    def reran(self, why: str) -> None: ...

    def refused_overloaded(self) -> None: ...

    def drain_seconds(self, queued: int) -> float:
        """How long the current queue is likely to take."""
        ...


class Unobserved:
    """Watches nothing; its estimate is one second."""

    def committed(self, commands: int, seconds: float) -> None:
        return None

    def reran(self, why: str) -> None:
        return None

    def refused_overloaded(self) -> None:
        return None

    def drain_seconds(self, queued: int) -> float:
        return 1.0
