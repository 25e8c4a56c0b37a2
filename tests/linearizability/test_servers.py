"""Random histories on real servers with faults, checked thing by thing.

Clients lease, decide, claim, act once and start runs, all at once, over two servers on PostgreSQL or one on
SQLite, while servers are killed and started again, or stopped for longer than a lease lasts.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.load import Request, fire, post
from tests.harness.server import InterlockServer, Key
from tests.harness.soak import dose
from tests.linearizability import client_operations
from tests.linearizability.checker import Operation, check
from tests.linearizability.models import AdmissionModel, ApprovalModel, EffectModel, GrantModel, LeaseModel
from tests.linearizability.recording_client import Client
from tests.races.deployment import ASK, make_keys

CLIENTS = 6
CALLS = dose(50)
FAULTS = dose(3)
THINGS = dose(3)

Act = Callable[[Client, str], Awaitable[None]]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_every_history_has_an_order(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, serve: Callable[..., InterlockServer]
) -> None:
    store = request.getfixturevalue(f"{kind}_url")
    policy = tmp_path / "policy.yaml"
    policy.write_text(ASK)
    servers = [serve(store, policy=policy) for _ in range(2 if kind == "postgres" else 1)]
    keys = await make_keys(store)
    things = await _things(servers[0].url, keys)
    clients = [_client(n, servers, keys) for n in range(CLIENTS)]
    done = asyncio.Event()
    async with asyncio.timeout(600), asyncio.TaskGroup() as group:
        group.create_task(_trouble(servers, random.Random(1), done))
        working = [asyncio.create_task(_act(client, things)) for client in clients]
        await asyncio.gather(*working)
        done.set()
    history = [operation for client in clients for operation in client.history]
    for client in clients:
        client.close()
    _judge(history, things)


def _client(number: int, servers: list[InterlockServer], keys: dict[str, Key]) -> Client:
    name = f"reviewer-{number}"
    headers = {who: keys[who].headers for who in ("bot", name)}
    return Client(name, [server.url for server in servers], headers, seed=number)


async def _things(url: str, keys: dict[str, Key]) -> dict[str, tuple[Act, Any]]:
    """What there is to fight over: each thing, what is done to it, and the model of it."""
    things: dict[str, tuple[Act, Any]] = {}
    bot, root = keys["bot"].headers, keys["root"].headers
    limits = [("tenant", 1000), *((f"flow-{n}", client_operations.LIMIT) for n in range(THINGS))]
    put = [_put_limit(scope, limit, root) for scope, limit in limits]
    jobs = [post("/api/v1/jobs", {"topic": "pay", "payload": {"n": n}}, headers=bot) for n in range(THINGS)]
    grant = {"task": "deploy", "uses": client_operations.USES, "expires_in": "1h"}
    grants = [post("/api/v1/grants", grant, headers=root) for _ in range(THINGS)]
    answers = await fire(url, [*put, *jobs, *grants], connections=1)
    assert all(answer.status < 300 for answer in answers), [answer.body for answer in answers]
    for answer in answers[len(put) : len(put) + THINGS]:
        things[answer.json()["id"]] = (client_operations.approval, ApprovalModel())
    for answer in answers[len(put) + THINGS :]:
        things[_grant_id(answer.json())] = (client_operations.claim, GrantModel(client_operations.USES))
    for n in range(THINGS):
        things[f"repo:{n}/file"] = (client_operations.lease, LeaseModel())
        things[f"pay-{n}"] = (client_operations.effect, EffectModel())
        things[f"flow-{n}"] = (client_operations.admission, AdmissionModel(client_operations.LIMIT))
    return things


def _grant_id(document: dict[str, Any]) -> str:
    return document.get("grant_id") or document["id"]


def _put_limit(scope: str, limit: int, headers: Any) -> Request:
    made = post(f"/api/v1/limits/{scope}", {"max_concurrent_runs": limit}, headers=headers)
    return Request(method="PUT", path=made.path, body=made.body, headers=made.headers)


async def _act(client: Client, things: dict[str, tuple[Act, Any]]) -> None:
    names = list(things)
    leases = [name for name in names if name.startswith("repo:")]
    # A call that found nobody at home is not in the history: while a server starts, they would all be spent.
    while len(client.history) < CALLS:
        name = client.chance.choice(leases if client.chance.random() < 0.5 else names)
        await things[name][0](client, name)
        await asyncio.sleep(client.chance.random() * 0.15)


async def _trouble(servers: list[InterlockServer], chance: random.Random, done: asyncio.Event) -> None:
    """Kill servers, or stop them past a lease's lifetime."""
    for number in range(FAULTS):
        # The first one comes early and is a kill: on a quick machine the history is soon over.
        await asyncio.sleep(0.15 if number == 0 else 0.2 + 0.5 * chance.random())
        if done.is_set():
            return
        server = chance.choice(servers)
        if number == 0 or chance.random() < 0.5:
            # It stands still first, so that calls are under way when it dies and their answers are lost.
            server.pause()
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        else:
            server.pause()
            await asyncio.sleep(client_operations.TTL * (0.5 + chance.random()))
            server.resume()


def _judge(history: list[Operation], things: dict[str, tuple[Act, Any]]) -> None:
    for name, (_, model) in things.items():
        verdict = check([operation for operation in history if operation.key == name], model)
        assert verdict.holds, verdict.explain()
    counts = Counter(operation.call for operation in history if operation.is_known)
    assert {"acquire", "renew", "check", "release", "claim", "begin", "start"} <= set(counts)
    assert any(not operation.is_known for operation in history), "no answer was lost: the faults did nothing"
