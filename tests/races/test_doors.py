"""Attacks on the doors around the decisions, over real HTTP on both stores: each was open once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.rooms.identity.queries import list_principals
from interlock.service.operator import issue_key
from interlock.service.service import Service
from tests.harness.load import Answer, Request, get, post
from tests.harness.server import Key
from tests.harness.soak import dose
from tests.races.deployment import Deployment, read_store

EVERY_ROLE = ",".join(Role)
_numbers = itertools.count()


def fresh(name: str) -> str:
    """A name that no other test of this deployment uses."""
    return f"{name}-{next(_numbers)}"


class Door:
    """One deployment, attacked by callers that the test makes."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.root = deployment.keys["root"]

    async def key(self, name: str, kind: str, roles: str, owner: str | None = None) -> Key:
        """A key made at the store, as its operator does."""

        async def make(service: Service) -> Key:
            given = tuple(Role(role) for role in roles.split(",") if role)
            made = await issue_key(service, name, kind=PrincipalKind(kind), roles=given, owner=owner)
            return Key(principal=name, tenant="default", key=made.key)

        return await read_store(self.deployment.store, make)

    async def send(self, method: str, path: str, by: Key, body: Any = None) -> Answer:
        """One request below `/api/v1`."""
        (answer,) = await self.deployment.ask(self.request(method, path, by, body))
        return answer

    def request(self, method: str, path: str, by: Key, body: Any = None) -> Request:
        if method == "GET":
            return get(f"/api/v1/{path}", headers=by.headers)
        sent = post(f"/api/v1/{path}", body or {}, headers=by.headers)
        return Request(method=method, path=sent.path, body=sent.body, headers=sent.headers)

    async def run(self, by: Key) -> dict[str, Any]:
        """A run that another caller started."""
        answer = await self.send("POST", f"workflows/{fresh('flow')}/runs", by)
        assert answer.status == 201, answer.body
        return answer.json()


@pytest.fixture
def door(deployment: Deployment) -> Door:
    return Door(deployment)


@pytest.mark.parametrize("kind", ["agent", "worker"])
async def test_an_agent_with_every_role_cannot_mint_a_person_or_change_the_policy(
    door: Door, kind: str
) -> None:
    mighty, victim = await door.key(fresh("mighty"), kind, EVERY_ROLE), fresh("minted")
    tries = [
        await door.send("POST", f"principals/{victim}/keys", mighty, {"kind": "person", "roles": ["review"]}),
        await door.send("PUT", "principals/root", mighty, {"groups": ["finance"]}),
        await door.send("PUT", "policy", mighty, {"version": "v1", "default": "allow"}),
        await door.send("POST", "webhooks", mighty, {"url": "https://example.com/hook"}),
        await door.send("POST", f"approvals/{await door.deployment.submit()}/approve", mighty),
    ]

    assert [(each.status, each.word) for each in tries] == [(403, "people_only")] * len(tries)
    assert victim not in await names(door)


async def test_nobody_but_its_starter_ends_or_keeps_a_run_or_learns_its_fence(door: Door) -> None:
    owner, thief = [await door.key(fresh(name), "agent", "submit,work,audit") for name in ("owner", "thief")]
    run = await door.run(owner)
    path, forged = f"workflow-runs/{run['run_id']}", {"fence": run["fence"]}

    tries = [await door.send("POST", f"{path}/{verb}", thief, forged) for verb in VERBS]
    shown = [
        await door.send("GET", each, thief)
        for each in (path, "workflow-runs", f"audit?subject={run['run_id']}")
    ]
    own = await door.send("GET", path, owner)
    done = await door.send("POST", f"{path}/complete", owner, forged | {"result": "mine"})

    assert [(each.status, each.word) for each in tries] == [(403, "forbidden")] * len(VERBS)
    assert [each.status for each in shown] == [200] * 3
    assert "fence" not in str([each.json() for each in shown])
    assert own.json()["fence"] == run["fence"]
    assert (done.json()["state"], done.json()["result"]) == ("succeeded", "mine")


async def test_an_operator_ends_somebodys_run_and_the_audit_says_so(door: Door) -> None:
    owner = await door.key(fresh("owner"), "agent", "submit")
    run = await door.run(owner)

    ended = await door.send("POST", f"workflow-runs/{run['run_id']}/cancel", door.root, {"reason": "stuck"})
    entries = (await door.send("GET", f"audit?subject={run['run_id']}&action=run_cancel", door.root)).json()[
        "items"
    ]

    assert (ended.status, ended.json()["state"]) == (200, "cancelled")
    assert "fence" not in ended.json()
    assert [(each["actor"], each["details"]["as"]) for each in entries] == [("root", "operate")]
    assert entries[0]["details"]["started_by"] == owner.principal


