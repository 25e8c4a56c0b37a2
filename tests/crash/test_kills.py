"""SIGKILL at random moments under load: nothing acknowledged is lost, nothing is decided twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest

from tests.crash.conftest import Start
from tests.crash.persistent_callers import Actors, check_promises
from tests.harness.load import Connection, get
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer, Key
from tests.harness.soak import dose

KILLS = 6
HANG_SECONDS = 60
Keys = Callable[[str], dict[str, Key]]


@pytest.mark.slow
async def test_killing_the_server_loses_nothing_on_sqlite(
    sqlite_url: str, start: Start, keys_in: Keys
) -> None:
    keys = keys_in(sqlite_url)
    server = start(sqlite_url)
    actors = crowd([server], keys)

    for _ in range(dose(KILLS)):
        await at_random_moment(actors)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await answers_again(server)

    await settle(actors, sqlite_url)


@pytest.mark.slow
async def test_killing_servers_or_postgres_loses_nothing_on_postgres(
    private_postgres: PostgresServer, start: Start, keys_in: Keys
) -> None:
    store = private_postgres.create_database()
    keys = keys_in(store)
    servers = [start(store), start(store)]
    actors = crowd(servers, keys)

    for turn in range(dose(KILLS)):
        await at_random_moment(actors)
        if turn % 2:
            await asyncio.to_thread(private_postgres.kill)
            await asyncio.sleep(random.uniform(0, 0.5))
            await asyncio.to_thread(private_postgres.start)
        else:
            victim = random.choice(servers)
            await asyncio.to_thread(victim.kill)
            await asyncio.to_thread(victim.start)
        for server in servers:
            await answers_again(server)

    await settle(actors, store)


def crowd(servers: Sequence[InterlockServer], keys: dict[str, Key]) -> Actors:
    people = [key for name, key in keys.items() if name.startswith("reviewer")]
    return Actors([server.url for server in servers], keys["bot"], people)


async def at_random_moment(actors: Actors) -> None:
    """Some time after a caller got a decision, however slow the machine is."""
    before = len(actors.promised.decisions)
    async with asyncio.timeout(HANG_SECONDS):
        while len(actors.promised.decisions) == before:
            actors.check_alive()
            await asyncio.sleep(0.005)
    await asyncio.sleep(random.uniform(0, 0.4))
    actors.check_alive()


async def answers_again(server: InterlockServer) -> None:
    """Nobody helps it: it must come back by itself."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            line = Connection(server.url)
            answer = await line.send(get("/readyz").encode())
            line.close()
            if answer.status == 200:
                return
            assert answer.status in (0, 503), answer.body
            await asyncio.sleep(0.02)


async def settle(actors: Actors, store: str) -> None:
    promised = await actors.stop()
    print(f"{promised.calls} calls, {len(promised.submits)} jobs: {dict(promised.words)}")
    await check_promises(store, promised)
    assert len(promised.decisions) >= dose(KILLS)
    assert promised.words[429, ""] == 0
