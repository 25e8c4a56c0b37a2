"""The statements of a claim in its transaction, with nothing decided: the most that a commit for each claim allows.

The rows that are written are copies of those that a claim has written to the store before.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Any

from interlock.kernel.ids import new_id
from interlock.kernel.record import Kind
from interlock.rooms.audit.model import AUDIT
from interlock.rooms.events.model import EVENTS
from interlock.rooms.grants.model import GRANT_TERMS, GRANT_USES, GRANTS
from interlock.rooms.identity.model import PRINCIPALS
from interlock.service.local_kernel import TENANT, local_user
from interlock.store import statements
from interlock.store.catalogue import named_sql
from interlock.store.sqlite.driver import connect_durably
from interlock.store.sqlite.store import WriteLock

_NEWEST = "SELECT at FROM batches ORDER BY seq DESC LIMIT 1"
_BATCH = "INSERT INTO batches (id, at, abandoned) VALUES (?, ?, 0)"
_ACQUIRE_SECONDS = 2.0
_PICKED = 8


class BareClaim:
    """One process's way to the file, as `interlock exec` has it."""

    def __init__(self, path: Path, task: str) -> None:
        self._database = connect_durably(path)
        self._lock = WriteLock(self._database, path)
        self._loop = asyncio.new_event_loop()
        self._cursor = self._database.cursor()
        self._task = task
        self._person = f"local:{local_user()}"
        self._entry = self._written(AUDIT, "action = 'grant_claim'")
        self._event = self._written(EVENTS, "type = 'grant.claimed'")
        self._use = self._written(GRANT_USES, "tenant IS NOT NULL")

    def claim(self) -> bool:
        """Read what a claim reads and write what it writes; False if no grant is left."""
        self._loop.run_until_complete(self._lock.acquire(_ACQUIRE_SECONDS))
        use_id = hashlib.sha256(new_id("exec").encode()).hexdigest()
        grant_body = self._read(use_id)
        if grant_body is None:
            return False
        self._write(use_id, *grant_body)
        self._cursor.execute("COMMIT")
        return True

    def _read(self, use_id: str) -> tuple[str, str] | None:
        execute = self._cursor.execute
        _ = execute(_NEWEST).get
        seen = ((GRANT_USES, use_id), (PRINCIPALS, self._person), (GRANT_TERMS, "terms"))
        for kind, record_id in seen:
            _ = execute(statements.select_one(kind), (TENANT, record_id)).get
        block = named_sql("grants.open_grants")
        now = time.time_ns() // 1000
        params = {
            "tenant": TENANT,
            "task": self._task,
            "standing": 0,
            "after_at": 0,
            "after_id": "",
            "now": now,
        }
        found = execute(block.sqlite, block.arguments({**params, "limit": _PICKED})).fetchall()
        if not found:
            return None
        body = found[0][0]
        return body.split('"id":"', 1)[1].split('"', 1)[0], body

    def _write(self, use_id: str, grant_id: str, grant_body: str) -> None:
        execute = self._cursor.execute
        execute(_BATCH, (new_id("batch"), time.time_ns() // 1000))
        execute(statements.insert_one(AUDIT), _again(self._entry, new_id("aud")))
        execute(statements.insert_one(EVENTS), _again(self._event, new_id("evt")))
        execute(statements.insert_one(GRANT_USES), _again(self._use, use_id))
        spent = (TENANT, grant_id, 2, grant_body, "spent", None, 1)
        execute(statements.update_some(GRANTS, ("state", "open_until")), spent)

    def _written(self, kind: Kind[Any], which: str) -> tuple[Any, ...]:
        names = ", ".join(statements.columns(kind))
        rows = self._database.execute(f"SELECT {names} FROM {kind.table} WHERE {which} LIMIT 1").fetchall()
        return rows[0]


def _again(row: tuple[Any, ...], record_id: str) -> tuple[Any, ...]:
    tenant, before, version, body, *columns = row
    return (tenant, record_id, version, body.replace(before, record_id), *columns)
