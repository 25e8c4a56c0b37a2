"""Plans are made once, perhaps while a table is empty, and must stay good when it is not."""

from __future__ import annotations

import pytest

from interlock.kernel.record import Key
from interlock.kernel.world import Changes, Update
from interlock.store import postgres_sql as sql
from interlock.store.postgres_driver import connect
from interlock.store.postgres_pipeline import Asked
from tests.conformance.places import PostgresPlace, serving
from tests.kernel.counters import COUNTERS, TENANT, Counter

TYPES = {
    ("principals", name): kind
    for name, kind in {
        "tenant": "text",
        "id": "text",
        "version": "bigint",
        "body": "text",
        "kind": "text",
    }.items()
}


def keys(count: int) -> list[Key]:
    return [COUNTERS.key(TENANT, f"c{n}") for n in range(count)]


def loading(count: int) -> Asked:
    return sql.load(sql.grouped(keys(count), (), sql.Lock.WAIT))


def updating(count: int) -> Asked:
    after = [Counter(tenant=TENANT, id=key.id, version=2) for key in keys(count)]
    updates = tuple(Update(COUNTERS, record, 1) for record in after)
    return sql.write("batch_1", Changes((), updates, (), frozenset()), TYPES)


def deleting(count: int) -> Asked:
    deletes = tuple((key, 1) for key in keys(count))
    return sql.write("batch_1", Changes((), (), deletes, frozenset()), TYPES)


def test_a_server_comes_to_know_a_bounded_number_of_wordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_WORDINGS_MAX", 0)
    assert updating(1).sql == updating(3).sql
    assert deleting(1).sql == deleting(3).sql
    assert loading(1).sql == loading(3).sql


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("asking", [loading, updating, deleting])
async def test_rows_are_found_by_their_whole_key_even_by_a_plan_for_an_empty_table(
    postgres_place: PostgresPlace, asking, count: int
) -> None:
    async with serving(postgres_place.store()):
        session = await connect(postgres_place.url, 10)
        try:
            asked: Asked = asking(count)
            await session.execute(f"PREPARE it AS {asked.sql}")
            values = ", ".join("NULL" if value is None else f"E'{_text(value)}'" for value in asked.values)
            plan = [row[0] for row in await session.fetch(f"EXPLAIN EXECUTE it({values})")]
        finally:
            session.terminate()
    found = [line for line in plan if "Index Cond" in line]
    assert len(found) == 1, plan
    assert "tenant = " in found[0]
    assert "id = " in found[0]


def _text(value: str | bytes) -> str:
    text = value.decode() if isinstance(value, bytes) else value
    return "".join(f"\\x{ord(sign):02x}" if sign < " " else sign for sign in text)