async def test_a_crowd_of_thieves_with_the_right_fence_never_beats_the_starter(door: Door) -> None:
    owner = await door.key(fresh("owner"), "agent", "submit")
    thieves = [await door.key(fresh("thief"), "agent", "submit,work") for _ in range(4)]
    for _ in range(dose(5)):
        run = await door.run(owner)
        path, fence = f"workflow-runs/{run['run_id']}", {"fence": run["fence"]}
        stolen = [door.request("POST", f"{path}/{verb}", each, fence) for each in thieves for verb in VERBS]
        mine = door.request("POST", f"{path}/complete", owner, fence | {"result": "mine"})

        *refused, won = await door.deployment.ask(*stolen, mine)

        assert {(each.status, each.word) for each in refused} == {(403, "forbidden")}
        assert (won.status, won.json()["result"]) == (200, "mine")


async def test_the_fence_of_a_job_and_of_a_lease_is_told_to_its_holder_alone(door: Door) -> None:
    hand, other = [await door.key(fresh(name), "worker", "work,submit,audit") for name in ("hand", "other")]
    job = await door.deployment.submit("read")
    held = (await door.send("POST", f"jobs/{job}/claim", hand)).json()
    lease = (await door.send("POST", "leases", hand, {"resource": fresh("doc")})).json()
    pages = (f"jobs/{job}", "jobs?limit=5", f"leases/{lease['lease_id']}", "leases?limit=5",
             f"audit?subject={job}", f"audit?subject={lease['resource']}", f"jobs/{job}/history")  # fmt: skip

    late = await door.send(
        "POST", f"jobs/{job}/complete", other, {"fence": held["fence"], "result": "forged"}
    )
    shown = [await door.send("GET", page, other) for page in pages]
    own = [(await door.send("GET", page, hand)).json()["fence"] for page in (pages[0], pages[2])]

    assert (late.status, late.word) == (409, "fence_stale")
    assert [each.status for each in shown] == [200] * len(pages)
    assert [page for page, each in zip(pages, shown, strict=True) if has_fence(each.json())] == []
    assert own == [held["fence"], lease["fence"]]


async def test_effects_grants_conflicts_and_refusals_tell_no_fence_of_somebody_else(door: Door) -> None:
    hand, other = [await door.key(fresh(name), "worker", "work,submit,audit") for name in ("hand", "other")]
    held = (await door.send("POST", f"jobs/{await door.deployment.submit('read')}/claim", hand)).json()
    lease = (await door.send("POST", "leases", hand, {"resource": fresh("doc")})).json()
    granted = (await door.send("POST", "grants", door.root, {"task": fresh("task")})).json()
    claim = {"task": granted["task"], "execution_id": fresh("exec")}
    used = (await door.send("POST", "grants/claim", hand, claim)).json()
    action, under = fresh("refund"), {"id": lease["lease_id"], "fence": lease["fence"]}
    begin = {"request_hash": "sha256:0", "lease": under}
    begun = (await door.send("POST", f"effects/{action}/begin", hand, begin)).json()
    forged = {"fence": begun["fence"], "result": "forged"}

    shown = [
        await door.send(
            "POST", f"effects/{fresh('x')}/begin", other, begin | {"lease": None, "job_id": held["id"]}
        ),
        await door.send("POST", f"effects/{action}/commit", other, forged),
        await door.send("POST", f"effects/{action}/begin", other, begin | {"lease": None}),
    ]
    refused = [each.status for each in shown]
    shown += [
        await door.send("GET", page, other)
        for page in (f"effects/{action}", "effects?limit=5", f"grants/{granted['id']}", f"grants/{granted['id']}/uses",
                     "conflicts?limit=5", "events/page?limit=50")
    ]  # fmt: skip
    own = (await door.send("GET", f"effects/{action}", hand)).json()

    assert refused == [409] * 3
    assert [each.json() for each in shown[3:] if has_fence(each.json())] == []
    assert [each.json() for each in shown if "current_fence" in each.json()] == []
    assert [each.json() for each in shown if str(lease["fence"]) in each.body.decode()] == []
    assert f"fence {held['fence']}" not in str([each.json() for each in shown])
    assert (own["fence"], own["lease"]["fence"], "fence" in used) == (begun["fence"], lease["fence"], True)


async def test_a_chain_of_owners_is_one_person_to_its_end(door: Door) -> None:
    ada, *chain = (fresh(name) for name in ("ada", "first", "second", "third"))
    reviewer, owner = await door.key(ada, "person", "review"), ada
    for name in chain:
        last = await door.key(name, "agent", "submit", owner)
        owner = name
    job = (await door.send("POST", "jobs", last, {"topic": "pay", "payload": {}})).json()["id"]

    refused = await door.send("POST", f"approvals/{job}/approve", reviewer)
    by_another = await door.send("POST", f"approvals/{job}/approve", door.deployment.reviewers[0])

    assert (refused.status, refused.word) == (403, "self_approval")
    assert by_another.status == 200


