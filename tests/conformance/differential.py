"""Drives the same commands into memory, SQLite and PostgreSQL and tells every difference.

A room joins by adding a strategy that makes its commands to `COMMANDS`. Commands are drawn from small
vocabularies, so that they collide. What stores may differ in is named here and nowhere else: moments in
time, and numbers that only order rows.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from interlock.kernel.idempotency import Once, Rendered
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.record import Kind
from interlock.kernel.storage import Store
from interlock.kernel.world import Command
from interlock.rooms.identity.model import Caller, PrincipalKind, Role
from interlock.rooms.identity.principals import IssueKey, RevokeKey, SetPrincipal
from interlock.store.catalogue import kinds
from interlock.store.statements import KeptImmutables
from tests.conformance import effect_commands, lease_commands
from tests.harness.store_places import Place, counted_ids
from tests.kernel import counter_room as room

Commands = st.SearchStrategy[Command[Any]]

_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"  # a moment
    r"|\bin \d+\.\d s\b"  # how long until one
    r"|\b1\d{15}\b"  # one in microseconds: a fence of a lease
)
_MICROSECONDS_MIN = 10**15
_TEST_KINDS = (room.COUNTERS, room.NOTES, room.CHORES)

names = st.sampled_from(["a", "b", "c", "ü", "Z"])


# Commands, one strategy a room.


def counters() -> Commands:
    small = st.integers(0, 3)
    return st.one_of(
        st.builds(room.Raise, name=names, by=small, limit=st.none() | st.integers(0, 5)),
        st.builds(room.Look, name=names),
        st.builds(room.Point, name=names, at=names),
        st.builds(room.Follow, name=names),
        st.builds(room.Drop, name=names),
        st.builds(room.Swap, first=names, second=names),
    )


def chores() -> Commands:
    long_ago = st.integers(1, 20)
    far_off = st.integers(2**52, 2**52 + 20)
    return st.one_of(
        st.builds(room.Plan, name=st.sampled_from("pqrstu"), due=long_ago | far_off),
        st.builds(room.PlanFresh, due=long_ago | far_off),
        st.builds(room.Take, who=names, most=st.integers(1, 4)),
        st.builds(room.CountDue, most=st.integers(1, 6)),
    )


def identity() -> Commands:
    people = st.sampled_from(["ann", "bob", "bot"])
    key_ids = st.sampled_from(["k1", "k2", "k3"])
    roles = st.lists(st.sampled_from(Role), max_size=3, unique=True).map(tuple)
    groups = st.none() | st.lists(st.sampled_from(["red", "blue"]), max_size=2, unique=True).map(tuple)
    callers = st.none() | st.builds(
        Caller,
        tenant=st.just("t"),
        principal=people,
        key_id=key_ids,
        key_digest=st.sampled_from(["d1", "d2"]),
    )
    return st.one_of(
        st.builds(
            IssueKey,
            tenant=st.just("t"),
            name=people,
            kind=st.sampled_from(PrincipalKind),
            roles=roles,
            groups=groups,
            key_id=key_ids,
            digest=st.sampled_from(["d1", "d2"]),
            by=callers,
        ),
        st.builds(RevokeKey, tenant=st.just("t"), key_id=key_ids, principal=people, by=callers),
        st.builds(SetPrincipal, tenant=st.just("t"), name=people, roles=roles, groups=groups, by=callers),
    )


def rendered(result: Any) -> Rendered:
    return Rendered(200, msgspec.json.encode(result))


def once(inner: Command[Any], key: str, tenant: str, digest: str) -> Command[Any]:
    return Once(
        inner=inner,
        tenant=tenant,
        answer_id=key,
        request_digest=digest,
        keep_for=timedelta(days=1),
        render=rendered,
    )


def idempotent(inner: Commands) -> Commands:
    few = st.sampled_from(["k1", "k2", "k3"])
    return st.builds(once, inner, few, st.sampled_from(["t", "other"]), st.sampled_from(["d", "e"]))


SHARED_WORK: list[Commands] = [
    effect_commands.effects(),
    effect_commands.targets(),
    effect_commands.conflicts(),
    lease_commands.leases(),
    lease_commands.grants(),
    lease_commands.effects_under_both(),
]
COMMANDS: list[Commands] = [counters(), chores(), identity(), effect_commands.people(), *SHARED_WORK]


def bursts(commands: list[Commands] = COMMANDS) -> st.SearchStrategy[list[list[Command[Any]]]]:
    """Lists of commands that arrive together, one list after another."""
    any_command = st.one_of(*commands)
    return st.lists(st.lists(any_command | idempotent(any_command), min_size=1, max_size=12), max_size=8)


def shared_bursts() -> st.SearchStrategy[list[list[Command[Any]]]]:
    """The same about shared work alone, by people who are known."""
    return bursts(SHARED_WORK).map(lambda rounds: [effect_commands.everybody(), *rounds])


# Playing them.


class Contestant:
    """One store that plays; emptied before each round."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._store: Store = place.store()

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()
        await self._place.close()

    async def play(self, rounds: Iterable[Sequence[Command[Any]]]) -> tuple[list[list[Any]], dict[str, Any]]:
        """What each command came to, burst by burst, and what is stored in the end."""
        await self._empty()
        kernel = Kernel(self._store, new_id=counted_ids(), limits=KernelLimits(acquire_seconds=20))
        kernel.start()
        try:
            outcomes = [await self._burst(kernel, commands) for commands in rounds]
        finally:
            await kernel.close()
        return outcomes, await self._dump()

    async def _burst(self, kernel: Kernel, commands: Sequence[Command[Any]]) -> list[Any]:
        calls = (kernel.run(command) for command in commands)
        return [plain(outcome) for outcome in await asyncio.gather(*calls, return_exceptions=True)]

    async def _empty(self) -> None:
        if type(self._store).__name__ == "MemoryStore":
            await self._store.close()
            self._store = self._place.store()
            await self._store.open()
            return
        for table in (*_tables(), "batches"):
            if await self._place.rows(f"SELECT 1 FROM {table} LIMIT 1"):
                await self._place.rows(f"DELETE FROM {table}")
        self._store._batches._kept = KeptImmutables()  # type: ignore[attr-defined]

    async def _dump(self) -> dict[str, Any]:
        dump: dict[str, Any] = {}
        for table, columns in _tables().items():
            # By tenant first: the notes of the test room share a table with events, and PostgreSQL writes
            # a batch kind by kind, so the order between the two is nobody's promise.
            order = "tenant, seq" if table in ("events", "audit_entries") else "tenant, id"
            listed = ", ".join(("tenant", "id", "version", "body", *columns))
            rows = await self._place.rows(f"SELECT {listed} FROM {table} ORDER BY {order}")
            dump[table] = [(*row[:3], plain(msgspec.json.decode(row[3])), *row[4:]) for row in rows]
        return dump


def plain(value: Any) -> Any:
    """A value in which only what may not differ is left."""
    if isinstance(value, BaseException):
        return type(value).__name__, plain(str(value))
    if isinstance(value, Rendered):
        return value.status, plain(value.body.decode()), value.replayed
    if isinstance(value, str):
        return _MOMENT.sub("<moment>", value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, int) and value >= _MICROSECONDS_MIN:
        return "<moment>"
    if isinstance(value, int | float | None):
        return value
    return plain(msgspec.json.decode(msgspec.json.encode(value)))


def _tables() -> dict[str, list[str]]:
    """Every table with its columns, except those that hold moments."""
    tables: dict[str, list[str]] = {}
    every: list[Kind[Any]] = [*kinds().values(), *_TEST_KINDS]
    for kind in every:
        timeless = [
            column for column in kind.columns if column != "at" and not column.endswith(("_at", "_until"))
        ]
        known = tables.setdefault(kind.table, timeless)
        tables[kind.table] = [column for column in known if column in timeless]
    return tables
