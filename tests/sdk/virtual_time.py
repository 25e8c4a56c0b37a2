"""A driver with a clock of its own: flows run in the order of virtual time, and nothing really waits."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from interlock.sdk.flow import Flow, Now, Request, Response, Send, Sleep, TransportFailed

T = TypeVar("T")

Answered = Response | TransportFailed
Serve = Callable[[Request, float], tuple[float, Answered]]


def problem(status: int, code: str, *, headers: dict[str, str] | None = None, **fields: object) -> Response:
    """A problem document, retryable where the contract says so."""
    retryable = status in (423, 429, 503) or code == "lock_busy"
    document = {
        "status": status,
        "code": code,
        "title": code,
        "detail": code,
        "retryable": retryable,
    } | fields
    return Response(status=status, headers=headers or {}, body=msgspec.json.encode(document))


def success(code: int = 200, /, **fields: object) -> Response:
    """A JSON object."""
    return Response(status=code, body=msgspec.json.encode(fields))


def refused() -> TransportFailed:
    """Nobody listens: the request surely never arrived."""
    return TransportFailed("connection refused", may_have_been_received=False)


def cut() -> TransportFailed:
    """The connection broke after the request went out."""
    return TransportFailed("connection reset", may_have_been_received=True)


class Script:
    """Answers in the order given, each after `latency`; the last one repeats. Keeps what was sent, when."""

    def __init__(self, *answers: Answered, latency: float = 0.0) -> None:
        self.answers = list(answers)
        self.latency = latency
        self.sent: list[tuple[float, Request]] = []

    def __call__(self, request: Request, at: float) -> tuple[float, Answered]:
        self.sent.append((at, request))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return self.latency, answer

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.sent]

    @property
    def requests(self) -> list[Request]:
        return [request for _, request in self.sent]

    @property
    def waits(self) -> list[float]:
        return [later - earlier for earlier, later in itertools.pairwise(self.times)]


class VirtualTime:
    """Runs any number of flows against one simulated service."""

    def __init__(self, serve: Serve, *, start: float = 1000.0) -> None:
        self.serve = serve
        self.now = start
        self._turns: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._turns, (moment, next(self._order), action))

    def start(self, flow: Flow[Any], done: Callable[[object], None] = lambda _: None) -> None:
        """Begin a flow now; `done` gets its result or its exception."""
        self._advance(flow, lambda: next(flow), done)

    def run(self, flow: Flow[T]) -> T:
        """Drive one flow to its end."""
        ended: list[object] = []
        self.start(flow, ended.append)
        self.play(stop=lambda: bool(ended))
        if isinstance(ended[0], BaseException):
            raise ended[0]
        return ended[0]  # type: ignore[return-value]

    def play(self, stop: Callable[[], bool] = lambda: False, turns_max: int = 2_000_000) -> None:
        for _ in range(turns_max):
            if stop() or not self._turns:
                return
            moment, _, action = heapq.heappop(self._turns)
            self.now = max(self.now, moment)
            action()
        raise AssertionError(f"still running after {turns_max} turns")

    def _advance(self, flow: Flow[Any], resume: Callable[[], object], done: Callable[[object], None]) -> None:
        try:
            step = resume()
            while isinstance(step, Now):
                step = flow.send(self.now)
        except StopIteration as end:
            done(end.value)
        except Exception as error:  # noqa: BLE001 - handed to `done`
            done(error)
        else:
            self._schedule(flow, step, done)

    def _schedule(self, flow: Flow[Any], step: object, done: Callable[[object], None]) -> None:
        if isinstance(step, Sleep):
            self.at(self.now + step.seconds, lambda: self._advance(flow, lambda: flow.send(None), done))
            return
        assert isinstance(step, Send)
        latency, answer = self.serve(step.request, self.now)
        if isinstance(answer, TransportFailed):
            self.at(self.now + latency, lambda: self._advance(flow, lambda: flow.throw(answer), done))
        else:
            self.at(self.now + latency, lambda: self._advance(flow, lambda: flow.send(answer), done))


def drain(values: Iterable[float]) -> Callable[[], float]:
    """A source of fractions that hands out `values` in turn, then a half for ever."""
    chain = itertools.chain(values, itertools.repeat(0.5))
    return lambda: next(chain)
