"""The same on PostgreSQL: no store, somebody else's tables, no room, no writes, no way in; each in its own sentence."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from tests.cli.terminal import POLICY, Said, Terminal
from tests.cli.test_places import READING, WRITING, tells_in_one_line
from tests.harness.postgres import PostgresServer

COMMANDS = [*READING[:1], ("policy", "show"), ("doctor",), *WRITING[:3], ("exec", "--", "true")]


def database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def on(postgres: PostgresServer, url: str, sql: str) -> str:
    return postgres.execute(sql, dbname=database_of(url))


def house_on(terminal: Terminal, url: str) -> str:
    """A store with a policy in force, and the policy's file."""
    policy = terminal.file("policy.yaml", POLICY)
    assert terminal("init", "--store", url).code == 0
    assert terminal("policy", "apply", policy, "--store", url).code == 0
    return policy


def tells(said: Said, words: Sequence[str], about: str, code: int = 6) -> None:
    assert said.code == code, (words, said)
    assert about in said.err, (words, said)
    assert len(said.err.splitlines()) == 1, (words, said)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_makes_a_store_in_an_empty_database_that_was_named(
    terminal: Terminal, postgres: PostgresServer, postgres_url: str, words: tuple[str, ...]
) -> None:
    terminal.file("policy.yaml", POLICY)
    name = database_of(postgres_url)
    tells_in_one_line(
        terminal("--store", postgres_url, *words), words, f"there is no store in the database {name}"
    )
    on(postgres, postgres_url, "CREATE TABLE schema_versions ()")  # Fails if there was one.


def test_init_makes_one_there_and_only_once(terminal: Terminal, postgres_url: str) -> None:
    assert terminal("init", "--store", postgres_url, "--json").json["made"] is True
    assert terminal("init", "--store", postgres_url, "--json").json["made"] is False
    assert terminal("jobs", "--store", postgres_url).code == 0


@pytest.mark.parametrize("table", ["customers", "jobs", "schema_versions"])
def test_somebody_elses_database_is_refused_and_gets_no_table(
    terminal: Terminal, postgres: PostgresServer, postgres_url: str, table: str
) -> None:
    on(postgres, postgres_url, f"CREATE TABLE {table} (id integer)")
    terminal.file("policy.yaml", POLICY)
    for words in (*COMMANDS, ("init",), ("key", "create", "mia", "--kind", "person", "--roles", "review")):
        tells_in_one_line(terminal("--store", postgres_url, *words), words, "holds tables of another program")
    said = terminal.process("serve", "--port", "0", "--store", postgres_url)
    tells_in_one_line(said, ("serve",), "holds tables of another program")
    on(postgres, postgres_url, f"DROP TABLE {table}")
    on(
        postgres,
        postgres_url,
        "DO $$ BEGIN ASSERT (SELECT count(*) = 0 FROM pg_tables WHERE schemaname = 'public'); END $$",
    )


def test_tables_in_another_schema_are_no_hindrance(
    terminal: Terminal, postgres: PostgresServer, postgres_url: str
) -> None:
    on(postgres, postgres_url, "CREATE SCHEMA theirs; CREATE TABLE theirs.customers (id integer)")
    assert terminal("init", "--store", postgres_url).code == 0


def test_a_full_disk_of_the_server_is_named_and_found_by_the_doctor(
    terminal: Terminal, postgres: PostgresServer, postgres_url: str
) -> None:
    policy = house_on(terminal, postgres_url)
    on(
        postgres,
        postgres_url,
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$; "
        "CREATE TRIGGER no_room BEFORE INSERT ON batches FOR EACH ROW EXECUTE FUNCTION no_room()",
    )
    name = database_of(postgres_url)
    said = terminal("policy", "apply", policy, "--store", postgres_url, "--patience", "0s")
    tells(said, ("policy",), f"the disk is full: PostgreSQL has no room to write to {name} at ")
    found = terminal("doctor", "--store", postgres_url).out
    assert ("✗ store" in found, "the disk is full" in found) == (True, True)
    on(postgres, postgres_url, "DROP TRIGGER no_room ON batches")
    assert terminal("policy", "apply", policy, "--store", postgres_url).code == 0


def test_a_read_only_database_is_named_and_found_by_the_doctor(
    terminal: Terminal, postgres: PostgresServer, postgres_url: str
) -> None:
    policy = house_on(terminal, postgres_url)
    name = database_of(postgres_url)
    postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    said = terminal("policy", "apply", policy, "--store", postgres_url, "--patience", "0s")
    tells(said, ("policy",), "is read-only; ")
    found = terminal("doctor", "--store", postgres_url).out
    assert ("✗ store" in found, "is read-only" in found) == (True, True)
    assert terminal("jobs", "--store", postgres_url).code == 0


def test_no_store_is_made_in_a_read_only_database(
    terminal: Terminal, postgres: PostgresServer, postgres_url: str
) -> None:
    name = database_of(postgres_url)
    postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    tells(terminal("init", "--store", postgres_url), ("init",), f"the database {name} at ")


def test_tls_spoken_to_a_server_without_it_is_named(terminal: Terminal, postgres_url: str) -> None:
    store = f"{postgres_url}?sslmode=require"
    for words in (("jobs", "--patience", "0s"), ("init",)):
        tells(terminal(*words, "--store", store), words, "speaks no TLS, and the URL asks for it")


def test_a_wrong_password_is_named(terminal: Terminal, private_postgres: PostgresServer) -> None:
    private_postgres.execute("CREATE ROLE mia LOGIN PASSWORD 'right'")
    private_postgres.execute(
        "DO $$ BEGIN EXECUTE format('COPY (VALUES (%L), (%L)) TO %L', 'host all mia 127.0.0.1/32 scram-sha-256', "
        "'host all all 127.0.0.1/32 trust', current_setting('hba_file')); END $$"
    )
    private_postgres.execute("SELECT pg_reload_conf()")
    host = urlsplit(private_postgres.url()).netloc.rpartition("@")[2]
    store = f"postgresql://mia:wrong-one@{host}/postgres"
    for words in (("jobs", "--patience", "0s"), ("init",)):
        said = terminal(*words, "--store", store)
        tells(said, words, "does not accept the password of mia; check it in the URL or PGPASSWORD")
        assert "wrong-one" not in said.err