async def test_who_gets_an_owner_later_takes_everybody_below_along(door: Door) -> None:
    ada, middle, bot = fresh("ada"), fresh("middle"), fresh("bot")
    reviewer = await door.key(ada, "person", "review")
    await door.key(middle, "agent", "submit")
    last = await door.key(bot, "agent", "submit", middle)
    job = (await door.send("POST", "jobs", last, {"topic": "pay", "payload": {}})).json()["id"]

    moved = await door.send("PUT", f"principals/{middle}", door.root, {"owner": ada})
    refused = await door.send("POST", f"approvals/{job}/approve", reviewer)

    assert moved.status == 200
    assert (refused.status, refused.word) == (403, "self_approval")


async def test_two_principals_of_one_chain_are_one_vote(door: Door) -> None:
    end, owner = fresh("end"), None
    voters: list[Key] = []
    for name in (end, fresh("v"), fresh("v"), fresh("v")):
        voters.append(await door.key(name, "person", "review", owner))
        owner = name
    job = await door.deployment.submit("pay.three")

    answers = [await door.send("POST", f"approvals/{job}/approve", voter) for voter in voters]

    assert [each.json()["votes"] for each in answers] == [1] * len(voters)
    assert (await door.deployment.job(job))["state"] == "APPROVAL"


async def test_changes_that_meet_never_make_a_ring_of_owners(door: Door) -> None:
    for _ in range(dose(5)):
        ring = [fresh("ring") for _ in range(4)]
        for name in ring:
            await door.key(name, "agent", "submit")
        pairs = zip(ring, [*ring[1:], ring[0]], strict=True)
        changes = [
            door.request("PUT", f"principals/{name}", door.root, {"owner": owner}) for name, owner in pairs
        ]

        answers = await door.deployment.ask(*changes)

        assert sorted(each.status for each in answers) == [200, 200, 200, 409]


async def test_a_chain_has_a_bound_and_nobody_owns_themselves(door: Door) -> None:
    owner = fresh("top")
    await door.key(owner, "person", "")
    top, statuses = owner, list[int]()
    for _ in range(9):
        name = fresh("link")
        made = await door.send(
            "POST", f"principals/{name}/keys", door.root, {"kind": "agent", "roles": [], "owner": owner}
        )
        statuses.append(made.status)
        owner = name

    itself = await door.send("PUT", f"principals/{top}", door.root, {"owner": top})

    assert statuses == [201] * 8 + [409]
    assert (itself.status, itself.word) == (409, "conflict")


async def test_one_spelling_of_a_name_wins_and_the_others_are_refused(door: Door) -> None:
    for _ in range(dose(5)):
        name = fresh("ann")
        spellings = [name, name.upper(), name.title(), name.capitalize(), "A" + name[1:], "aN" + name[2:]]
        body = {"kind": "person", "roles": ["review"]}
        requests = [
            door.request("POST", f"principals/{each}/keys", door.root, body) for each in set(spellings)
        ]

        answers = await door.deployment.ask(*requests)

        assert sorted({each.status for each in answers}) == [201, 409]
        assert sum(each.status == 201 for each in answers) == 1
        assert len([each for each in await names(door) if each.lower() == name]) == 1


@pytest.mark.parametrize(
    "name", ["a%E2%80%AEnn", "a%E3%85%A4nn", "a%00nn", "ann%0A", "a%E2%80%8Bnn", "%D0%B0nn"]
)
async def test_what_cannot_be_seen_is_not_in_a_name(door: Door, name: str) -> None:
    made = await door.send(
        "POST", f"principals/{name}/keys", door.root, {"kind": "person", "roles": ["review"]}
    )

    assert (made.status, made.word) == (400, "invalid_request")


async def names(door: Door) -> list[str]:
    """Everybody whom the store knows."""

    async def read(service: Service) -> list[str]:
        found, after = await list_principals(service.store, "default", limit=200)
        while after is not None:
            page, after = await list_principals(service.store, "default", after=after, limit=200)
            found += page
        return [each.id for each in found]

    return await read_store(door.deployment.store, read)


def has_fence(shown: Any) -> bool:
    """Whether there is a fence anywhere in an answer."""
    if isinstance(shown, dict):
        return any(name in ("fence", "current_fence") or has_fence(each) for name, each in shown.items())
    return isinstance(shown, list) and any(map(has_fence, shown))


VERBS = ("renew", "complete", "fail", "cancel")
