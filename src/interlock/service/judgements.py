"""Policy evaluations that were computed in another process, kept for the decisions that asked for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.kernel.computation import Computation, NotComputed, TooLong, compute_here
from interlock.kernel.refusal import Fault
from interlock.rooms.policy.expressions import OverBudget
from interlock.rooms.policy.judgement import TOO_LONG
from interlock.service.compute_pool import ComputePool, TookTooLong

T = TypeVar("T")

KNOWN_MAX = 4096


class _Outcome(msgspec.Struct, frozen=True):
    """What came of a computation."""

    value: Any = None
    error: Exception | None = None


class Judgements:
    """The kernel's `Computing`: quick ones at once, others in the pool, and the last results by their keys."""

    def __init__(self, pool: ComputePool) -> None:
        self._pool = pool
        self._known: OrderedDict[Hashable, _Outcome] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[None]] = {}

    def compute(self, computation: Computation[Any]) -> Any:
        """The result if it is quick or known; else `NotComputed`."""
        if not self._pool.is_open:
            return compute_here(computation)
        try:
            return computation.quickly()
        except TooLong:
            known = self._known.get(computation.key())
        if known is None:
            raise NotComputed((computation,))
        if known.error is not None:
            raise known.error.with_traceback(None)
        return known.value

    async def answered(self, ask: Callable[[], T]) -> T:
        """What a question comes to that asks for computations but decides nothing."""
        while True:
            try:
                return ask()
            except NotComputed as missing:
                await self.prepare(missing.computations)

    async def prepare(self, computations: Sequence[Computation[Any]]) -> None:
        """Compute these, so that `compute` knows them. What is under way already is only waited for."""
        await asyncio.gather(*map(self._prepared, computations))

    async def _prepared(self, computation: Computation[Any]) -> None:
        key = computation.key()
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._keep(key, computation))
            task.add_done_callback(lambda done: self._ended(key, done))
        await asyncio.shield(task)

    def _ended(self, key: Hashable, done: asyncio.Task[None]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # Whoever asked may have left; then nobody else would look.

    async def _keep(self, key: Hashable, computation: Computation[Any]) -> None:
        try:
            value = await self._computed(computation)
        except Fault:
            raise
        except TookTooLong:
            too_long = OverBudget(rule="policy", expression="", why=TOO_LONG)
            self._remember(key, _Outcome(error=too_long))
        except Exception as error:  # noqa: BLE001 - it is what the decision would have met
            self._remember(key, _Outcome(error=error))
        else:
            if computation.is_portable:
                self._remember(key, _Outcome(value=value))

    async def _computed(self, computation: Computation[Any]) -> Any:
        if computation.is_portable:
            return await self._pool.run(computation.tenant, computation.weight, compute_here, computation)
        return await self._pool.run_on_thread(
            computation.tenant, computation.weight, compute_here, computation
        )

    def _remember(self, key: Hashable, outcome: _Outcome) -> None:
        self._known[key] = outcome
        self._known.move_to_end(key)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
