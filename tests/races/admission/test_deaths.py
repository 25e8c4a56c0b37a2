"""Clients, servers and stores that die: no slot leaks, no line stands still, nothing is half-created."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.rooms.admission.model import RunState
from tests.harness.load import Answer, tally
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer, clean_env
from tests.harness.soak import dose
from tests.races.admission.admission_servers import AdmissionServers, Tenant, until

ROOT = Path(__file__).parents[3]
PROCESSES = 2
TTL_SECONDS, TTL_SECONDS_EACH = 3, 0.04  # the more there are, the longer until all of them hold and renew
UNAVAILABLE = {(503, "admission_unavailable"), (503, "outcome_unknown")}
Serve = Callable[..., InterlockServer]


class Holders:
    """Processes full of clients that hold slots."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    async def start(self, admission: AdmissionServers, tenant: Tenant, clients: int, ttl: int) -> None:
        """Start that many clients and return once each of them holds a slot."""
        command = [sys.executable, "-m", "tests.races.admission.slot_holder_program"]
        command += [",".join(admission.urls), tenant.bot_key, str(clients), str(ttl)]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=clean_env())
        self._processes.append(holder)
        assert holder.stdout is not None
        assert (await asyncio.to_thread(holder.stdout.readline)).strip() == b"holding"

    def kill(self) -> None:
        """SIGKILL them all."""
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        self._processes.clear()


@pytest.fixture
def holders() -> Iterator[Holders]:
    made = Holders()
    yield made
    made.kill()


async def test_clients_that_are_killed_leak_no_slot(admission: AdmissionServers, holders: Holders) -> None:
    clients = dose(40) // PROCESSES
    doomed = PROCESSES * clients
    ttl = TTL_SECONDS + round(TTL_SECONDS_EACH * doomed)
    tenant = await admission.tenant(limit=doomed + 3)
    for _ in range(PROCESSES):
        await holders.start(admission, tenant, clients, ttl)
    alive = [answer.json() for answer in await admission.ask(*[admission.start(tenant, ttl_seconds=600)] * 3)]
    full = await admission.ask(admission.start(tenant))
    assert tally(full) == {(429, "max_concurrent_runs"): 1}

    holders.kill()

    async def only_the_living() -> bool:
        return await admission.counts(tenant) == (3, 3)

    await until(only_the_living)
    history = await admission.history(tenant)
    lost = [run for run in history.runs if run.state is RunState.LOST]
    assert len(lost) == doomed
    assert history.overruns() == []
    assert {
        answer.status for answer in await admission.ask(*(admission.end(tenant, run) for run in alive))
    } == {200}
    again = await admission.ask(*[admission.start(tenant)] * (doomed + 4))
    assert tally(again) == {(201, ""): doomed + 3, (429, "max_concurrent_runs"): 1}


async def test_those_who_waited_at_a_killed_server_hold_nobody_up(postgres_url: str, serve: Serve) -> None:
    servers = [await asyncio.to_thread(serve, postgres_url) for _ in range(2)]
    admission = AdmissionServers(postgres_url, servers)
    tenant = await admission.tenant(limit=1)
    (held,) = await admission.ask(admission.start(tenant))
    doomed = asyncio.create_task(
        admission.ask(*[admission.start(tenant, wait_seconds=200)] * 5, url=admission.urls[0])
    )
    await until(lambda: _stand(admission, tenant, 5))
    behind = asyncio.create_task(
        admission.ask(admission.start(tenant, wait_seconds=200), url=admission.urls[1])
    )
    await until(lambda: _stand(admission, tenant, 6))

    servers[0].kill()
    await admission.ask(admission.end(tenant, held.json()), url=admission.urls[1])

    (answer,) = await asyncio.wait_for(behind, 60)
    assert answer.status == 201
    assert {each.status for each in await doomed} == {0}
    assert len((await admission.history(tenant)).runs) == 2


@pytest.mark.slow
async def test_a_paused_store_is_503_in_time_and_each_key_is_one_run_afterwards(
    private_postgres: PostgresServer, serve: Serve
) -> None:
    store = private_postgres.create_database()
    server = await asyncio.to_thread(serve, store, env={"INTERLOCK_ACQUIRE_SECONDS": "0.5"})
    admission = AdmissionServers(store, [server])
    tenant = await admission.tenant(limit=1000)
    before = await admission.ask(admission.start(tenant, key="before"))
    requests = [admission.start(tenant, key=f"key-{n}") for n in range(40)]

    await asyncio.to_thread(private_postgres.pause)
    during = [*(await admission.ask(*requests)), *(await admission.ask(*requests))]
    await asyncio.to_thread(private_postgres.resume)

    assert set(tally(during)) <= UNAVAILABLE, tally(during)
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in during)
    answers = [await until_admitted(admission, tenant, f"key-{n}") for n in range(40)]
    again = await admission.ask(*requests, admission.start(tenant, key="before"))
    assert [answer.json()["run_id"] for answer in again] == [
        answer.json()["run_id"] for answer in (*answers, *before)
    ]
    history = await admission.history(tenant)
    assert len(history.runs) == 41
    assert await admission.counts(tenant) == (41, 41)


async def until_admitted(admission: AdmissionServers, tenant: Tenant, key: str) -> Answer:
    async with asyncio.timeout(60):
        while True:
            (answer,) = await admission.ask(admission.start(tenant, key=key))
            if answer.status == 201:
                return answer
            assert (answer.status, answer.word) in UNAVAILABLE
            await asyncio.sleep(0.05)


async def _stand(admission: AdmissionServers, tenant: Tenant, wanted: int) -> bool:
    return await admission.waiting(tenant) == wanted
