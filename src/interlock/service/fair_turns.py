"""Fair turns between tenants: one that asks for much waits longer, and the others do not.

However many calls one tenant has waiting, another tenant's next call waits for at most one of them per turn. The
number of waiting calls per tenant is bounded; calls beyond it are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator

from interlock.kernel.refusal import Overloaded

_SMOOTHING = 0.2
_SECONDS_AT_FIRST = 0.1
_RETRY_SECONDS_MAX = 30.0


class FairTurns:
    """So many turns at once. A tenant may have `waiting_max` calls waiting, of `bytes_max` in all."""

    def __init__(self, *, at_once: int, waiting_max: int, bytes_max: int) -> None:
        self._free = at_once
        self._at_once = at_once
        self._waiting_max = waiting_max
        self._bytes_max = bytes_max
        # Tenants in the order of their next turn.
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._seconds_each = _SECONDS_AT_FIRST

    @property
    def waiting(self) -> int:
        """How many calls wait for a turn."""
        return sum(len(line.waiting) for line in self._lines.values())

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str, weight: int) -> AsyncGenerator[None]:
        """Inside the block it is this call's turn. `Overloaded` if too much of the tenant's is waiting already."""
        await self._take(tenant, weight)
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            seconds = asyncio.get_running_loop().time() - began
            self._seconds_each += _SMOOTHING * (seconds - self._seconds_each)
            self._pass_on()

    async def _take(self, tenant: str, weight: int) -> None:
        if self._free:
            self._free -= 1
            return
        line = self._lines.get(tenant)
        if line and (len(line.waiting) >= self._waiting_max or line.weight + weight > self._bytes_max):
            raise self._overloaded(len(line.waiting))
        if line is None:
            line = self._lines[tenant] = _Line()
        its_turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.add(its_turn, weight)
        try:
            await its_turn
        except asyncio.CancelledError:
            if its_turn.done() and not its_turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a turn to the tenant who has waited longest for one; it goes behind the others then."""
        while self._lines:
            tenant, line = self._lines.popitem(last=False)
            its_turn = line.next()
            if line.waiting:
                self._lines[tenant] = line
            if its_turn is not None:
                its_turn.set_result(None)
                return
        self._free += 1

    def _overloaded(self, ahead: int) -> Overloaded:
        seconds = ahead * self._seconds_each * len(self._lines) / self._at_once
        return Overloaded(
            "too much of this tenant's that takes long to read or to evaluate is waiting already; nothing was decided. "
            "Send less at once",
            retry_after_seconds=min(_RETRY_SECONDS_MAX, max(0.1, seconds)),
        )


class _Line:
    """What one tenant has waiting, first come first served."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self.weight = 0

    def add(self, its_turn: asyncio.Future[None], weight: int) -> None:
        self.waiting.append((its_turn, weight))
        self.weight += weight

    def next(self) -> asyncio.Future[None] | None:
        """The next that still waits; whoever left is forgotten."""
        while self.waiting:
            its_turn, weight = self.waiting.popleft()
            self.weight -= weight
            if not its_turn.done():
                return its_turn
        return None
