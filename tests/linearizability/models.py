"""What each room would do if everybody took turns: small pure models for the checker."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from tests.linearizability.checker import Operation


class LeaseAnswer(NamedTuple):
    """What an owner is told: the fence, since when or renewed when, and until when, by the store's clock."""

    fence: int
    at: float
    expires: float


class LeaseState(NamedTuple):
    """Who holds it (a fence, 0 for nobody, -1 for a caller whose answer was lost) and when that ends.

    An end that nobody was told is a range: a holder may be over from `ends_min` on and must be by `ends_max`.
    """

    holder: int = 0
    ends_min: float = 0.0
    ends_max: float = 0.0
    fence: int = 0
    released: frozenset[int] = frozenset()


LOST = -1


class LeaseModel:
    """An exclusive lease by the store's clock, which is the clock of this machine.

    acquire(ttl) -> LeaseAnswer or "held"; renew((fence, ttl)) -> LeaseAnswer or "stale"; release(fence) -> "ok" or
    "stale"; check(fence) -> True or False.
    """

    def initial(self) -> LeaseState:
        return LeaseState()

    def step(self, state: LeaseState, operation: Operation) -> Iterator[LeaseState]:
        steps = {
            "acquire": self._acquire,
            "renew": self._renew,
            "release": self._release,
            "check": self._check,
        }
        return steps[operation.call](state, operation)

    def _acquire(self, state: LeaseState, operation: Operation) -> Iterator[LeaseState]:
        answer = operation.answer
        if not operation.is_known:
            yield state._replace(holder=LOST, ends_min=operation.invoked + operation.given, ends_max=inf)
        elif answer == "held":
            # It was held at some moment while the call was under way.
            if state.holder != 0 and state.ends_max > operation.invoked:
                yield state
        elif answer.fence > state.fence and (state.holder == 0 or answer.at >= state.ends_min):
            yield LeaseState(answer.fence, answer.expires, answer.expires, answer.fence, state.released)

    def _renew(self, state: LeaseState, operation: Operation) -> Iterator[LeaseState]:
        fence, ttl = operation.given
        is_holder = state.holder == fence
        if not operation.is_known:
            if is_holder:
                yield state._replace(ends_min=max(state.ends_min, operation.invoked + ttl), ends_max=inf)
        elif operation.answer == "stale":
            yield from self._stale(state, operation, fence)
        elif is_holder and operation.answer.at < state.ends_max:
            yield state._replace(ends_min=operation.answer.expires, ends_max=operation.answer.expires)

    def _release(self, state: LeaseState, operation: Operation) -> Iterator[LeaseState]:
        fence = operation.given
        if operation.answer == "stale":
            yield from self._stale(state, operation, fence)
        elif fence in state.released:
            yield state  # giving back what was given back changes nothing
        elif state.holder == fence and (not operation.is_known or state.ends_max > operation.invoked):
            yield LeaseState(fence=state.fence, released=state.released | {fence})

    def _check(self, state: LeaseState, operation: Operation) -> Iterator[LeaseState]:
        if not operation.is_known:
            return
        if not operation.answer:
            yield from self._stale(state, operation, operation.given)
        elif state.holder == operation.given and state.ends_max > operation.invoked:
            yield state

    def _stale(self, state: LeaseState, operation: Operation, fence: int) -> Iterator[LeaseState]:
        """Refused: it is another caller's, or its time was over before the answer came."""
        is_repeat = operation.call == "release" and fence in state.released
        if is_repeat:
            return
        if state.holder != fence or state.ends_min <= operation.answered:
            yield state


class ApprovalModel:
    """One approval: the first decision stands. approve(), reject() -> what the service's word says."""

    def initial(self) -> str:
        return "pending"

    def step(self, state: str, operation: Operation) -> Iterator[str]:
        verdict = {"approve": "approved", "reject": "rejected"}[operation.call]
        if not operation.is_known:
            if state == "pending":
                yield verdict
        elif state == "pending":
            if operation.answer == verdict:
                yield verdict
        elif operation.answer == f"already_{state}":
            yield state


class GrantModel:
    """A grant of `uses` uses. claim(execution) -> the number of its use, or "spent"; a repeat gets the same."""

    def __init__(self, uses: int) -> None:
        self._uses = uses

    def initial(self) -> tuple[str, ...]:
        return ()

    def step(self, state: tuple[str, ...], operation: Operation) -> Iterator[tuple[str, ...]]:
        known = operation.given in state
        has_room = len(state) < self._uses
        after = state if known or not has_room else (*state, operation.given)
        if not operation.is_known:
            yield after
        elif operation.answer == "spent":
            if not known and not has_room:
                yield state
        elif operation.given in after and operation.answer == after.index(operation.given) + 1:
            yield after


class EffectModel:
    """One side effect. begin() -> "begun", "in_progress" or "replayed"; commit(fence of one's begin) -> "committed".

    The state is what became of it and whose begin counts.
    """

    def initial(self) -> tuple[str, int]:
        return ("new", 0)

    def step(self, state: tuple[str, int], operation: Operation) -> Iterator[tuple[str, int]]:
        phase, fence = state
        if operation.call == "begin":
            yield from self._begin(phase, fence, operation)
        elif phase == "running" and fence in (operation.given, LOST):
            if not operation.is_known or operation.answer == "committed":
                yield ("committed", fence)
        elif phase == "committed" and operation.answer == "committed" and fence == operation.given:
            yield state

    def _begin(self, phase: str, fence: int, operation: Operation) -> Iterator[tuple[str, int]]:
        if not operation.is_known:
            if phase == "new":
                yield ("running", LOST)
        elif phase == "new" and isinstance(operation.answer, int):
            yield ("running", operation.answer)
        elif (phase, operation.answer) in (("running", "in_progress"), ("committed", "replayed")):
            yield (phase, fence)


class AdmissionModel:
    """A limit of runs at once. start(name) -> "admitted" or "full"; complete(name) -> "completed"."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def initial(self) -> frozenset[str]:
        return frozenset()

    def step(self, state: frozenset[str], operation: Operation) -> Iterator[frozenset[str]]:
        if operation.call == "complete":
            if operation.given in state and (not operation.is_known or operation.answer == "completed"):
                yield state - {operation.given}
        elif operation.answer == "full":
            if len(state) >= self._limit:
                yield state
        elif len(state) < self._limit:
            yield state | {operation.given}


class RegisterModel:
    """One value. write(value) -> "ok"; read() -> the value. The plainest model there is, to test the checker by."""

    def initial(self) -> int:
        return 0

    def step(self, state: int, operation: Operation) -> Iterator[int]:
        if operation.call == "write":
            yield operation.given
        elif operation.answer == state:
            yield state
