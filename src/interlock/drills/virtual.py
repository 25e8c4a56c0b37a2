"""Virtual time: the SDK's own flows against a modelled service, in the order of their moments; nothing waits."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from interlock.sdk.flow import Flow, Now, Request, Response, Send, Sleep

Serve = Callable[[Request, float], tuple[float, Response]]
Done = Callable[[object], None]


class VirtualTime:
    """Runs any number of flows; `serve` says how long a request takes and what comes back."""

    def __init__(self, serve: Serve) -> None:
        self.now = 0.0
        self._serve = serve
        self._turns: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Do something at a moment."""
        heapq.heappush(self._turns, (moment, next(self._order), action))

    def start(self, flow: Flow[Any], done: Done) -> None:
        """Begin a flow now; `done` gets its result or its exception."""
        self._advance(flow, None, done)

    def play(self) -> None:
        """Until nothing is left to do."""
        while self._turns:
            self.now, _, action = heapq.heappop(self._turns)
            action()

    def _advance(self, flow: Flow[Any], answer: object, done: Done) -> None:
        try:
            step = flow.send(answer)
            while isinstance(step, Now):
                step = flow.send(self.now)
        except StopIteration as end:
            done(end.value)
        except Exception as error:  # noqa: BLE001 - handed to whoever started the flow
            done(error)
        else:
            self._schedule(flow, step, done)

    def _schedule(self, flow: Flow[Any], step: object, done: Done) -> None:
        if isinstance(step, Sleep):
            self.at(self.now + step.seconds, lambda: self._advance(flow, None, done))
        elif isinstance(step, Send):
            seconds, response = self._serve(step.request, self.now)
            self.at(self.now + seconds, lambda: self._advance(flow, response, done))
        else:
            raise TypeError(f"{type(step).__name__} has no place in a simulation")
