"""The memory store: records in a dictionary, for tests, simulation and `--store memory:`.

Decisions use only the dictionary. List queries are SQL, so a private in-memory SQLite database mirrors committed
records and answers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from interlock.kernel.clock import Clock, utc_now
from interlock.kernel.idempotency import KEPT_ANSWERS
from interlock.kernel.pages import limited, readable, report
from interlock.kernel.record import Key, Kind, Params, Pick, Reads, Record, from_micros, micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Loaded, Row, Transaction, WriteConflict, count_within
from interlock.kernel.store_state import FRESH, StoreState, raised_floor
from interlock.kernel.world import Changes
from interlock.store import statements
from interlock.store.catalogue import migrations, named_sql
from interlock.store.sqlite.batch import rows_of
from interlock.store.sqlite.driver import connect, is_taken, roll_back

R = TypeVar("R", bound=Record)


class MemoryStore:
    """Records in this process, gone when it ends."""

    lanes = 1

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._last_now = from_micros(0)
        self._state = FRESH
        self._bodies: dict[Key, bytes] = {}
        self._batches: dict[str, datetime] = {}
        self._abandoned: set[str] = set()
        self._mirror = connect(":memory:")

    async def open(self) -> None:
        for migration in migrations("sqlite"):
            self._mirror.execute(migration.sql)

    async def close(self) -> None:
        self._mirror.close()

    async def transact(self, transaction: Transaction) -> None:
        # A batch takes a moment on any store; let callers that are ready join the next one.
        await asyncio.sleep(0)
        self._last_now = max(self._clock(), self._last_now)
        more = transaction.more(self._load(transaction.reads))
        changes = transaction.decide(self._load(more) if more else None)
        if changes:
            self._write(transaction.batch_id, changes)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        if batch_id not in self._batches:
            self._abandoned.add(batch_id)
        return batch_id in self._batches

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        return self._record(Key(kind, tenant, record_id))

    async def query(self, name: str, params: Params, *, bytes_max: int | None = None) -> list[Row]:
        return rows_of(self._mirror, named_sql(name), params, bytes_max)

    async def glance(self, name: str, params: Params) -> list[Row]:
        return await self.query(name, params)

    async def listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        """No other process can reach this store, so there is nothing to hear."""

    async def ping(self, within_seconds: float) -> None:
        """Memory always answers."""

    async def prune(self, *, rows_max: int = statements.PRUNED_MAX) -> int:
        self._last_now = max(self._clock(), self._last_now)
        limits = statements.prune_params(micros(self._last_now), rows_max)
        before = from_micros(int(limits["before"] or 0))
        old = [batch for batch, at in list(self._batches.items())[:-1][:rows_max] if at < before]
        for batch in old:
            del self._batches[batch]
        expired = self._mirror.execute(
            "SELECT tenant, id FROM answers WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
            (limits["now"], rows_max),
        ).fetchall()
        block = named_sql("store.prune_answers")
        self._mirror.execute(block.sqlite, block.arguments(limits))
        for tenant, answer_id in expired:
            del self._bodies[KEPT_ANSWERS.key(tenant, answer_id)]
        return len(old) + len(expired)

    async def raise_epoch(self, why: str) -> StoreState:
        self._last_now = max(self._clock(), self._last_now)
        floor = raised_floor(self._state.fence_floor, micros(self._last_now))
        self._state = msgspec.structs.replace(
            self._state,
            epoch=self._state.epoch + 1,
            fence_floor=floor,
            raised_at=self._last_now,
            raised_why=why,
        )
        return self._state

    def _load(self, reads: Reads) -> Loaded:
        records: dict[Key, Record | None] = {}
        unreadable: list[Key] = []
        for key in (*reads.own, *reads.see):
            try:
                records[key] = self._record(key)
            except Unreadable as error:
                report(error)
                unreadable.append(key)
        picked: list[tuple[Any, Sequence[Record]]] = []
        for pick in reads.picks:
            bodies = (body for key, body in self._bodies.items() if key.kind is pick.kind)
            candidates = readable(pick.kind, bodies)
            found = [record for record in candidates if pick.matches(record, self._last_now)]
            found.sort(key=pick.sort_key)
            picked.append(_within_bytes(pick, found[: pick.limit]))
        return Loaded(self._last_now, records, picked, unreadable=frozenset(unreadable), state=self._state)

    def _record(self, key: Key) -> Any:
        body = self._bodies.get(key)
        return None if body is None else key.kind.decode_as(key, body)

    def _write(self, batch_id: str, changes: Changes) -> None:
        self._expect(batch_id in self._abandoned or batch_id in self._batches, found=False)
        after: dict[Key, bytes | None] = {}
        self._mirror.execute("BEGIN")
        try:
            for kind, record in changes.inserts:
                key = kind.key_of(record)
                self._expect(key in after or key in self._bodies, found=False)
                after[key] = kind.encode(record)
                self._mirror.execute(statements.insert_one(kind), kind.row(record))
            for update in changes.updates:
                after[update.kind.key_of(update.record)] = update.kind.encode(update.record)
                row = update.kind.row(update.record)
                self._mirror.execute(statements.update_one(update.kind), (*row, update.version_before))
                self._expect(self._mirror.changes() == 1, found=True)
            for key, version in changes.deletes:
                after[key] = None
                self._mirror.execute(statements.delete_one(key.kind), (key.tenant, key.id, version))
                self._expect(self._mirror.changes() == 1, found=True)
        except BaseException as error:
            roll_back(self._mirror)
            if is_taken(error):
                raise WriteConflict(str(error)) from error
            raise
        self._mirror.execute("COMMIT")
        self._batches[batch_id] = self._last_now
        self._keep(after)

    def _keep(self, after: dict[Key, bytes | None]) -> None:
        for key, body in after.items():
            if body is None:
                del self._bodies[key]
            else:
                self._bodies[key] = body

    def _expect(self, holds: bool, *, found: bool) -> None:
        if holds is not found:
            raise WriteConflict("a record changed under its owner" if found else "a key exists already")


def _within_bytes(pick: Pick[R], found: Sequence[R]) -> tuple[Pick[R], Sequence[R]]:
    """As many as a durable store would have loaded."""
    if pick.bytes_max is None:
        return pick, found
    fitting = count_within([len(pick.kind.encode(record)) for record in found], pick.bytes_max)
    return (limited(pick, fitting) if fitting < len(found) else pick), found[:fitting]
