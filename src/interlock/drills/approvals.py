"""`drill approvals`: many people decide one request at once; it must end in one state, reported to all alike."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from interlock.drills.place import Caller, Place, PlaceUnfit
from interlock.drills.report import Answer, Check, Phase, Report, phase, report

TOPIC = "drill.approvals"
ROUNDS = ("approves", "rejects", "mixed")
_FINAL = {"approved": "PENDING", "rejected": "DENIED"}


async def drill_approvals(place: Place, *, people: int = 20, topic: str = TOPIC, env: str = "") -> Report:
    """Everybody approves; everybody rejects; half and half."""
    where = {"topic": topic, **({"env": env} if env else {})}
    groups = await _groups(place, where)
    agent = await place.caller("agent", "agent", ["submit"])
    reviewers = [await place.caller(f"reviewer-{n}", "person", ["review"], groups) for n in range(people)]
    await place.warm_up(people)
    phases: list[Phase] = []
    checks: list[Check] = []
    for name in ROUNDS:
        job_id = await _submitted(place, agent, where, name)
        answers = await _decided(job_id, reviewers, name)
        phases.append(phase(name, answers))
        checks += await _checked(place, name, job_id, answers)
    return report("approvals", place.url, phases, checks, left_behind=await place.clean_up())


async def _groups(place: Place, where: dict[str, str]) -> list[str]:
    """Who must decide, if the policy asks exactly one person about this topic."""
    found = await place.admin.surely("POST", "policy/evaluate", {**where, "payload": {}})
    asked: dict[str, Any] = found.get("approval") or {}
    if found["decision"] != "require_human" or asked.get("quorum", 1) != 1:
        rule = '{id: drill, when: {topic: "drill.**"}, decision: require_human}'
        raise PlaceUnfit(
            f"the policy does not ask one person about {where['topic']} (it says {found['decision']}); "
            f"name a topic that it asks about with --topic, or add the rule {rule}"
        )
    return list(asked.get("groups") or ())


async def _submitted(place: Place, agent: Caller, where: dict[str, str], name: str) -> str:
    job = await agent.surely("POST", "jobs", {**where, "payload": {"drill": name}})
    job_id = str(job["id"])
    place.undo(f"job {job_id}", lambda: _withdrawn(agent, job_id))
    return job_id


async def _withdrawn(agent: Caller, job_id: str) -> None:
    """Cancel a job that may still run; one that was denied is over."""
    answer = await agent.call("POST", f"jobs/{job_id}/cancel", {"reason": "a drill"})
    if answer.status not in (200, 409):
        raise PlaceUnfit(f"it could not be cancelled: {answer.field('detail')}")


async def _decided(job_id: str, reviewers: Sequence[Caller], name: str) -> list[Answer]:
    def decide(number: int, reviewer: Caller) -> asyncio.Future[Answer]:
        approves = name == "approves" or (name == "mixed" and number % 2 == 0)
        verb = "approve" if approves else "reject"
        return asyncio.ensure_future(
            reviewer.call("POST", f"approvals/{job_id}/{verb}", {"reason": "a drill"})
        )

    return list(await asyncio.gather(*(decide(n, reviewer) for n, reviewer in enumerate(reviewers))))


async def _checked(place: Place, name: str, job_id: str, answers: Sequence[Answer]) -> list[Check]:
    words = [answer.word for answer in answers]
    winners = [word for word in words if word in _FINAL]
    decisions = {answer.field("decision_id") for answer in answers} - {None}
    state = (await place.admin.surely("GET", f"jobs/{job_id}"))["state"]
    expected = _FINAL.get(winners[0]) if len(winners) == 1 else None
    allowed = {*_FINAL, "already_approved", "already_rejected", "lock_busy"}
    return [
        Check(claim=f"{name}: one call decided", held=len(winners) == 1, seen=", ".join(winners) or "none"),
        Check(claim=f"{name}: the state is the winner's", held=state == expected, seen=str(state)),
        Check(
            claim=f"{name}: all were told of one decision", held=len(decisions) == 1, seen=f"{len(decisions)}"
        ),
        Check(
            claim=f"{name}: everybody got a clear answer",
            held=set(words) <= allowed,
            seen=", ".join(sorted(set(words))),
        ),
    ]
