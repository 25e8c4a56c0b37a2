"""Plans are made once, perhaps while a table is empty, and must stay good when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.record import Key, Kind
from interlock.kernel.world import Changes, Update
from interlock.store.catalogue import kinds, named_sql
from interlock.store.postgres import statements as sql
from interlock.store.postgres.driver import PostgresConnection, connect
from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import COUNTERS, TENANT, Counter

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


def loading(count: int) -> sql.Statement | sql.Writing:
    return sql.load(sql.grouped(keys(count), (), sql.Lock.WAIT))


def updating(count: int) -> sql.Statement | sql.Writing:
    after = [Counter(tenant=TENANT, id=key.id, version=2) for key in keys(count)]
    updates = tuple(Update(COUNTERS, record, 1) for record in after)
    return sql.write("batch_1", Changes((), updates, (), frozenset()), TYPES)


def deleting(count: int) -> sql.Statement | sql.Writing:
    deletes = tuple((key, 1) for key in keys(count))
    return sql.write("batch_1", Changes((), (), deletes, frozenset()), TYPES)


def test_a_statement_is_worded_alike_however_many_rows_it_is_about() -> None:
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
            asked = asking(count)
            await session.execute(f"PREPARE it AS {asked.sql}")
            values = ", ".join(["NULL"] * len(asked.values))
            plan = [row[0] for row in await session.fetch(f"EXPLAIN EXECUTE it({values})")]
        finally:
            session.terminate()
    found = [
        line for line in plan if "Index Cond" in line and "(id = 1)" not in line
    ]  # Besides the store's state.
    assert len(found) == 1, plan
    assert "tenant = " in found[0]
    assert "id = " in found[0]


@pytest.mark.parametrize("rows", [0, 400])
async def test_a_key_is_found_by_its_own_index_however_few_rows_there_were(
    postgres_place: PostgresPlace, rows: int
) -> None:
    async with serving(postgres_place.store()):
        session = await connect(postgres_place.url, 10)
        try:
            for kind in kinds().values():
                await _fill(session, kind, rows)
            # Entries are only ever added, and read by their numbers.
            looked_up = [kind for kind in kinds().values() if kind.table != "audit_entries"]
            used = {name for kind in looked_up for name in await _indexes_used(session, kind)}
            used -= {"store_state_pkey"}  # Every load reads the one row of it.
            unique = await session.fetch("SELECT indexrelid::regclass::text FROM pg_index WHERE indisunique")
        finally:
            session.terminate()
    assert len(used) == len(looked_up)
    assert used <= {row[0] for row in unique}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("jobs.due_jobs", "jobs_by_due"),
        ("effects.overdue_effects", "effects_overdue"),
        ("grants.open_grants", "grants_open"),
        ("grants.overdue_grants", "grants_overdue"),
        ("jobs.lost_jobs", "jobs_by_lease"),
        ("jobs.runnable_jobs", "jobs_runnable"),
        ("jobs.runnable_topics", "jobs_runnable"),
        ("jobs.unclaimed_jobs", "jobs_by_offer"),
        ("leases.exclusive_leases_under", "leases_live"),
        ("leases.leases_under", "leases_live"),
        ("leases.overdue_leases", "leases_overdue"),
        ("events.events_after", "events_by_tenant"),
        ("events.every_event_after", "events_by_position"),
        ("targets.jobs_waiting_on", "jobs_waiting_on_target"),
    ],
)
async def test_what_decisions_look_for_has_an_index_even_in_a_plan_for_an_empty_table(
    postgres_place: PostgresPlace, name: str, index: str
) -> None:
    async with serving(postgres_place.store()):
        session = await connect(postgres_place.url, 10)
        try:
            block = named_sql(name)
            assert await _indexes(session, block.postgres, len(block.parameters)) == {index}
        finally:
            session.terminate()


LATE_OR_RARE = {
    "admission.list_lost_runs": "runs_by_expiry",
    "admission.list_lost_runs_by_workflow": "runs_by_expiry",
    "jobs.list_expired_approvals": "jobs_by_due",
    "audit.list_entries_of_subject": "audit_by_subject",
    "conflicts.list_conflicts": "conflict_groups_by_conflict",
    "conflicts.list_open_conflicts_of_target": "conflicts_open_by_target",
    "effects.list_ambiguous_effects": "effects_overdue",
    "grants.list_grants_by_state": "grants_overdue",
    "grants.list_grants_by_task_and_state": "grants_overdue",
    "identity.list_keys": "principals_pkey",
    "conflicts.count_open_conflicts": "conflicts_open_by_target",
    "effects.count_ambiguous_effects": "effects_overdue",
    "jobs.count_dead_of_tenant": "jobs_dead",
    "jobs.count_requests": "jobs_to_decide",
    "jobs.due_requests": "jobs_by_due",
    "jobs.end_of_window_by_age": "jobs_awaiting",
    "jobs.end_of_window_by_urgency": "jobs_to_decide",
    "jobs.list_requests_by_age": "jobs_awaiting",
    "jobs.list_requests_by_urgency": "jobs_to_decide",
    "targets.count_jobs_waiting_on": "jobs_waiting_on_target",
    "jobs.latest_taken": "jobs_by_topic",
    "jobs.list_expired_jobs": "jobs_by_due",
    "jobs.list_expired_jobs_by_topic": "jobs_by_due",
    "leases.list_live_leases_by_resource": "leases_live",
    "leases.list_live_leases_by_resource_and_owner": "leases_live",
}


@pytest.mark.parametrize("rows", [0, 120, 400])
async def test_what_is_late_or_rare_is_not_looked_for_in_everything(
    postgres_place: PostgresPlace, rows: int
) -> None:
    async with serving(postgres_place.store()):
        session = await connect(postgres_place.url, 10)
        try:
            for kind in kinds().values():
                await _fill(session, kind, rows)
            blocks = {name: named_sql(name) for name in LATE_OR_RARE}
            used = {
                name: await _indexes(session, block.postgres, len(block.parameters))
                for name, block in blocks.items()
            }
        finally:
            session.terminate()
    assert not {name: used[name] for name, index in LATE_OR_RARE.items() if index not in used[name]}


async def _indexes_used(session: PostgresConnection, kind: Kind[Any]) -> set[str]:
    asked = sql.load(sql.grouped((kind.key(TENANT, "k1"),), (), sql.Lock.WAIT))
    return await _indexes(session, asked.sql, len(asked.values))


async def _indexes(session: PostgresConnection, statement: str, values: int) -> set[str]:
    await session.execute(f"PREPARE it AS {statement}")
    plan = await session.fetch(f"EXPLAIN EXECUTE it({', '.join(['NULL'] * values)})")
    await session.execute("DEALLOCATE it")
    lines = [row[0].split() for row in plan if "Index" in row[0] and " on " in row[0]]
    return {words[words.index("using" if "using" in words else "on") + 1] for words in lines}


async def _fill(session: PostgresConnection, kind: Kind[Any], rows: int) -> None:
    """Rows of one tenant that nobody has counted yet."""
    columns = await session.fetch(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1 AND "
        "is_identity = 'NO' AND is_generated = 'NEVER' AND column_default IS NULL AND is_nullable = 'NO'",
        kind.table,
    )
    values = {name: "n" if of_type == "bigint" else "'k' || n" for name, of_type in columns}
    values["tenant"] = f"'{TENANT}'"
    await session.execute(
        f"INSERT INTO {kind.table} ({', '.join(values)}) "
        f"SELECT {', '.join(values.values())} FROM generate_series(1, {rows}) AS n"
    )
