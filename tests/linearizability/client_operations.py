"""What the clients do, one call at a time: lease, approve, claim, act once, start runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.linearizability.models import LeaseAnswer
from tests.linearizability.recording_client import Client

TTL = 1
USES = 5
LIMIT = 4


class UnexpectedAnswer(AssertionError):
    """An answer that no model knows."""


async def lease(client: Client, resource: str) -> None:
    """Acquire, renew, check or release, also with fences that are long over."""
    mine: list[tuple[str, int]] = client.memory.setdefault(resource, [])
    if not mine or client.chance.random() < 0.3:
        await _acquire(client, resource, mine)
        return
    lease_id, fence = mine[-1] if client.chance.random() < 0.7 else client.chance.choice(mine)
    verb = client.chance.choice(["renew", "renew", "check", "check", "release"])
    given = (fence, TTL) if verb == "renew" else fence
    found = await client.ask(resource, verb, given, f"leases/{lease_id}/{verb}", {"fence": fence})
    if found is None:
        return
    answer, invoked = found
    if answer.word == "lock_busy":
        return
    client.record(resource, verb, given, invoked, _lease_answer(verb, answer, fence))


async def _acquire(client: Client, resource: str, mine: list[tuple[str, int]]) -> None:
    body = {"resource": resource, "ttl_seconds": TTL}
    found = await client.ask(resource, "acquire", TTL, "leases", body)
    if found is None:
        return
    answer, invoked = found
    if answer.status == 201:
        got = answer.json()
        mine.append((got["lease_id"], got["fence"]))
        known = LeaseAnswer(got["fence"], _moment(got["since"]), _moment(got["expires_at"]))
        client.record(resource, "acquire", TTL, invoked, known)
    elif answer.word == "lock_busy" and "holder" in answer.json():
        client.record(resource, "acquire", TTL, invoked, "held")
    elif answer.word != "lock_busy":
        raise UnexpectedAnswer(answer)


def _lease_answer(verb: str, answer: Any, fence: int) -> Any:
    if answer.word == "fence_stale":
        return "stale"
    if answer.status != 200:
        raise UnexpectedAnswer(answer)
    document = answer.json()
    if verb == "check":
        return document["current"]
    if verb == "release":
        return "ok"
    expires = _moment(document["expires_at"])
    return LeaseAnswer(fence, expires - TTL, expires)


async def approval(client: Client, job: str) -> None:
    """Approve or reject."""
    verb = client.chance.choice(["approve", "reject"])
    body = {"reason": "no"} if verb == "reject" else {}
    found = await client.ask(job, verb, None, f"approvals/{job}/{verb}", body, by=client.name)
    if found is None or found[0].word == "lock_busy":
        return
    if found[0].word.removeprefix("already_") not in ("approved", "rejected"):
        raise UnexpectedAnswer(found[0])
    client.record(job, verb, None, found[1], found[0].word)


async def claim(client: Client, grant: str) -> None:
    """Claim a use; now and then repeat an old claim."""
    old: list[str] = client.memory.setdefault(grant, [])
    if not old or client.chance.random() < 0.7:
        old.append(f"{client.name}-{grant[-8:]}-{len(old)}")
    execution = client.chance.choice(old[-3:])
    body = {"task": "deploy", "execution_id": execution, "grant_id": grant}
    found = await client.ask(grant, "claim", execution, "grants/claim", body)
    if found is None or found[0].word == "lock_busy":
        return
    document = found[0].json()
    if found[0].status != 200:
        raise UnexpectedAnswer(found[0])
    client.record(grant, "claim", execution, found[1], document["use"] if document["claimed"] else "spent")


async def effect(client: Client, action: str) -> None:
    """Begin it, or commit what one began."""
    fence = client.memory.get(action)
    if fence is not None and client.chance.random() < 0.5:
        body = {"fence": fence, "result": {"paid": True}}
        found = await client.ask(action, "commit", fence, f"effects/{action}/commit", body)
        if found is not None and found[0].word != "lock_busy":
            if found[0].status != 200:
                raise UnexpectedAnswer(found[0])
            client.record(action, "commit", fence, found[1], "committed")
        return
    body = {"request_hash": "sha256:" + "0" * 64, "ttl_seconds": 600}
    found = await client.ask(action, "begin", None, f"effects/{action}/begin", body)
    if found is None or found[0].word == "lock_busy":
        return
    answer, invoked = found
    said = {201: "begun", 200: "replayed", 409: "in_progress"}.get(answer.status, "")
    if (answer.status == 409 and answer.word != "effect_in_progress") or not said:
        raise UnexpectedAnswer(answer)
    if said == "begun":
        client.memory[action] = answer.json()["fence"]
    client.record(action, "begin", None, invoked, client.memory[action] if said == "begun" else said)


async def admission(client: Client, workflow: str) -> None:
    """Start a run, or complete one's own."""
    mine: list[tuple[str, str, int]] = client.memory.setdefault(workflow, [])
    if mine and client.chance.random() < 0.6:
        label, run, fence = mine.pop()
        found = await client.ask(
            workflow, "complete", label, f"workflow-runs/{run}/complete", {"fence": fence}
        )
        if found is None:
            return
        if found[0].word == "lock_busy":
            mine.append((label, run, fence))
        elif found[0].status == 200:
            client.record(workflow, "complete", label, found[1], "completed")
        else:
            raise UnexpectedAnswer(found[0])
        return
    client.memory["runs"] = client.memory.get("runs", 0) + 1
    label = f"{client.name}-{client.memory['runs']}"
    found = await client.ask(workflow, "start", label, f"workflows/{workflow}/runs", {"ttl_seconds": 600})
    if found is None:
        return
    answer, invoked = found
    if answer.status == 201:
        mine.append((label, answer.json()["run_id"], answer.json()["fence"]))
        client.record(workflow, "start", label, invoked, "admitted")
    elif answer.word == "max_concurrent_runs":
        client.record(workflow, "start", label, invoked, "full")
    else:
        raise UnexpectedAnswer(answer)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
