"""Commands in progress, and the bounded queue in which they wait for a lane."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from interlock.kernel.command import Command

if TYPE_CHECKING:
    import asyncio

# From a socket that is readable to a command in the queue, a request takes this many turns of the loop.
_TURNS_TO_ARRIVE = 3
# Fewer than this are quicker together than apart.
_SHARE_MIN = 32
_ASKS_NO_MORE = cast("Any", Command).more


class Pending:
    """A command on its way, with the future its caller waits on.

    `blocked_at` is when somebody else first kept it waiting; `alone` is set for a command that failed
    batch after batch, so that it no longer takes others along.
    """

    __slots__ = (
        "alone",
        "asks_more",
        "blocked_at",
        "budget",
        "command",
        "deadline",
        "future",
        "reads",
        "weight",
    )

    def __init__(
        self, command: Command[Any], future: asyncio.Future[Any], *, now: float, budget: float, weight: int
    ) -> None:
        self.command = command
        self.future = future
        self.budget = budget
        self.deadline = now + budget
        self.weight = weight
        self.reads = command.reads()
        self.asks_more = type(command).more is not _ASKS_NO_MORE
        self.blocked_at: float | None = None
        self.alone = False

    def answer(self, outcome: Any) -> None:
        """Give the caller its result, or raise the exception there; too late is no harm."""
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class Waiting:
    """Pending commands in arrival order. Only newcomers are bounded: what was accepted may come back.

    Whoever's budget is spent leaves through `spent`, which answers it. Lanes that are idle at the same
    time share what waits, so that one decides while another's batch is in the store.
    """

    def __init__(
        self,
        *,
        count_max: int,
        bytes_max: int,
        batch_bytes_max: int,
        spent: Callable[[Pending, float], None],
    ) -> None:
        import asyncio  # Here, for a process without a queue must not pay for an event loop's import.

        self._running_loop = asyncio.get_running_loop
        self._sleep = asyncio.sleep
        self._spent = spent
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._batch_bytes_max = batch_bytes_max
        self._queue: deque[Pending] = deque()
        self._bytes = 0
        self._aside = 0
        self._idle_lanes = 0
        self._arrived = asyncio.Event()
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left and nothing more will come."""
        return self.is_closed and not self._queue and not self._aside

    def has_room(self, weight: int) -> bool:
        return len(self._queue) < self._count_max and self._bytes + weight <= self._bytes_max

    def add(self, pending: Pending) -> None:
        self._queue.append(pending)
        self._bytes += pending.weight
        self._arrived.set()

    def put_back(self, members: Sequence[Pending]) -> None:
        """To the front, in their order: they were here before whoever waits now."""
        self._queue.extendleft(reversed(members))
        self._bytes += sum(pending.weight for pending in members)
        self._arrived.set()

    def set_aside(self, members: Sequence[Pending], seconds: float) -> None:
        """Put them back after a pause."""
        self._aside += 1

        def bring_back() -> None:
            self._aside -= 1
            self.put_back(members)

        self._running_loop().call_later(seconds, bring_back)

    def take(self, count: int) -> list[Pending]:
        """The next batch's members; one that must go alone does. Whoever no longer waits is left out."""
        now = self._running_loop().time()
        members: list[Pending] = []
        room = self._batch_bytes_max
        share = -(-len(self._queue) // (1 + self._idle_lanes))
        count = min(count, max(share, _SHARE_MIN))
        while self._queue and len(members) < count:
            if members and (self._queue[0].alone or self._queue[0].weight > room):
                break
            pending = self._queue.popleft()
            self._bytes -= pending.weight
            if pending.deadline <= now:
                self._spent(pending, now)
            elif not pending.future.done():
                members.append(pending)
                room -= pending.weight
                if pending.alone:
                    break
        return members

    def remove_spent(self, now: float) -> None:
        """Take out those whose budget is spent, and those whose caller went away."""
        gone = [pending for pending in self._queue if pending.deadline <= now or pending.future.done()]
        if gone:
            leaving = set(gone)
            self._queue = deque(pending for pending in self._queue if pending not in leaving)
        for pending in gone:
            self._bytes -= pending.weight
            self._spent(pending, now)

    def drain(self) -> list[Pending]:
        """Everything that is left."""
        left, self._queue = list(self._queue), deque()
        return left

    def close(self) -> None:
        """Take in nothing more; lanes end when everything is answered."""
        self.is_closed = True
        self._arrived.set()

    def nudge(self) -> None:
        """Make every idle lane look again."""
        self._arrived.set()

    async def arrival(self) -> None:
        """Return once there is something new to look at.

        Requests that are already here get to the queue first: no time passes, and they share the batch.
        """
        self._arrived.clear()
        self._idle_lanes += 1
        try:
            await self._arrived.wait()
            for _ in range(_TURNS_TO_ARRIVE):
                await self._sleep(0)
        finally:
            self._idle_lanes -= 1
