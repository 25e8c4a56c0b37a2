"""The proxy loses what it was told to lose, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.harness.postgres_proxy import PostgresProxy

CUT_OFF = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)
Committer = Callable[[asyncpg.Connection], Awaitable[object]]


async def simple(client: asyncpg.Connection) -> None:
    await client.execute("COMMIT;")


async def extended(client: asyncpg.Connection) -> None:
    await client.fetch("COMMIT")


async def in_one_script(client: asyncpg.Connection) -> None:
    await client.execute("SELECT 1; commit")


COMMITTERS = [simple, extended, in_one_script]


@pytest.fixture
def proxy(postgres_proxy: PostgresProxy) -> PostgresProxy:
    return postgres_proxy


async def begin_insert(url: str) -> asyncpg.Connection:
    client = await asyncpg.connect(url)
    await client.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
    await client.execute("BEGIN")
    await client.execute("INSERT INTO kept VALUES (1)")
    return client


async def rows(url: str) -> int:
    client = await asyncpg.connect(url)
    try:
        return await client.fetchval("SELECT count(*) FROM kept")
    finally:
        await client.close()


@pytest.mark.parametrize("commit", COMMITTERS)
async def test_without_a_trap_everything_passes(proxy: PostgresProxy, commit: Committer) -> None:
    client = await begin_insert(proxy.url)
    await commit(client)
    assert await client.fetchval("SELECT repeat('x', 3000000)") == "x" * 3_000_000
    await client.close()
    assert await rows(proxy.url) == 1


@pytest.mark.parametrize("commit", COMMITTERS)
async def test_a_commit_cut_after_happened_and_was_not_acknowledged(
    proxy: PostgresProxy, postgres_url: str, commit: Committer
) -> None:
    client = await begin_insert(proxy.url)
    trap = proxy.cut_after_commit()
    with pytest.raises(CUT_OFF):
        await commit(client)
    await asyncio.to_thread(trap.wait)
    assert await rows(postgres_url) == 1


@pytest.mark.parametrize("commit", COMMITTERS)
async def test_a_commit_cut_before_never_happens(
    proxy: PostgresProxy, postgres_url: str, commit: Committer
) -> None:
    client = await begin_insert(proxy.url)
    trap = proxy.cut_before_commit()
    with pytest.raises(CUT_OFF):
        await commit(client)
    await asyncio.to_thread(trap.wait)
    assert await rows(postgres_url) == 0


@pytest.mark.parametrize("commit", COMMITTERS)
async def test_a_held_commit_happens_after_its_client_looked_in_vain(
    proxy: PostgresProxy, postgres_url: str, commit: Committer
) -> None:
    client = await begin_insert(proxy.url)
    trap = proxy.hold_commit()
    with pytest.raises(CUT_OFF):
        await commit(client)
    await asyncio.to_thread(trap.wait)
    assert await rows(proxy.url) == 0
    assert await asyncio.to_thread(trap.release)
    assert await rows(postgres_url) == 1


async def test_an_abandoned_commit_rolls_back(proxy: PostgresProxy, postgres_url: str) -> None:
    client = await begin_insert(proxy.url)
    trap = proxy.hold_commit()
    with pytest.raises(CUT_OFF):
        await simple(client)
    await asyncio.to_thread(trap.wait)
    trap.abandon()
    direct = await asyncpg.connect(postgres_url)
    async with direct.transaction():
        # The lock is granted only when the abandoned transaction has ended.
        await direct.execute("LOCK TABLE kept IN ACCESS EXCLUSIVE MODE")
        assert await direct.fetchval("SELECT count(*) FROM kept") == 0
    await direct.close()


@pytest.mark.parametrize("commit", [simple, extended])
async def test_a_commit_with_a_warning_reaches_the_client_as_one(
    proxy: PostgresProxy, commit: Committer
) -> None:
    client = await begin_insert(proxy.url)
    heard: list[str] = []
    client.add_log_listener(lambda _, message: heard.append(message.severity_en))
    trap = proxy.warn_on_commit()
    await commit(client)
    await asyncio.sleep(0)
    assert trap.sprung
    assert heard == ["WARNING"]
    await client.close()
    assert await rows(proxy.url) == 1


async def test_a_trap_ignores_a_commit_that_rolls_back_and_those_it_skips(proxy: PostgresProxy) -> None:
    client = await begin_insert(proxy.url)
    trap = proxy.cut_after_commit(skip=1)
    await client.execute("COMMIT")
    await client.execute("BEGIN")
    with pytest.raises(asyncpg.PostgresError):
        await client.execute("SELECT 1/0")
    assert await client.execute("COMMIT") == "ROLLBACK"
    assert not trap.sprung
    await client.execute("BEGIN")
    with pytest.raises(CUT_OFF):
        await client.execute("COMMIT")
    await asyncio.to_thread(trap.wait)


async def test_a_prepared_commit_is_recognised_when_it_is_executed_again(proxy: PostgresProxy) -> None:
    client = await begin_insert(proxy.url)
    await client.fetch("COMMIT")
    await client.execute("BEGIN")
    trap = proxy.cut_after_commit()
    with pytest.raises(CUT_OFF):
        await client.fetch("COMMIT")
    await asyncio.to_thread(trap.wait)


async def test_a_stall_delivers_nothing_until_it_ends(proxy: PostgresProxy) -> None:
    client = await asyncpg.connect(proxy.url)
    proxy.stall()
    asked = asyncio.create_task(client.fetchval("SELECT 1"))
    dialled = asyncio.create_task(asyncpg.connect(proxy.url))
    done, _ = await asyncio.wait([asked, dialled], timeout=0.3)
    assert not done
    proxy.resume()
    assert await asyncio.wait_for(asked, 30) == 1
    await (await asyncio.wait_for(dialled, 30)).close()
    await client.close()


async def test_refusing_keeps_open_connections_and_accepting_takes_new_ones(proxy: PostgresProxy) -> None:
    client = await asyncpg.connect(proxy.url)
    proxy.refuse()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncpg.connect(proxy.url)
    assert await client.fetchval("SELECT 1") == 1
    proxy.accept()
    again = await asyncpg.connect(proxy.url)
    proxy.cut_all()
    for cut in (client, again):
        with pytest.raises(CUT_OFF):
            await cut.fetchval("SELECT 1")


async def test_a_cancelled_query_is_cancelled_through_the_proxy(proxy: PostgresProxy) -> None:
    client = await asyncpg.connect(proxy.url)
    with pytest.raises(TimeoutError):
        await client.execute("SELECT pg_sleep(600)", timeout=0.2)
    assert await asyncio.wait_for(client.fetchval("SELECT 1"), 30) == 1
    await client.close()
