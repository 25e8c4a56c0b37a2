"""No list goes through what it does not show: on SQLite the work of its query does not grow with the rest of the table.

The work is counted in steps of SQLite's virtual machine, which are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import apsw
import pytest

from interlock.store.catalogue import all_names, migrations, named_sql
from interlock.store.sqlite.driver import connect

FEW, MANY = 500, 4000
STEPS_A_TICK = 10
LATER = "1000000000000000 + n"
# What fills the tables, none of it what the queries below ask for: what is over, and what is under way.
OVER: Mapping[str, Mapping[str, str]] = {
    "jobs": {"state": "'SUCCEEDED'", "topic": "'common'"},
    "grants": {"state": "'spent'", "task": "'deploy'", "standing": "0"},
    "grant_uses": {"grant_id": "'g' || n"},
    "signers": {},
    "runs": {"state": "'completed'", "workflow": "'nightly'"},
    "effects": {"state": "'COMMITTED'"},
    "leases": {"resource": "'r' || n", "owner": "'bot'"},
    "lease_nodes": {"waiting": "0"},
    "lease_checkpoints": {"lease": "'l' || n"},
    "conflicts": {"state": "'resolved'", "kind": "'stale'"},
    "conflict_groups": {"conflict_id": "'c' || n"},
    "audit_entries": {"subject": "'s' || n", "actor": "'bot'", "action": "'submit'"},
    "deliveries": {"webhook": "'hook'", "state": "'delivered'"},
    "events": {},
    "targets": {},
}
LIVE: Mapping[str, Mapping[str, str]] = {
    "jobs": {
        "state": "'APPROVAL'",
        "topic": "'elsewhere'",
        "approval_state": "'pending'",
        "due_at": LATER,
        "target": "'t' || n",
        "decide_by": LATER,
        "deciders": "'|finance|'",
    },
    "grants": {"state": "'open'", "task": "'t' || n", "standing": "0", "open_until": LATER},
    "runs": {"state": "'running'", "workflow": "'elsewhere'", "slot_expires_at": LATER},
    "effects": {"state": "'IN_PROGRESS'", "overdue_at": LATER},
    "leases": {"resource": "'x' || n", "owner": "'x' || n", "live_until": LATER},
    "conflicts": {"state": "'open'", "kind": "'other'", "target": "'x' || n"},
    "conflict_groups": {"conflict_id": "'c' || n"},
    "deliveries": {"webhook": "'elsewhere'", "state": "'dead'"},
}
DELAYED: Mapping[str, Mapping[str, str]] = {
    "jobs": {"state": "'PENDING'", "topic": "'common'", "rank": "n % 4", "runnable_at": LATER}
}
FILLINGS = {"over": OVER, "live": LIVE, "delayed": DELAYED}
ASKED: Mapping[str, Any] = {
    "tenant": "default",
    "before": "~",
    "before_at": 2**62,
    "before_id": "~",
    "after": "",
    "after_at": 0,
    "after_id": "",
    "window": 100,
    "limit": 51,
    "now": 1,
    "topic": "common",
    "task": "deploy",
    "workflow": "nightly",
    "kind": "stale",
    "owner": "bot",
    "resource": "r1",
    "target": "t",
    "low": "x",
    "high": "y",
    "webhook": "hook",
    "subject": "s1",
    "actor": None,
    "action": None,
}
RARE_STATE = {
    "jobs": "FAILED",
    "grants": "open",
    "admission": "running",
    "effects": "FAILED",
    "conflicts": "open",
    "approvals": "pending",
    "relays": "dead",
}
COUNTS = [
    "conflicts.count_open_conflicts",
    "effects.count_ambiguous_effects",
    "jobs.count_dead_of_tenant",
    "jobs.count_requests",
    "jobs.due_requests",
    "jobs.end_of_window_by_age",
    "jobs.end_of_window_by_urgency",
    "targets.count_jobs_waiting_on",
]
LISTS = [*(name for name in all_names() if ".list_" in name), "conflicts.group_of_conflict", *COUNTS]
# The caller says how far this one goes.
BOUNDED = {"audit.list_entries_between"}
# Of two filters one has an index, that of the state: they go through what is in that state.
BY_STATE = {
    "conflicts.list_conflicts_by_state_and_kind",
    "admission.list_runs_by_state_and_workflow",
    "grants.list_grants_by_task_and_state",
}


@pytest.mark.parametrize("name", [name for name in LISTS if name not in BOUNDED])
@pytest.mark.parametrize("tenant", ["default", "another"])
def test_a_list_costs_the_same_however_much_is_over(name: str, tenant: str) -> None:
    few, many = (_steps(_database("over", rows, tenant), name) for rows in (FEW, MANY))
    assert many <= 1.5 * few + 500, f"{few} steps beside {FEW} rows, {many} beside {MANY}"


@pytest.mark.parametrize("name", [name for name in LISTS if name not in BOUNDED | BY_STATE])
def test_a_list_costs_the_same_however_much_is_under_way(name: str) -> None:
    few, many = (_steps(_database("live", rows, "default"), name) for rows in (FEW, MANY))
    assert many <= 1.5 * few + 500, f"{few} steps beside {FEW} rows, {many} beside {MANY}"


@pytest.mark.parametrize("name", ["grants.list_grants_by_state", "grants.list_grants_by_task_and_state"])
def test_expired_grants_cost_the_same_however_many_are_open(name: str) -> None:
    few, many = (_steps(_database("live", rows, "default"), name, state="expired") for rows in (FEW, MANY))
    assert many <= 1.5 * few + 500, f"{few} steps beside {FEW} rows, {many} beside {MANY}"


@pytest.mark.parametrize("name", ["jobs.runnable_jobs", "jobs.runnable_topics"])
def test_a_claim_costs_the_same_however_many_jobs_wait_for_their_time(name: str) -> None:
    few, many = (_steps(_database("delayed", rows, "default"), name) for rows in (FEW, MANY))
    assert many <= 1.5 * few + 500, f"{few} steps beside {FEW} rows, {many} beside {MANY}"


@pytest.mark.parametrize("name", ["grants.open_grants", "jobs.runnable_jobs", "events.every_event_after"])
def test_a_statement_is_not_planned_again_for_other_values(name: str) -> None:
    database = _database("over", FEW, "default")
    looks = 0

    def asked(*_: Any) -> int:
        """SQLite asks for leave as it makes a plan, and only then."""
        nonlocal looks
        looks += 1
        return apsw.SQLITE_OK

    database.set_authorizer(asked)
    _steps(database, name)
    at_first, looks = looks, 0
    _steps(database, name)
    database.set_authorizer(None)
    assert (at_first > 0, looks) == (True, 0), "that takes several times as long as to run it"


def test_whatever_has_statistics_has_them_for_all_its_indexes() -> None:
    database = _database("over", 0, "default")
    told = {(table, index) for table, index in database.execute("SELECT tbl, idx FROM sqlite_stat1")}
    for table in {table for table, _ in told}:
        (made,) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
        indexes = {
            table if origin == "pk" and "WITHOUT ROWID" in made[0] else index
            for _, index, _, origin, _ in database.execute(f"PRAGMA index_list({table})")
        }
        assert {index for other, index in told if other == table} == indexes, table


@cache
def _database(what: str, rows: int, tenant: str) -> Any:
    database: Any = connect(":memory:")
    for migration in migrations("sqlite"):
        database.execute(migration.sql)
    for table, given in FILLINGS[what].items():
        columns = {
            name: given.get(name) or _filler(name, tenant, kind, needed)
            for _, name, kind, needed, _, _ in database.execute(f"PRAGMA table_info({table})").fetchall()
            if not (name in ("seq", "position") and table in ("audit_entries", "events"))
        }
        database.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) "
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) "
            f"SELECT {', '.join(columns.values())} FROM numbers WHERE ? > 0",
            (rows, rows),
        )
    return database


def _filler(name: str, tenant: str, kind: str, needed: int) -> str:
    if name == "tenant":
        return f"'{tenant}'"
    if name in ("id", "uid"):
        return "printf('k_%08d', n)"
    if not needed:
        return "NULL"
    return "n" if kind == "INTEGER" else "'{}'"


def _steps(database: Any, name: str, state: str | None = None) -> int:
    block = named_sql(name)
    asked = {
        **ASKED,
        "state": state or RARE_STATE.get(name.partition(".")[0]),
        "conflict_id": "c1",
        "grant_id": "g1",
    }
    if name.endswith("_by_age"):
        asked["after_id"] = "~"
    if "seq <" in block.sqlite or "seq DESC" in block.sqlite:
        asked["before"] = 2**62
    if "position >" in block.sqlite:
        asked["after"] = 0
    ticks = 0

    def tick() -> bool:
        nonlocal ticks
        ticks += 1
        return False

    database.set_progress_handler(tick, STEPS_A_TICK)
    values = tuple(asked.get(parameter, 1) for parameter in block.parameters)
    database.execute(block.sqlite, values).fetchall()
    database.set_progress_handler(None)
    return ticks * STEPS_A_TICK
