"""Memory: records in a dictionary, for tests and simulation, and for `--store memory:`.

Decisions use the dictionary alone. Queries for people are SQL, so a private in-memory SQLite database
mirrors committed records and answers those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import apsw

from interlock.kernel.record import Key, Kind, Params, Reads, Record, from_micros
from interlock.kernel.storage import Loaded, Transaction, WriteConflict
from interlock.kernel.world import Changes
from interlock.store import statements
from interlock.store.contract import Row
from interlock.store.migrations import migrations
from interlock.store.named_sql import named_sql
from interlock.store.sqlite import Clock, utc_now

R = TypeVar("R", bound=Record)


class MemoryStore:
    """Records in this process, gone when it ends."""

    lanes = 1

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._last_now = from_micros(0)
        self._bodies: dict[Key, bytes] = {}
        self._batches: set[str] = set()
        self._mirror = apsw.Connection(":memory:")

    async def open(self) -> None:
        for migration in migrations("sqlite"):
            self._mirror.execute(migration.sql)

    async def close(self) -> None:
        self._mirror.close()

    async def transact(self, transaction: Transaction) -> None:
        self._last_now = max(self._clock(), self._last_now)
        loaded = self._load(transaction.reads)
        more = transaction.more(loaded)
        if more:
            again = self._load(more)
            loaded = Loaded(loaded.now, {**loaded.records, **again.records}, (*loaded.picked, *again.picked))
        self._write(transaction.batch_id, transaction.decide(loaded))

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        return batch_id in self._batches

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        return self._record(Key(kind, tenant, record_id))

    async def query(self, name: str, params: Params) -> list[Row]:
        return list(self._mirror.execute(named_sql(name).sql, dict(params)).fetchall())

    async def listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        """Nobody else can reach this store, so there is nothing to hear."""

    async def ping(self, within_seconds: float) -> None:
        """Memory always answers."""

    def now(self) -> datetime:
        return self._last_now

    def _load(self, reads: Reads) -> Loaded:
        records = {key: self._record(key) for key in (*reads.own, *reads.see)}
        picked: list[tuple[Any, Sequence[Record]]] = []
        for pick in reads.picks:
            candidates = (self._record(key) for key in list(self._bodies) if key.kind is pick.kind)
            found = [record for record in candidates if record and pick.matches(record, self._last_now)]
            found.sort(key=pick.sort_key)
            picked.append((pick, found[: pick.limit]))
        return Loaded(self._last_now, records, picked)

    def _record(self, key: Key) -> Any:
        body = self._bodies.get(key)
        return None if body is None else key.kind.decode(body)

    def _write(self, batch_id: str, changes: Changes) -> None:
        for kind, record in changes.inserts:
            if kind.key_of(record) in self._bodies:
                raise WriteConflict(f"{kind.name} {record.id} exists")
        for kind, record in changes.inserts:
            self._bodies[kind.key_of(record)] = kind.encode(record)
            self._mirror.execute(statements.insert_one(kind), statements.row(kind, record))
        for update in changes.updates:
            self._bodies[update.kind.key_of(update.record)] = update.kind.encode(update.record)
            row = statements.row(update.kind, update.record)
            self._mirror.execute(statements.update_one(update.kind), (*row, update.version_before))
        for key, version in changes.deletes:
            del self._bodies[key]
            self._mirror.execute(statements.delete_one(key.kind), (key.tenant, key.id, version))
        if changes:
            self._batches.add(batch_id)
