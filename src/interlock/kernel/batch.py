"""One batch: the commands that share one commit, and their decisions. Pure, except for the ids it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.ids import Ids
from interlock.kernel.pending import Pending
from interlock.kernel.record import NOTHING, Reads, merge_reads, micros
from interlock.kernel.refusal import CommandFailed, Refusal
from interlock.kernel.storage import Loaded
from interlock.kernel.world import Changes, Deferred, NewId, World


class Batch:
    """Decides its commands in arrival order against one world, and remembers each outcome.

    A batch can be decided several times (a store may have to load it again); each `more` starts over.
    `early` were not decided because the ones ahead of them changed what they need; `blocked` because
    somebody else holds a record that they own.
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
        """What was asked for and is not there yet; a record seen so far may be asked for to own."""
        if not self._more:
            return NOTHING
        wanted = merge_reads(list(self._more.values()))
        if wanted.picks:
            # A pick asked for in both rounds is loaded again for everyone who wants it.
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
            # What `more` refused, it refused before the commands ahead decided; if they changed
            # anything, the command judges again.
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
        """Whether somebody else holds a record that this command must own."""
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
    import logging  # Here: it takes as long to import as the rest of the kernel, and rarely has a say.

    name = type(member.command).__name__
    logging.getLogger(__name__).error("%s broke", name, exc_info=error)
    failed = CommandFailed(f"{name} could not be decided; report it with the request id")
    failed.__cause__ = error
    return failed
