"""The PostgreSQL that tests run on is a real one, and nothing of it outlives them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.harness import postgres_binaries
from tests.harness.postgres import PostgresServer
from tests.harness.processes import descendants, kill_tree, wait_until_gone

ROOT = Path(__file__).parents[2]


async def test_what_is_acknowledged_survives_a_kill_of_every_process(
    private_postgres: PostgresServer,
) -> None:
    url = private_postgres.create_database()
    client = await asyncpg.connect(url)
    await client.execute("CREATE TABLE kept (n int)")
    await client.execute("INSERT INTO kept VALUES (42)")
    private_postgres.kill()
    with pytest.raises((OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
        await client.fetchval("SELECT n FROM kept")
    private_postgres.start()
    again = await asyncpg.connect(url)
    assert await again.fetchval("SELECT n FROM kept") == 42
    await again.close()


async def test_a_paused_server_answers_after_it_resumes_and_not_before(
    private_postgres: PostgresServer,
) -> None:
    client = await asyncpg.connect(private_postgres.url())
    private_postgres.pause()
    answer = asyncio.create_task(client.fetchval("SELECT 1"))
    done, _ = await asyncio.wait([answer], timeout=0.5)
    assert not done
    private_postgres.resume()
    assert await asyncio.wait_for(answer, 30) == 1
    await client.close()


async def test_a_restart_keeps_the_address_and_the_data(private_postgres: PostgresServer) -> None:
    url = private_postgres.create_database()
    private_postgres.execute("CREATE TABLE kept ()", dbname=url.rpartition("/")[2])
    private_postgres.restart()
    client = await asyncpg.connect(url)
    assert await client.fetch("SELECT * FROM kept") == []
    await client.close()


async def test_durability_is_on(postgres: PostgresServer) -> None:
    client = await asyncpg.connect(postgres.url())
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await client.fetchval(f"SHOW {setting}") == "on"
    await client.close()


async def test_a_dropped_database_comes_back_empty_and_without_clients(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    client = await asyncpg.connect(url)
    await client.execute(
        "CREATE SCHEMA other; CREATE TABLE other.left_over (n int); CREATE TABLE left_over ()"
    )
    postgres.drop(url)
    assert postgres.create_database() == url
    fresh = await asyncpg.connect(url)
    tables = await fresh.fetch("SELECT 1 FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema$)'")
    assert tables == []
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await client.execute("SELECT 1")
    await fresh.close()
    postgres.drop(url)


@pytest.mark.parametrize("order", ["os._exit(3)", "os.kill(os.getpid(), 9)", "sys.exit(3)"])
def test_nothing_outlives_a_test_run_however_it_ends(order: str) -> None:
    script = (
        "import os, subprocess, sys\n"
        "from tests.harness.postgres import PostgresServer\n"
        "from tests.harness.reaper import reaper\n"
        "server = PostgresServer(); server.start()\n"
        "other = subprocess.Popen(['sh', '-c', 'sleep 600 & wait']); reaper().watch(other.pid)\n"
        "print(server._folder, flush=True); sys.stdin.readline()\n"
        f"{order}\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdin is not None
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    family = descendants(run.pid)
    run.communicate("\n", timeout=60)
    wait_until_gone(family)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")
def test_root_hands_the_cluster_to_a_user_that_cannot_reach_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "private" / "site-packages"
    original = postgres_binaries._chosen_folder()
    postgres_binaries._copy(original, hidden)
    (tmp_path / "private").chmod(0o700)
    monkeypatch.setenv(
        postgres_binaries.CHOICE, str(hidden / original.parent.parent.name / original.parent.name / "bin")
    )
    server = PostgresServer()
    server.start()
    try:
        assert server.execute("SELECT 1") == "SELECT 1"
    finally:
        server.close()


def test_a_stopped_tree_can_still_be_killed(private_postgres: PostgresServer) -> None:
    private_postgres.pause()
    private_postgres.kill()
    private_postgres.start()
    assert private_postgres.execute("SELECT 1") == "SELECT 1"


def test_signals_reach_a_process_that_the_tree_forked_meanwhile() -> None:
    forker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, time\nwhile True: subprocess.Popen(['sleep', '30']); time.sleep(0.01)",
        ]
    )
    try:
        while len(descendants(forker.pid)) < 3:
            pass
        family = [forker.pid, *descendants(forker.pid)]
    finally:
        kill_tree(forker.pid)
    assert forker.wait(30) == -signal.SIGKILL
    wait_until_gone(family)
