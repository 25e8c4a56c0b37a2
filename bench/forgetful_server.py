"""The same server with its kernel and its rules, on a store that keeps nothing.

Every request is authenticated, checked and decided as usual, by people and a policy that are held in memory and
against a job made for the occasion; what was decided is dropped. So the ratio to it tells the store's price alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bench import null_identity, serving
from bench.scene import opened, submit
from interlock.kernel.clock import utc_now
from interlock.kernel.record import Key, Reads, Record
from interlock.kernel.storage import Loaded, Transaction
from interlock.rooms.jobs.model import JOBS, Job
from interlock.service.service import Service
from interlock.service.settings import settings_from
from interlock.store.memory import MemoryStore


class Forgetful:
    """Finds what was there at first, and any job; keeps nothing."""

    lanes = 1

    def __init__(self, store: MemoryStore, job: Job) -> None:
        self._store = store
        self._job = job
        self._known: dict[Key, Record] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self) -> None:
        """There is nothing to open."""

    async def transact(self, transaction: Transaction) -> None:
        loaded = await self._load(transaction.reads)
        more = transaction.more(loaded)
        transaction.decide(await self._load(more) if more else None)

    async def _load(self, reads: Reads) -> Loaded:
        records = {key: await self._find(key) for key in (*reads.own, *reads.see)}
        picked: list[tuple[Any, Sequence[Record]]] = [(pick, []) for pick in reads.picks]
        return Loaded(utc_now(), records, picked, alone=True)

    async def _find(self, key: Key) -> Record | None:
        if key.kind is JOBS:
            return msgspec.structs.replace(self._job, id=key.id)
        if key not in self._known:
            found = await self._store.get(*key)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]


async def _serve(port: int) -> None:
    async with opened("memory:") as (first, bot, _):
        await first.kernel.run(null_identity.Introduce())
        job_id = await submit(first, bot, 0)
        job = await first.store.get(JOBS, "default", job_id)
        if not isinstance(first.store, MemoryStore) or job is None:
            raise SystemExit("the job that was just submitted is not there")
        service = Service(Forgetful(first.store, job), settings_from({}, store="memory:"))  # type: ignore[arg-type]
        service.kernel.start()
        await serving.serve(service, port)


if __name__ == "__main__":
    serving.main(_serve)
