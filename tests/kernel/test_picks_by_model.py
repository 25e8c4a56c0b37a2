"""A pick finds what it would find if everything had been loaded, whatever the batch has changed; or it waits."""

from __future__ import annotations

import contextlib
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.kernel.record import Pick, micros
from interlock.kernel.world import Deferred, World
from tests.harness.soak import dose
from tests.kernel.counter_room import CHORES, COUNTERS, TENANT, Chore, Counter, DueChores
from tests.kernel.scripted_store import START

NOW = micros(START)
NAMES = [f"c{number}" for number in range(6)]

# None is taken, and what is due after now does not match either.
dues = st.one_of(st.none(), st.integers(NOW - 6, NOW + 1))
changes = st.one_of(
    st.tuples(st.just("move"), st.sampled_from(NAMES), dues),
    st.tuples(st.just("add"), st.just(""), dues),
    st.tuples(st.just("remove"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("count"), st.just("counter"), st.none()),
)
steps = st.tuples(changes, st.booleans(), st.lists(st.integers(1, 4), max_size=2))


class Counters(Pick[Counter], frozen=True, kw_only=True):
    """A pick of another kind, whose changes are none of the first one's business."""

    kind = COUNTERS


class PickModel:
    """A world in which a pick loaded its first few, beside everything that there really is."""

    def __init__(self, dues: dict[str, int | None], loads: int) -> None:
        self._numbers = itertools.count()
        stored = [Chore(tenant=TENANT, id=name, due=due, version=1) for name, due in dues.items()]
        self.truth = {chore.id: chore for chore in stored}
        self.has_changed = False
        self.world = World(START, str)
        owned = [CHORES.key(TENANT, name) for name in NAMES]
        counter = COUNTERS.key(TENANT, "counter")
        known = {CHORES.key_of(chore): chore for chore in stored}
        self.world.admit({**dict.fromkeys(owned), **known, counter: None}, [*owned, counter])
        self.world.admit_pick(DueChores(limit=loads), self.due(loads))
        self.world.admit_pick(Counters(limit=1), ())

    def due(self, limit: int) -> list[Chore]:
        pick = DueChores(limit=limit)
        matching = [chore for chore in self.truth.values() if pick.matches(chore, START)]
        return sorted(matching, key=pick.sort_key)[:limit]

    def change(self, verb: str, name: str, due: int | None) -> None:
        if verb == "count":
            self.world.put(COUNTERS, Counter(tenant=TENANT, id=name))
        elif verb == "add":
            chore = Chore(tenant=TENANT, id=f"n{next(self._numbers)}", due=due)
            self.truth[chore.id] = self.world.add(CHORES, chore)
        elif verb == "remove" and name in self.truth:
            self.world.delete(CHORES, self.truth.pop(name))
        elif verb == "move":
            self.truth[name] = self.world.put(CHORES, Chore(tenant=TENANT, id=name, due=due))

    def look(self, limit: int) -> None:
        """What the pick finds is what is due; only where others changed something may it have to wait."""
        self.world.begin()
        try:
            found = self.world.pick(DueChores(limit=limit))
        except Deferred:
            assert self.has_changed
        else:
            assert list(found) == self.due(limit)


@settings(max_examples=dose(200))
@given(
    stored=st.dictionaries(st.sampled_from(NAMES), dues),
    loads=st.integers(4, 6),
    turns=st.lists(steps, max_size=8),
)
def test_a_pick_finds_what_is_there_after_any_changes_and_refusals(
    stored: dict[str, int | None],
    loads: int,
    turns: list[tuple[tuple[str, str, int | None], bool, list[int]]],
) -> None:
    model = PickModel(stored, loads)
    for change, is_refused, looks in turns:
        before = dict(model.truth)
        model.world.begin()
        model.change(*change)
        if is_refused:
            # It looks at what it did, and takes it back.
            with contextlib.suppress(Deferred):
                model.world.pick(DueChores(limit=4))
            model.world.undo()
            model.truth = before
        else:
            model.has_changed = True
        for limit in looks:
            model.look(limit)
