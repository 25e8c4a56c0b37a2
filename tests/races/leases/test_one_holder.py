"""One holder at a time, whatever happens to servers and however many ask."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from tests.harness.load import Request, post
from tests.harness.server import InterlockServer
from tests.harness.soak import dose
from tests.races.deployment import Deployment
from tests.races.leases.lease_contenders import (
    TTL,
    Contender,
    check_nobody_held_at_once,
    leases_in,
    taken_fences,
)

CONTENDERS = 10
TREE = ["r/a", "r/b", "r/a/c", "r/**", "r/a/**", "s"]


async def test_at_most_one_holder_while_servers_are_killed_and_stopped(pair: Deployment) -> None:
    headers = pair.keys["bot"].headers
    contenders = [Contender(pair.urls, headers, seed, TREE) for seed in range(CONTENDERS)]
    async with asyncio.timeout(600), asyncio.TaskGroup() as group:
        group.create_task(_trouble(pair.servers, dose(3)))
        for contender in contenders:
            group.create_task(contender.contend(dose(12)))
    for contender in contenders:
        contender.close()
    assert sum(contender.taken for contender in contenders) > CONTENDERS
    assert sum(contender.stale for contender in contenders) > 0, "nobody ever came too late"
    check_nobody_held_at_once(await leases_in(pair.store))


async def _trouble(servers: list[InterlockServer], faults: int) -> None:
    chance = random.Random(7)
    for turn in range(faults):
        await asyncio.sleep(0.5 + chance.random())
        server = chance.choice(servers)
        if turn % 2:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        else:
            server.pause()
            await asyncio.sleep(TTL * 1.5)
            server.resume()


async def test_nobody_slips_in_on_the_first_use_of_a_tree(deployment: Deployment) -> None:
    """Nothing is there to be locked yet when one wants all of it and another wants one thing in it."""
    rounds = dose(40)
    headers = deployment.keys["bot"].headers
    requests = [
        post("/api/v1/leases", {"resource": resource}, headers=headers)
        for n in range(rounds)
        for resource in (f"tree{n}/**", f"tree{n}/a/b")
    ]
    answers = await deployment.ask(*requests, connections=16)
    for n in range(rounds):
        statuses = sorted(answer.status for answer in answers[2 * n : 2 * n + 2])
        assert statuses == [201, 409], f"tree{n}: {statuses}"


async def test_of_all_who_ask_at_once_for_what_has_come_free_one_gets_it(deployment: Deployment) -> None:
    """Everything is there to be locked now, and nothing but the locks keeps two servers from both giving it out."""
    headers = deployment.keys["bot"].headers
    resources = [f"free{n}/a" for n in range(dose(30))]
    asks = [post("/api/v1/leases", {"resource": resource}, headers=headers) for resource in resources]
    for held in [answer.json() for answer in await deployment.ask(*asks)]:
        release = post(
            f"/api/v1/leases/{held['lease_id']}/release", {"fence": held["fence"]}, headers=headers
        )
        await deployment.ask(release)
    answers = await deployment.ask(*(ask for ask in asks for _ in range(4)), connections=16)
    for n, resource in enumerate(resources):
        statuses = sorted(answer.status for answer in answers[4 * n : 4 * n + 4])
        assert statuses == [201, 409, 409, 409], f"{resource}: {statuses}"


async def test_a_lease_that_is_being_renewed_is_never_overlooked(deployment: Deployment) -> None:
    """A renewal locks the lease; a caller that wants everything around it must see it all the same."""
    headers = deployment.keys["bot"].headers
    (held,) = await deployment.ask(post("/api/v1/leases", {"resource": "renewed/a"}, headers=headers))
    path, fence = f"/api/v1/leases/{held.json()['lease_id']}/renew", {"fence": held.json()["fence"]}
    renewals = [post(path, fence, headers=headers)] * dose(150)
    tries = [post("/api/v1/leases", {"resource": "renewed/**"}, headers=headers)] * dose(150)
    renewed, tried = await asyncio.gather(
        deployment.ask(*renewals, connections=8, url=deployment.urls[0]),
        deployment.ask(*tries, connections=8, url=deployment.urls[-1]),
    )
    assert {answer.status for answer in tried} == {409}
    assert {answer.word for answer in tried} == {"lock_busy"}
    assert Counter(answer.status for answer in renewed)[200] > 0
    assert not any(answer.word == "fence_stale" for answer in renewed)


async def test_whoever_shares_shuts_out_whoever_wants_it_alone_and_nobody_else(
    deployment: Deployment,
) -> None:
    """And the other way round: while one holder has it alone, nobody shares it."""
    headers = deployment.keys["bot"].headers

    def asks(resource: str, mode: str, count: int) -> list[Request]:
        return [post("/api/v1/leases", {"resource": resource, "mode": mode}, headers=headers)] * count

    for n in range(dose(4)):
        shared, alone = f"shared{n}/a", f"alone{n}/a"
        await deployment.ask(*asks(shared, "shared", 1), *asks(alone, "exclusive", 1))
        wanted = [*asks(shared, "exclusive", 8), *asks(shared, "shared", 8), *asks(alone, "shared", 8)]
        answers = await deployment.ask(*wanted, connections=24)
        assert [answer.status for answer in answers] == [409] * 8 + [201] * 8 + [409] * 8


async def test_fences_grow_over_restarts(place: Deployment) -> None:
    fences: list[int] = []
    for _ in range(2):
        fences += await taken_fences(place, 5)
        for server in place.servers:
            server.kill()
            server.start()
    fences += await taken_fences(place, 5)
    assert fences == sorted(set(fences))
