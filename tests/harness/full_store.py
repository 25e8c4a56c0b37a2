"""A store with a long history, for pages that list it: copies of what is in a SQLite file, under ids of their own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from interlock.api.assembly import assemble, facts_of
from interlock.console.app import Console
from interlock.kernel.storage import Store
from interlock.service import sessions
from interlock.service.logs import Log
from interlock.service.service import Service
from interlock.service.settings import settings_from
from interlock.store.sqlite.driver import Database, connect
from interlock.wire.http import Request, Response

# What lists show. Each row is copied, whatever state it is in.
TABLES = (
    "jobs", "audit_entries", "events", "principals", "api_keys", "sessions", "conflicts", "effects",
    "grants", "grant_uses", "leases", "lease_checkpoints", "runs", "run_progress", "workflows", "targets",
    "deliveries", "policy_snapshots",
)  # fmt: skip
# The store gives these: the order in which rows came.
_NUMBERS = {
    "audit_entries": "seq",
    "events": "position",
    "api_keys": "created_seq",
    "policy_snapshots": "seq",
}

Get = Callable[[str], Awaitable[Response]]


def multiply(path: Path, rows_at_least: int) -> dict[str, int]:
    """Copy the rows of every table until it has so many; returns how many each has. A table without any stays so."""
    database = connect(str(path))
    counts: dict[str, int] = {}
    for table in TABLES:
        ((had,),) = database.execute(f"SELECT count(*) FROM {table}").fetchall()
        if had:
            times = max(1, rows_at_least // had)
            database.execute(_copies(database, table), {"times": times}).fetchall()
        counts[table] = had and had * (times + 1)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.close()
    return counts


def _copies(database: Database, table: str) -> str:
    """The statement that copies every row so many times, each time with a number at the end of its id."""
    given = {
        "id": "r.id || '-' || s.n",
        "body": "replace(r.body, '\"' || r.id || '\"', '\"' || r.id || '-' || s.n || '\"')",
        "uid": "r.uid || '-' || s.n",
    }
    listed = [
        str(name)
        for _, name, *_ in database.execute(f"PRAGMA table_info({table})").fetchall()
        if name != _NUMBERS.get(table)
    ]
    chosen = ", ".join(given.get(name, f"r.{name}") for name in listed)
    return (
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :times) "
        f"INSERT INTO {table} ({', '.join(listed)}) SELECT {chosen} FROM {table} r CROSS JOIN s"
    )


@contextlib.asynccontextmanager
async def pages_of(store: Store, key: str) -> AsyncGenerator[Get]:
    """The console in this process: `await get("/console/jobs?state=FAILED")`, as the person who has `key`."""
    service = Service(store, settings_from({}))
    await service.open(sweeping=False)
    try:
        log = Log(level="error")
        app = assemble(service, log)
        console = Console(service, app.respond, facts_of(app.operations), log)
        token = (await sessions.open_with_key(service, key)).token

        async def get(address: str) -> Response:
            path, _, query = address.partition("?")
            headers = {"cookie": f"interlock={token}", "accept": "text/html"}
            return await console.respond(Request(method="GET", path=path, query=query, headers=headers))

        yield get
    finally:
        await service.close()
