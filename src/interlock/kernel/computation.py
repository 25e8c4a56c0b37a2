"""Computations: slow parts of a decision, such as evaluating a policy on a large payload.

Decisions run on the event loop, so a slow one would delay every other caller. A command therefore calls
`world.compute(…)` for slow parts. Outside a server the result is computed at once. A server computes at once only
what is quick; otherwise `NotComputed` ends the decision, the kernel has the value computed in another process, and
the command is decided again.

A computation is pure, and its key names everything that it depends on, such as the policy's snapshot. A stored result
is used only if the decision asks for the same key again. If something changed meanwhile, the key differs and the
command is computed once more, so a decision always uses the policy that is in force.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from interlock.kernel.refusal import Refusal

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class TooLong(Exception):
    """It cannot be computed in a moment."""


class Computation(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True):
    """A pure computation that may be slow, on behalf of one tenant."""

    tenant: str

    @property
    def is_portable(self) -> bool:
        """Whether it can be computed in another process; else on a thread of this one."""
        return True

    @property
    def weight(self) -> int:
        """Roughly how many bytes it reads."""
        return 0

    def key(self) -> Hashable:
        """Names all that the result depends on."""
        raise NotImplementedError

    def quickly(self) -> T_co:
        """The result if it is quick; else `TooLong`, raised before any slow step."""
        raise NotImplementedError

    def wholly(self) -> T_co:
        """The result, however long it takes."""
        raise NotImplementedError


class NotComputed(Refusal):
    """These must be computed before the command can be decided. The kernel does that; no caller sees this."""

    def __init__(self, computations: Sequence[Computation[Any]]) -> None:
        super().__init__(
            "this takes longer than a moment; it is computed beside the loop, then decided again"
        )
        self.computations = tuple(computations)


Compute = Callable[[Computation[Any]], Any]


def compute_here(computation: Computation[T]) -> T:
    """Compute at once: no other caller has to wait."""
    return computation.wholly()


class Computing(Protocol):
    """Computes slow parts of decisions outside the event loop, and keeps the results."""

    def compute(self, computation: Computation[Any]) -> Any:
        """The result if it is quick or known; else `NotComputed`."""
        ...

    def prepare(self, computations: Sequence[Computation[Any]]) -> Awaitable[None]:
        """Compute these, so that `compute` knows them. Raises a `Fault` if that cannot be done now."""
        ...
