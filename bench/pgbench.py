"""PostgreSQL's own benchmark program, with statements to hold the kernel against."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.scene import approve, opened, submit
from tests.harness.postgres import PostgresServer

ROWS = 3000

# Every client has rows of its own, as every caller of the kernel has: no caller waits for another.
_CHOOSE = """
\\set n :client_id * {share} + random(1, {share})
"""

_BARE = """
UPDATE bare SET state = 'PENDING', body = repeat('y', 900) WHERE id = :n;
"""

# What one approval writes: the job with its new state in every index, its audit entry, its event. The state
# goes to and fro, because a run has more commits than rows.
_WRITES = """
job AS (
  UPDATE jobs SET
    version = version + 1, body = repeat('y', 1290),
    state = CASE state WHEN 'PENDING' THEN 'APPROVAL' ELSE 'PENDING' END,
    approval_state = CASE state WHEN 'PENDING' THEN 'pending' ELSE 'approved' END,
    due_at = CASE state WHEN 'PENDING' THEN :n::bigint END,
    runnable_at = CASE state WHEN 'APPROVAL' THEN :n::bigint END,
    offer_again_at = CASE state WHEN 'APPROVAL' THEN :n::bigint END
  WHERE tenant = 'default' AND id = 'job_' || :n::text{still} RETURNING id
), entry AS (
  INSERT INTO audit_entries (tenant, id, version, body, at, actor, action, subject)
  SELECT 'default', gen_random_uuid()::text, 1, repeat('y', 400), 1, 'ann', 'approve', id FROM job
), event AS (
  INSERT INTO events (tenant, id, version, body, at, type, subject)
  SELECT 'default', gen_random_uuid()::text, 1, repeat('y', 450), 1, 'approval.approved', id FROM job
)
"""

_WRITTEN = f"WITH {_WRITES.format(still='')} SELECT count(*) FROM job;"

# What it looks at besides (the key, the reviewer, the submitter, the policy in force, the job itself; one statement
# needs no lock on it) and what a commit leaves so that it can be asked about if its answer is lost.
_EQUIVALENT = f"""
WITH commit AS (
  INSERT INTO batches (id, at)
  VALUES (gen_random_uuid()::text, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint)
), seen AS (
  SELECT body, version FROM jobs WHERE tenant = 'default' AND id = 'job_' || :n::text
), {_WRITES.format(still=" AND version = (SELECT version FROM seen)")}
SELECT (SELECT count(*) FROM job), (SELECT body FROM seen),
  (SELECT body FROM api_keys WHERE tenant = 'default' AND id = '{{key_id}}'),
  (SELECT body FROM principals WHERE tenant = 'default' AND id = 'ann'),
  (SELECT body FROM principals WHERE tenant = 'default' AND id = 'bot'),
  (SELECT body FROM policy_heads WHERE tenant = 'default' AND id = 'active');
"""

_MULTIPLY = """
INSERT INTO jobs SELECT copy.* FROM jobs, generate_series(1, {rows}) AS n,
  jsonb_populate_record(jobs, jsonb_build_object('id', 'job_' || n)) AS copy WHERE jobs.id = '{job_id}'
"""


def bare_updates(server: PostgresServer, clients: int) -> float:
    """Commits a second that each update one row of a table with nothing but a primary key."""
    url = server.create_database()
    database = url.rsplit("/", 1)[1]
    server.execute("CREATE TABLE bare (id int PRIMARY KEY, state text, body text)", dbname=database)
    server.execute(
        f"INSERT INTO bare SELECT n, 'APPROVAL', repeat('x', 900) FROM generate_series(1, {ROWS}) n",
        dbname=database,
    )
    return _run(url, clients, _BARE)


def written_approvals(server: PostgresServer, clients: int) -> float:
    """Commits a second that each write the rows of one approval, into Interlock's own tables."""
    url, _ = _filled(server)
    return _run(url, clients, _WRITTEN)


def equivalent_approvals(server: PostgresServer, clients: int) -> float:
    """The same with what an approval reads, and with what its commit is known by."""
    url, key_id = _filled(server)
    return _run(url, clients, _EQUIVALENT.format(key_id=key_id))


def _filled(server: PostgresServer) -> tuple[str, str]:
    """A database with jobs that were approved once, and the id of the reviewer's key."""
    url = server.create_database()
    job_id, key_id = asyncio.run(_approve_one(url))
    server.execute(_MULTIPLY.format(rows=ROWS, job_id=job_id), dbname=url.rsplit("/", 1)[1])
    return url, key_id


async def _approve_one(url: str) -> tuple[str, str]:
    async with opened(url) as (service, bot, ann):
        job_id = await submit(service, bot, 1)
        await approve(service, ann, job_id)
        return job_id, ann.key_id or ""


def _run(url: str, clients: int, script: str, seconds: int = 4) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(_CHOOSE.format(share=ROWS // clients) + script)
        file.flush()
        Path(file.name).chmod(0o644)
        command = [_program(), "-n", "-M", "prepared", "-c", str(clients), "-j", "2"]
        command += ["-T", str(seconds), "-f", file.name, url]
        said = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PGSSLMODE": "disable"}
        )
    match = re.search(r"tps = ([0-9.]+)", said.stdout)
    return float(match[1]) if match else 0.0


def _program() -> str:
    program = shutil.which("pgbench")
    if program is None:
        raise SystemExit("pgbench is not installed; install PostgreSQL's client programs to compare with it")
    return program
