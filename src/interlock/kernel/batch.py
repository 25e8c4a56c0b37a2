"""One batch: the commands that share one commit, and their decisions; and the queue that batches are taken from.

Deciding a batch is pure, except for the ids it is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.ids import Ids
from interlock.kernel.record import NOTHING, Reads, merge_reads, micros
from interlock.kernel.refusal import CommandFailed, Refusal
from interlock.kernel.storage import Loaded
from interlock.kernel.world import Changes, Command, Deferred, NewId, World

if TYPE_CHECKING:
    import asyncio


# From a socket that is readable to a command in the queue, a request takes this many turns of the loop.
_TURNS_TO_ARRIVE = 3
# Fewer commands than this are quicker in one batch than in two.
_SHARE_MIN = 32
_ASKS_NO_MORE = cast("Any", Command).more


class Pending:
    """A command on its way, with the future its caller waits on.

    `blocked_at` is when another transaction first kept it waiting; `alone` is set for a command that failed
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
        """Give the caller its result, or raise the exception there; nothing happens if it has left."""
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class CommandQueue:
    """Pending commands in arrival order. Only new commands are bounded: accepted ones may come back.

    A command whose budget is spent leaves through `spent`, which answers it. Lanes that are idle at the same
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
        import asyncio  # Imported here: a process without a queue must not pay for the import of asyncio.

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
        """To the front, in their order: they arrived before all that wait now."""
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
        """The next batch's members; one that must go alone does. Commands whose caller left are skipped."""
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


class Batch:
    """Decides its commands in arrival order against one world, and remembers each outcome.

    A batch can be decided several times (a store may have to load it again); each `more` starts over.
    `early` were not decided because the ones ahead of them changed what they need; `blocked` because
    another transaction holds a record that they own.
    """

    def __init__(
        self,
        batch_id: str,
        members: Sequence[Pending],
        new_id: NewId,
        compute: Compute = compute_here,
    ) -> None:
        self.id = batch_id
        self.members = members
        self.outcomes: dict[Pending, Any] = {}
        self.early: list[Pending] = []
        self.blocked: list[Pending] = []
        self.wakes: frozenset[str] = frozenset()
        self.wrote = False
        self._compute = compute
        self._new_id = new_id
        self._world: World | None = None
        self._more: dict[Pending, Reads] = {}
        self._refused_early: dict[Pending, Refusal] = {}
        self._busy: frozenset[Any] = frozenset()

    @property
    def is_decided(self) -> bool:
        """Whether every member has an outcome or is left for later: the store did its part."""
        return len(self.outcomes) + len(self.early) + len(self.blocked) == len(self.members)

    @property
    def undecided(self) -> list[Pending]:
        """Members that this batch left for a later one."""
        return [*self.early, *self.blocked]

    def reads(self) -> Reads:
        return merge_reads([member.reads for member in self.members])

    def more(self, loaded: Loaded) -> Reads:
        """Start over with the first load, and ask every command that need not wait for its second reads."""
        self.outcomes, self.early, self.blocked = {}, [], []
        self._more, self._refused_early, self._busy = {}, {}, frozenset()
        ids = _ids_of(self._new_id, loaded)
        self._world = world = World(loaded.now, ids, loaded.state, self._compute)
        self._admit(world, loaded, (key for member in self.members for key in member.reads.own))
        for member in self.members:
            if member.asks_more and not self._waits(member):
                self._ask(member, world)
        return self._unread(world, alone=loaded.alone)

    def decide(self, loaded: Loaded | None) -> Changes:
        """Decide every command; `loaded` is what the second reads found, if there were any."""
        world = self._world
        if world is None:
            raise RuntimeError("a store decides a batch after asking it for more reads, not before")
        if loaded is not None:
            self._admit(world, loaded, (key for reads in self._more.values() for key in reads.own))
        for member in self.members:
            if member in self.outcomes:
                continue
            if self._waits(member):
                self.blocked.append(member)
            else:
                self._decide_one(member, world)
        changes = world.changes()
        self.wakes, self.wrote = changes.wakes, bool(changes)
        return changes

    # One command after another.

    def _admit(self, world: World, loaded: Loaded, own: Any) -> None:
        self._busy |= loaded.busy
        busy = self._busy
        free = (key for key in own if key not in busy) if busy else own
        world.admit(loaded.records, free, loaded.unreadable)
        for pick, records in loaded.picked:
            world.admit_pick(pick, records)

    def _ask(self, member: Pending, world: World) -> None:
        try:
            more = member.command.more(world)
            if more:
                self._more[member] = more
        except Refusal as refusal:
            self._refused_early[member] = refusal
        except Exception as error:  # noqa: BLE001 - a bug in one command must not fail its neighbours
            self.outcomes[member] = _broken(member, error)

    def _unread(self, world: World, *, alone: bool) -> Reads:
        """The reads that are not loaded yet; a record that was only seen may now be asked for with its lock."""
        if not self._more:
            return NOTHING
        wanted = merge_reads(list(self._more.values()))
        if wanted.picks:
            # A pick asked for in both rounds is loaded again for every command that wants it.
            asked = {pick.unlimited() for pick in wanted.picks}
            again = (pick for member in self.members for pick in member.reads.picks)
            shared = Reads(picks=tuple(pick for pick in again if pick.unlimited() in asked))
            wanted = merge_reads((wanted, shared))
        own = [key for key in wanted.own if not world.owns(key) and key not in self._busy]
        if alone:
            world.own(key for key in own if world.knows(key))
            own = [key for key in own if not world.knows(key)]
        return Reads(
            tuple(own),
            tuple(key for key in wanted.see if not world.knows(key)),
            wanted.picks,
        )

    def _decide_one(self, member: Pending, world: World) -> None:
        world.begin()
        try:
            # `more` refuses before the earlier commands are decided. If they changed anything, the command is
            # judged again.
            if member in self._refused_early and world.is_as_loaded:
                raise self._refused_early[member]
            self.outcomes[member] = member.command.decide(world)
        except Deferred:
            world.undo()
            self.early.append(member)
        except Refusal as refusal:
            world.undo()
            self._refuse(member, world, refusal)
        except Exception as error:  # noqa: BLE001 - a bug in one command must not fail its neighbours
            world.undo()
            self.outcomes[member] = _broken(member, error)

    def _refuse(self, member: Pending, world: World, refusal: Refusal) -> None:
        try:
            member.command.refused(world, refusal)
            self.outcomes[member] = refusal
        except Deferred:
            world.undo()
            self.early.append(member)
        except Exception as error:  # noqa: BLE001 - a refusal that leaves no record must not pass for one
            world.undo()
            self.outcomes[member] = _broken(member, error)

    def _waits(self, member: Pending) -> bool:
        """Whether another transaction holds a record that this command must own."""
        if not self._busy:
            return False
        more = self._more.get(member, NOTHING)
        return not self._busy.isdisjoint(member.reads.own) or not self._busy.isdisjoint(more.own)


def _ids_of(new_id: NewId, loaded: Loaded) -> NewId:
    """Ids that are dated by the batch, if they are dated at all."""
    return (
        new_id.at(micros(loaded.now) + loaded.state.ids_ahead_micros) if isinstance(new_id, Ids) else new_id
    )


def _broken(member: Pending, error: Exception) -> CommandFailed:
    import logging  # here, because it is rarely needed and takes as long to import as the rest of the kernel

    name = type(member.command).__name__
    logging.getLogger(__name__).error("%s broke", name, exc_info=error)
    failed = CommandFailed(f"{name} could not be decided; report it with the request id")
    failed.__cause__ = error
    return failed
