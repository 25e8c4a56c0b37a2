"""Statements that travel together on one connection: in order, all or none of what is behind an error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from interlock.kernel.storage import CommitUnconfirmed, CommitUnknown, LockTimeout, StoreDown
from interlock.store.postgres import pipeline as postgres_pipeline
from interlock.store.postgres.driver import backend_of, connect
from interlock.store.postgres.pipeline import BEGIN, COMMIT, Asked, NotSent, Pipeline
from tests.conformance.places import PostgresPlace
from tests.conformance.test_postgres_reading import connected
from tests.harness.proxy import PostgresProxy

BAD = Asked("SELECT 1 / 0")


@contextlib.asynccontextmanager
async def piped(url: str) -> AsyncGenerator[Pipeline]:
    session = await connect(url, 5)
    pipeline = Pipeline(session, await backend_of(session))
    try:
        yield pipeline
    finally:
        pipeline.terminate()


async def asked(pipeline: Pipeline, sql: str, *values: str | None) -> list[tuple[bytes | None, ...]]:
    (answer,) = await pipeline.ask(Asked(sql, values), seconds=10)
    return answer.rows


async def test_statements_are_answered_in_their_order(postgres_place: PostgresPlace) -> None:
    async with piped(postgres_place.url) as pipeline:
        answers = await pipeline.ask(
            Asked("SELECT $1::text, $2::bigint, NULL", ("ä\x1f", "7")), BEGIN, Asked("SELECT 2"), seconds=10
        )
        assert [answer.rows for answer in answers] == [[("ä\x1f".encode(), b"7", None)], [], [(b"2",)]]
        assert [answer.tag for answer in answers] == ["SELECT 1", "BEGIN", "SELECT 1"]
        assert pipeline.is_in_transaction


async def test_nothing_behind_an_error_is_done(postgres_place: PostgresPlace) -> None:
    async with piped(postgres_place.url) as pipeline:
        await asked(pipeline, "CREATE TABLE kept (n int)")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await pipeline.ask(BEGIN, Asked("INSERT INTO kept VALUES (1)"), BAD, COMMIT, seconds=10)
        assert pipeline.is_in_transaction
        await asked(pipeline, "ROLLBACK")
        assert await asked(pipeline, "SELECT count(*) FROM kept") == [(b"0",)]


async def test_a_statement_that_an_error_kept_from_being_prepared_is_prepared_later(
    postgres_place: PostgresPlace,
) -> None:
    async with piped(postgres_place.url) as pipeline:
        late = Asked("SELECT 'late'")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await pipeline.ask(BAD, late, seconds=10)
        with pytest.raises(asyncpg.PostgresSyntaxError):
            await pipeline.ask(Asked("SELEC"), late, seconds=10)
        assert [answer.rows for answer in await pipeline.ask(late, seconds=10)] == [[(b"late",)]]
        with pytest.raises(asyncpg.DivisionByZeroError):
            await pipeline.ask(BAD, seconds=10)


async def test_a_value_that_cannot_be_sent_leaves_the_connection_as_it_was(
    postgres_place: PostgresPlace,
) -> None:
    async with piped(postgres_place.url) as pipeline:
        with pytest.raises(UnicodeEncodeError):
            await asked(pipeline, "SELECT $1::text", "\ud800")
        assert await asked(pipeline, "SELECT $1::text", "fine") == [(b"fine",)]


async def test_long_answers_come_whole_however_they_are_cut(postgres_place: PostgresPlace) -> None:
    async with piped(postgres_place.url) as pipeline:
        rows = await asked(pipeline, "SELECT repeat('x', n * 100000) FROM generate_series(0, 60) AS n")
        assert [len(row[0] or b"") for row in rows] == [n * 100_000 for n in range(61)]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 64])
async def test_an_answer_is_read_from_pieces_of_any_length(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    def in_pieces(self: Pipeline, data: bytes) -> None:
        for at in range(0, len(data), length):
            whole(self, data[at : at + length])

    whole = Pipeline.data_received
    monkeypatch.setattr(Pipeline, "data_received", in_pieces)
    async with piped(postgres_place.url) as pipeline:
        for n in range(3):
            rows = await asked(pipeline, "SELECT n, NULL, 'text' FROM generate_series(1, $1::int) n", str(n))
            assert rows == [(str(i).encode(), None, b"text") for i in range(1, n + 1)]


async def test_more_statements_than_are_kept_are_prepared_again(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pipeline, "_STATEMENTS_MAX", 3)
    async with piped(postgres_place.url) as pipeline:
        for n in (*range(5), *range(5)):
            assert await asked(pipeline, f"SELECT {n}") == [(str(n).encode(),)]
        kept = await asked(pipeline, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 's%'")
        assert kept == [(b"3",)]


async def test_a_statement_that_is_not_kept_leaves_the_server_even_if_an_error_came_before_its_successor(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pipeline, "_STATEMENTS_MAX", 3)
    async with piped(postgres_place.url) as pipeline:
        for n in range(5):
            await asked(pipeline, f"SELECT {n}")
            with pytest.raises(asyncpg.DivisionByZeroError):
                await pipeline.ask(BAD, Asked(f"SELECT -{n}"), seconds=10)
        kept = await asked(pipeline, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 's%'")
        assert kept == [(b"3",)]


async def test_a_warning_belongs_to_the_statement_that_it_came_with(postgres_place: PostgresPlace) -> None:
    async with piped(postgres_place.url) as pipeline:
        warn = Asked("DO $$ BEGIN RAISE WARNING 'mind this'; END $$")
        note = Asked("DO $$ BEGIN RAISE NOTICE 'never mind'; END $$")
        answers = await pipeline.ask(BEGIN, warn, note, COMMIT, seconds=10)
        assert [answer.warning for answer in answers] == ["", "mind this", "", ""]


async def test_an_answer_that_is_late_can_be_heard_out(postgres_place: PostgresPlace) -> None:
    async with piped(postgres_place.url) as pipeline:
        with pytest.raises(TimeoutError):
            await pipeline.ask(Asked("SELECT pg_sleep(0.3)"), seconds=0.05)
        assert pipeline.is_busy
        with pytest.raises(RuntimeError, match="under way"):
            await pipeline.ask(COMMIT, seconds=1)
        await pipeline.hear_out(10)
        assert not pipeline.is_busy
        assert await asked(pipeline, "SELECT 1") == [(b"1",)]


async def test_what_the_server_gives_up_is_heard_out_too(postgres_place: PostgresPlace) -> None:
    async with piped(postgres_place.url) as pipeline:
        with pytest.raises(TimeoutError):
            await pipeline.ask(Asked("SELECT pg_sleep(60)"), seconds=0.05)
        await postgres_place.rows(f"SELECT pg_cancel_backend({pipeline.backend.number})")
        await pipeline.hear_out(10)
        assert await asked(pipeline, "SELECT 1") == [(b"1",)]


async def test_a_connection_that_is_cut_says_so_and_takes_nothing_more(proxy: PostgresProxy) -> None:
    async with piped(proxy.url) as pipeline:
        waiting = asyncio.create_task(asked(pipeline, "SELECT pg_sleep(60)"))
        await asyncio.sleep(0.1)
        proxy.cut_all()
        with pytest.raises(ConnectionResetError):
            await waiting
        assert pipeline.is_closed()
        with pytest.raises(NotSent):
            await pipeline.ask(COMMIT, seconds=1)


async def test_a_goodbye_between_two_exchanges_ends_the_connection(proxy: PostgresProxy) -> None:
    async with piped(proxy.url) as pipeline:
        assert await asked(pipeline, "SELECT 1") == [(b"1",)]
        proxy.say_goodbye()
        await asyncio.sleep(0.1)
        with pytest.raises(NotSent):
            await pipeline.ask(COMMIT, seconds=1)


async def test_a_connection_whose_server_is_still_at_something_is_not_used_again(
    postgres_place: PostgresPlace,
) -> None:
    async with connected(postgres_place.url) as connections:
        with contextlib.suppress(LockTimeout):
            async with connections.writer() as busy:
                with pytest.raises(TimeoutError):
                    await busy.ask(Asked("SELECT pg_sleep(60)"), seconds=0.05)
                raise LockTimeout("somebody gave up")
        async with connections.writer() as next_one:
            assert busy.is_closed()
            assert await asked(next_one, "SELECT 1") == [(b"1",)]


@pytest.mark.parametrize(
    "error",
    [
        CommitUnknown("no answer"),
        CommitUnconfirmed("no standby"),
        asyncpg.ReadOnlySQLTransactionError("no longer the primary"),
    ],
)
async def test_a_connection_that_said_what_nobody_can_rely_on_is_not_used_again(
    postgres_place: PostgresPlace, error: Exception
) -> None:
    async with connected(postgres_place.url) as connections:
        async with connections.writer() as writer:
            first = writer.backend
        async with connections.writer() as writer:
            assert writer.backend == first
        with pytest.raises((CommitUnknown, CommitUnconfirmed, StoreDown)):
            async with connections.writer():
                raise error
        async with connections.writer() as writer:
            assert writer.backend != first


async def test_the_statement_that_was_used_longest_ago_is_the_next_to_go(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pipeline, "_STATEMENTS_MAX", 3)
    async with piped(postgres_place.url) as pipeline:
        for n in (1, 2, 3, 1):
            await asked(pipeline, f"SELECT {n}")
        kept = await asked(pipeline, "SELECT statement FROM pg_prepared_statements WHERE name LIKE 's%'")
        assert (b"SELECT 1",) in kept
        assert (b"SELECT 2",) not in kept
