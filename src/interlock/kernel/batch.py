"""One batch: the commands that one commit carries, and their decisions. Pure but for the ids it is given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from interlock.kernel.command import Command
from interlock.kernel.record import Reads, merge_reads
from interlock.kernel.refusal import CommandFailed, Refusal
from interlock.kernel.storage import Loaded
from interlock.kernel.world import Changes, Deferred, NewId, World

log = logging.getLogger(__name__)


class Pending:
    """A command on its way, with the future its caller waits on."""

    __slots__ = ("command", "deadline", "enqueued_at", "future", "reads", "weight")

    def __init__(
        self, command: Command[Any], future: asyncio.Future[Any], *, now: float, budget: float, weight: int
    ) -> None:
        self.command = command
        self.future = future
        self.enqueued_at = now
        self.deadline = now + budget
        self.weight = weight
        self.reads = command.reads()


class Batch:
    """Decides its commands in arrival order against one world, and remembers each outcome.

    A batch can be decided several times (a conflict loads it afresh); each `decide` starts over.
    """

    def __init__(self, batch_id: str, members: Sequence[Pending], new_id: NewId) -> None:
        self.id = batch_id
        self.members = members
        self._new_id = new_id
        self._more: dict[Pending, Reads] = {}
        self.outcomes: dict[Pending, Any | BaseException] = {}
        self.deferred: list[Pending] = []
        self.wakes: frozenset[str] = frozenset()

    def reads(self) -> Reads:
        return merge_reads(member.reads for member in self.members)

    def more(self, loaded: Loaded) -> Reads:
        """The second round of reads, asked of every command that the first load did not leave waiting."""
        self.outcomes, self.deferred, self._more = {}, [], {}
        world = self._world(loaded)
        for member in self.members:
            if loaded.busy and not loaded.busy.isdisjoint(member.reads.own):
                continue
            try:
                self._more[member] = member.command.more(world)
            except Refusal as refusal:
                self.outcomes[member] = refusal
            except Exception as error:  # a bug in one command must not fail its neighbours
                self.outcomes[member] = _broken(member, error)
        return merge_reads(self._more.values())

    def decide(self, loaded: Loaded) -> Changes:
        """Decide every command; `loaded` holds the records of both rounds."""
        world = self._world(loaded)
        for member in self.members:
            if self._is_busy(member, loaded):
                self.deferred.append(member)
            elif isinstance(self.outcomes.get(member), CommandFailed):
                continue
            else:
                self._decide_one(member, world)
        changes = world.changes()
        self.wakes = changes.wakes
        return changes

    def _decide_one(self, member: Pending, world: World) -> None:
        world.begin()
        try:
            earlier = self.outcomes.get(member)
            if isinstance(earlier, Refusal):
                raise earlier
            self.outcomes[member] = member.command.decide(world)
        except Deferred:
            world.undo()
            self.deferred.append(member)
        except Refusal as refusal:
            world.undo()
            self._refuse(member, world, refusal)
        except Exception as error:  # a bug in one command must not fail its neighbours
            world.undo()
            self.outcomes[member] = _broken(member, error)

    def _refuse(self, member: Pending, world: World, refusal: Refusal) -> None:
        self.outcomes[member] = refusal
        world.begin()
        try:
            member.command.refused(world, refusal)
        except Exception as error:  # the refusal stands; a broken record of it must not hide it
            world.undo()
            log.exception("recording a refusal of %s failed", type(member.command).__name__, exc_info=error)

    def _is_busy(self, member: Pending, loaded: Loaded) -> bool:
        if not loaded.busy:
            return False
        more = self._more.get(member)
        wanted = member.reads.own + (more.own if more else ())
        return not loaded.busy.isdisjoint(wanted)

    def _world(self, loaded: Loaded) -> World:
        world = World(loaded.now, self._new_id)
        owned = {key for member in self.members for key in member.reads.own}
        owned.update(key for reads in self._more.values() for key in reads.own)
        for pick, records in loaded.picked:
            keys = {pick.kind.key_of(record): record for record in records}
            world.admit(keys, frozenset(keys) if pick.own else frozenset())
            world.admit_pick(pick, len(records))
        world.admit(loaded.records, frozenset(owned - loaded.busy))
        return world


def _broken(member: Pending, error: Exception) -> CommandFailed:
    log.exception("%s broke", type(member.command).__name__, exc_info=error)
    failed = CommandFailed(f"{type(member.command).__name__} could not be decided")
    failed.__cause__ = error
    return failed
