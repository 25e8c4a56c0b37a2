"""`drill admission` and `drill approvals`: many callers want the same at the same moment.

At a small limit exactly that many runs get in, and the others are told that it is full. One request that many people
decide ends in one state, which is reported to all of them alike.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

from interlock.drills.place import Caller, Place, PlaceUnfit
from interlock.drills.report import Answer, Check, Phase, Report, Steps, Tell, phase, report, tell_nobody

ALONE = 20


async def drill_admission(
    place: Place, *, crowds: Sequence[int] = (50, 300), limit: int = 2, tell: Tell = tell_nobody
) -> Report:
    """Starts one by one for comparison, then each crowd at once."""
    steps = Steps(tell, ALONE + sum(crowds))
    steps.begin("starts one by one")
    await _check_room(place, limit)
    workflow = f"drill-{secrets.token_hex(4)}"
    agent = await place.caller("agent", "agent", ["submit"])
    await place.admin.surely("PUT", f"limits/{workflow}", {"max_concurrent_runs": limit})
    place.undo(f"the limit of {workflow}", lambda: place.admin.surely("DELETE", f"limits/{workflow}"))
    phases = [phase("one by one", [await _alone(place, agent, workflow, steps) for _ in range(ALONE)])]
    checks: list[Check] = []
    for crowd in crowds:
        steps.begin(f"{crowd} starts at once")
        await place.warm_up(crowd)
        answers = await asyncio.gather(*(_start(place, agent, workflow, steps) for _ in range(crowd)))
        phases.append(phase(f"{crowd} at once", answers))
        checks += _checked(answers, crowd, limit)
        await asyncio.gather(*(_end(agent, answer) for answer in answers if answer.status == 201))
    checks.append(await _freed(place, workflow))
    return report("admission", place.url, phases, checks, left_behind=await place.clean_up())


async def _check_room(place: Place, limit: int) -> None:
    shown = await place.admin.surely("GET", "limits")
    most = next(item["max_concurrent_runs"] for item in shown["items"] if item["scope"] == "tenant")
    if most - shown["active"] < limit:
        raise PlaceUnfit(
            f"the tenant has {shown['active']} of {most} runs active, so the drill's {limit} may not fit; "
            "wait, raise its limit, or use a key of another tenant"
        )


async def _start(place: Place, agent: Caller, workflow: str, steps: Steps) -> Answer:
    answer = await agent.call("POST", f"workflows/{workflow}/runs", {"ttl_seconds": 60})
    steps.done()
    if answer.status == 201:
        place.undo(f"run {answer.field('run_id')}", lambda: _end(agent, answer))
    return answer


async def _alone(place: Place, agent: Caller, workflow: str, steps: Steps) -> Answer:
    answer = await _start(place, agent, workflow, steps)
    await _end(agent, answer)
    return answer


async def _end(agent: Caller, started: Answer) -> None:
    if started.status == 201:
        path = f"workflow-runs/{started.field('run_id')}/complete"
        await agent.surely("POST", path, {"fence": started.field("fence")})


def _checked(answers: Sequence[Answer], crowd: int, limit: int) -> list[Check]:
    admitted = sum(answer.status == 201 for answer in answers)
    full = sum(answer.status == 429 and answer.word == "max_concurrent_runs" for answer in answers)
    unavailable = sum(answer.status >= 500 or answer.status == 0 for answer in answers)
    wanted = min(crowd, limit)
    return [
        Check(
            claim=f"{crowd} at once: exactly {wanted} admitted", held=admitted == wanted, seen=str(admitted)
        ),
        Check(
            claim=f"{crowd} at once: the rest 429",
            held=full == crowd - wanted if crowd > limit else None,
            seen=str(full)
            if crowd > limit
            else f"all may run at once; let more than {limit} start (--crowds)",
        ),
        Check(claim=f"{crowd} at once: no 5xx", held=unavailable == 0, seen=str(unavailable)),
        Check(
            claim=f"{crowd} at once: every 429 says when to come back",
            held=all(answer.field("retry_after_ms") for answer in answers if answer.status == 429)
            if full
            else None,
        ),
    ]


async def _freed(place: Place, workflow: str) -> Check:
    shown = await place.admin.surely("GET", "limits?limit=200")
    active = next((item["active"] for item in shown["items"] if item["scope"] == workflow), 0)
    return Check(claim="every slot is free again", held=active == 0, seen=f"{active} active")


TOPIC = "drill.approvals"
ROUNDS = ("approves", "rejects", "mixed")
_FINAL = {"approved": "PENDING", "rejected": "DENIED"}


async def drill_approvals(
    place: Place, *, people: int = 20, topic: str = TOPIC, env: str = "", tell: Tell = tell_nobody
) -> Report:
    """Everybody approves; everybody rejects; half and half."""
    steps = Steps(tell, people * (1 + len(ROUNDS)))
    steps.begin("people are made")
    where = {"topic": topic, **({"env": env} if env else {})}
    groups = await _groups(place, where)
    agent = await place.caller("agent", "agent", ["submit"])
    reviewers: list[Caller] = []
    for n in range(people):
        reviewers.append(await place.caller(f"reviewer-{n}", "person", ["review"], groups))
        steps.done()
    await place.warm_up(people)
    phases: list[Phase] = []
    checks: list[Check] = []
    for name in ROUNDS:
        steps.begin(f"{people} people decide one request: {name}")
        job_id = await _submitted(place, agent, where, name)
        answers = await _decided(job_id, reviewers, name, steps)
        phases.append(phase(name, answers))
        checks += await _decision_checks(place, name, job_id, answers)
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


async def _decided(job_id: str, reviewers: Sequence[Caller], name: str, steps: Steps) -> list[Answer]:
    async def decide(number: int, reviewer: Caller) -> Answer:
        approves = name == "approves" or (name == "mixed" and number % 2 == 0)
        verb = "approve" if approves else "reject"
        answer = await reviewer.call("POST", f"approvals/{job_id}/{verb}", {"reason": "a drill"})
        steps.done()
        return answer

    return list(await asyncio.gather(*(decide(n, reviewer) for n, reviewer in enumerate(reviewers))))


def _one_decided(name: str, winners: Sequence[str], *, people: int) -> Check:
    """One person alone competes with nobody."""
    claim, seen = f"{name}: one call decided", ", ".join(winners) or "none"
    if people == 1 and len(winners) == 1:
        return Check(claim=claim, held=None, seen=f"{seen}, by the only person; use --people 2 or more")
    return Check(claim=claim, held=len(winners) == 1, seen=seen)


async def _decision_checks(place: Place, name: str, job_id: str, answers: Sequence[Answer]) -> list[Check]:
    words = [answer.word for answer in answers]
    winners = [word for word in words if word in _FINAL]
    decisions = {answer.field("decision_id") for answer in answers} - {None}
    state = (await place.admin.surely("GET", f"jobs/{job_id}"))["state"]
    expected = _FINAL.get(winners[0]) if len(winners) == 1 else None
    allowed = {*_FINAL, "already_approved", "already_rejected", "lock_busy"}
    return [
        _one_decided(name, winners, people=len(answers)),
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
