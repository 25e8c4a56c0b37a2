"""The loop that hands in what this server counted at the admission gate, so that every server can tell it."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from interlock.admission.tallies import KeepTally
from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import Fault
from interlock.runtime.admission_stats import AdmissionStats

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1
_TROUBLE_SECONDS = 2.0


class Tallying:
    """Hands counts in a moment after they were made, and once more at the end."""

    def __init__(self, kernel: Kernel, stats: AdmissionStats) -> None:
        self._kernel = kernel
        self._stats = stats
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="tallies")

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            with contextlib.suppress(Fault):
                await self.hand_in()

    async def hand_in(self) -> None:
        """Hand in everything that was counted since the last time."""
        for tally in self._stats.unreported():
            try:
                await self._kernel.run(KeepTally(tally=tally))
            except BaseException:
                self._stats.report_again(tally)
                raise

    async def _run(self) -> None:
        while True:
            await self._stats.has_news.wait()
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self.hand_in()
            except Fault as fault:
                log.debug("counts of admission could not be handed in: %s", fault)
                await asyncio.sleep(_TROUBLE_SECONDS)
            except Exception:
                log.exception("handing in counts of admission broke; it goes on in %.0f s", _TROUBLE_SECONDS)
                await asyncio.sleep(_TROUBLE_SECONDS)
