"""Is there one order in which all this could have happened? A search after Wing, Gong and Lowe.

A history is a list of operations: what was asked, what came back, and when, by one clock. It is linearizable if
every operation can be given a moment between its call and its answer such that, in the order of those moments,
a sequential model gives the same answers.

An operation whose answer was lost (`UNKNOWN`) may have taken effect at any moment after its call, or never. The
search tries both. It remembers which sets of operations led to which state, so the same place is never searched
twice. Operations on different things do not matter to each other, so histories are split by key first.

    verdict = check(history, LeaseModel())
    assert verdict.holds, verdict.explain()
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Generic, Protocol, TypeVar

STATES_MAX = 2_000_000


class _Unknown:
    def __repr__(self) -> str:
        return "?"


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call: by whom, on what, asking what, and what came back when."""

    key: str
    call: str
    given: Any = None
    answer: Any = UNKNOWN
    invoked: float
    answered: float = inf
    client: str = ""

    @property
    def is_known(self) -> bool:
        return self.answer is not UNKNOWN

    def __str__(self) -> str:
        end = f"{self.answered:.6f}" if self.is_known else "never"
        return f"[{self.invoked:.6f} … {end}] {self.client}: {self.call}({self.given}) -> {self.answer}"


S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    """A thing as it would behave if everybody took turns."""

    def initial(self) -> S:
        """Its state before anything happened."""
        ...

    def step(self, state: S, operation: Operation) -> Iterable[S]:
        """The states that the operation with its answer can lead to; none if the answer is impossible here.

        If the answer is `UNKNOWN`, the states after any effect that it may have had.
        """
        ...


class TooHard(Exception):
    """The search was given up: neither proved nor disproved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Generic[S]):
    """Whether a history holds; if not, how far the best order got and what could not follow it."""

    holds: bool
    key: str = ""
    order: Sequence[Operation] = ()
    stuck: Sequence[Operation] = ()
    states: frozenset[Any] = field(default_factory=frozenset[Any])

    def explain(self) -> str:
        """The longest order found, and the operations none of which could come next."""
        if self.holds:
            return "linearizable"
        lines = [f"{self.key}: no order explains this. The longest that does begins:"]
        lines += [f"  {operation}" for operation in self.order]
        lines += [f"in state {', '.join(map(str, self.states))} none of these could come next:"]
        return "\n".join([*lines, *(f"  {operation}" for operation in self.stuck)])


def check(history: Iterable[Operation], model: Model[S], *, states_max: int = STATES_MAX) -> Verdict[S]:
    """The first key whose operations have no order, or that all have one."""
    for key, operations in sorted(_by_key(history).items()):
        verdict = _Search(model, operations, states_max).run(key)
        if not verdict.holds:
            return verdict
    return Verdict(holds=True)


def _by_key(history: Iterable[Operation]) -> dict[str, list[Operation]]:
    split: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        split[operation.key].append(operation)
    return split


class _Search(Generic[S]):
    """Depth first over sets of operations done and the state they led to."""

    def __init__(self, model: Model[S], operations: Sequence[Operation], states_max: int) -> None:
        self._model = model
        self._operations = sorted(operations, key=lambda operation: (operation.invoked, operation.answered))
        self._known = sum(
            1 << place for place, operation in enumerate(self._operations) if operation.is_known
        )
        self._states_max = states_max
        self._best: tuple[tuple[int, ...], S] = ((), model.initial())

    def run(self, key: str) -> Verdict[S]:
        start = self._model.initial()
        seen: set[tuple[int, S]] = {(0, start)}
        order: list[int] = []
        branches = [self._next(0, start)]
        while branches:
            found = next(branches[-1], None)
            if found is None:
                branches.pop()
                if order:
                    order.pop()
                continue
            place, done, state = found
            if (done, state) in seen:
                continue
            seen.add((done, state))
            if len(seen) > self._states_max:
                raise TooHard(f"{key}: more than {self._states_max} states for {len(self._operations)}")
            order.append(place)
            if done & self._known == self._known:
                return Verdict(holds=True)
            self._remember(order, state)
            branches.append(self._next(done, state))
        if not self._known:
            return Verdict(holds=True)
        return self._refutation(key)

    def _next(self, done: int, state: S) -> Iterator[tuple[int, int, S]]:
        """Every operation that may come next, with what it leads to. Known answers first: they narrow the most."""
        candidates = self._candidates(done)
        for place in sorted(candidates, key=lambda place: not self._operations[place].is_known):
            for after in self._model.step(state, self._operations[place]):
                yield place, done | 1 << place, after

    def _candidates(self, done: int) -> list[int]:
        """Operations called before every answer that is still to be explained."""
        horizon, found = inf, list[int]()
        for place, operation in enumerate(self._operations):
            if operation.invoked > horizon:
                break
            if not done >> place & 1:
                found.append(place)
                horizon = min(horizon, operation.answered)
        return [place for place in found if self._operations[place].invoked <= horizon]

    def _remember(self, order: Sequence[int], state: S) -> None:
        if len(order) > len(self._best[0]):
            self._best = (tuple(order), state)

    def _refutation(self, key: str) -> Verdict[S]:
        order, state = self._best
        done = sum(1 << place for place in order)
        return Verdict(
            holds=False,
            key=key,
            order=[self._operations[place] for place in order],
            stuck=[self._operations[place] for place in self._candidates(done)],
            states=frozenset({state}),
        )
