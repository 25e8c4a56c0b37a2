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

_BARE = """
\\set n random(1, {rows})
UPDATE bare SET state = 'PENDING', body = repeat('y', 900) WHERE id = :n;
"""

# What one approval writes: the job with its new state in every index, its audit entry, its event. The state
# goes to and fro, because a run has more commits than rows.
_EQUIVALENT = """
\\set n random(1, {rows})
WITH job AS (
  UPDATE jobs SET
    version = version + 1, body = repeat('y', 1290),
    state = CASE state WHEN 'PENDING' THEN 'APPROVAL' ELSE 'PENDING' END,
    approval_state = CASE state WHEN 'PENDING' THEN 'pending' ELSE 'approved' END,
    due_at = CASE state WHEN 'PENDING' THEN :n::bigint END,
    runnable_at = CASE state WHEN 'APPROVAL' THEN :n::bigint END,
    offer_again_at = CASE state WHEN 'APPROVAL' THEN :n::bigint END
  WHERE tenant = 'default' AND id = 'job_' || :n::text RETURNING id
), entry AS (
  INSERT INTO audit_entries (tenant, id, version, body, at, actor, action, subject)
  SELECT 'default', gen_random_uuid()::text, 1, repeat('y', 400), 1, 'ann', 'approve', id FROM job
), event AS (
  INSERT INTO events (tenant, id, version, body, at, type, subject)
  SELECT 'default', gen_random_uuid()::text, 1, repeat('y', 450), 1, 'approval.approved', id FROM job
)
SELECT count(*) FROM job;
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
    return _run(url, clients, _BARE.format(rows=ROWS))


def equivalent_approvals(server: PostgresServer, clients: int) -> float:
    """Commits a second that each write the rows of one approval, into Interlock's own tables."""
    url = server.create_database()
    database = url.rsplit("/", 1)[1]
    job_id = asyncio.run(_approve_one(url))
    server.execute(_MULTIPLY.format(rows=ROWS, job_id=job_id), dbname=database)
    return _run(url, clients, _EQUIVALENT.format(rows=ROWS))


async def _approve_one(url: str) -> str:
    async with opened(url) as (service, bot, ann):
        job_id = await submit(service, bot, 1)
        await approve(service, ann, job_id)
        return job_id


def _run(url: str, clients: int, script: str, seconds: int = 4) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
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
