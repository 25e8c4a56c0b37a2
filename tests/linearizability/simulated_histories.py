"""Concurrent histories out of nothing: clients call something in memory, calls overlap, answers get lost.

What they call may have a bug planted in it. The clock is virtual and every choice comes from a seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from tests.linearizability.checker import UNKNOWN, Operation

Choice = tuple[str, Any]


class Subject(Protocol):
    """Something that is called. `choose` says what a client asks next, `apply` what happens."""

    def choose(self, client: str, chance: random.Random) -> Choice: ...

    def apply(self, call: str, given: Any, client: str, now: float) -> Any: ...

    def told(self, client: str, call: str, answer: Any) -> None: ...


def play(
    subject: Subject, seed: int, *, clients: int = 4, calls: int = 40, lost: float = 0.1
) -> list[Operation]:
    """A history of that many calls. A call takes effect somewhere between its start and its answer, if it does."""
    chance = random.Random(seed)
    history: list[Operation] = []
    events: list[tuple[float, int, Callable[[], None]]] = []
    count = 0

    def at(moment: float, what: Callable[[], None]) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (moment, count, what))

    def start(client: str, moment: float) -> None:
        at(moment, lambda: call(client, moment))

    def call(client: str, invoked: float) -> None:
        if len(history) >= calls:
            return
        name, given = subject.choose(client, chance)
        effect = invoked + chance.random()
        answered = effect + chance.random()
        is_lost = chance.random() < lost
        place = len(history)
        history.append(Operation(key="x", call=name, given=given, invoked=invoked, client=client))

        def take_effect() -> None:
            answer = subject.apply(name, given, client, effect)
            if is_lost:
                return
            history[place] = Operation(
                key="x",
                call=name,
                given=given,
                answer=answer,
                invoked=invoked,
                answered=answered,
                client=client,
            )
            at(answered, lambda: subject.told(client, name, answer))

        if not is_lost or chance.random() < 0.5:
            at(effect, take_effect)
        start(client, answered + chance.random())

    for number in range(clients):
        start(f"c{number}", chance.random())
    while events:
        heapq.heappop(events)[2]()
    return [each if each.answer is not UNKNOWN else _never(each) for each in history]


def _never(operation: Operation) -> Operation:
    return Operation(
        key=operation.key,
        call=operation.call,
        given=operation.given,
        invoked=operation.invoked,
        answered=inf,
        client=operation.client,
    )
