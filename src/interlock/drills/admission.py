"""`drill admission`: many callers at a small limit; exactly that many get in, the rest are told that it is full."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from interlock.drills.place import Caller, Place, PlaceUnfit
from interlock.drills.report import Answer, Check, Report, phase, report

ALONE = 20


async def drill_admission(place: Place, *, crowds: Sequence[int] = (50, 300), limit: int = 2) -> Report:
    """Starts one by one for comparison, then each crowd at once."""
    await _check_room(place, limit)
    workflow = f"drill-{secrets.token_hex(4)}"
    agent = await place.caller("agent", "agent", ["submit"])
    await place.admin.surely("PUT", f"limits/{workflow}", {"max_concurrent_runs": limit})
    place.undo(f"the limit of {workflow}", lambda: place.admin.surely("DELETE", f"limits/{workflow}"))
    phases = [phase("one by one", [await _alone(place, agent, workflow) for _ in range(ALONE)])]
    checks: list[Check] = []
    for crowd in crowds:
        await place.warm_up(crowd)
        answers = await asyncio.gather(*(_start(place, agent, workflow) for _ in range(crowd)))
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


async def _start(place: Place, agent: Caller, workflow: str) -> Answer:
    answer = await agent.call("POST", f"workflows/{workflow}/runs", {"ttl_seconds": 60})
    if answer.status == 201:
        place.undo(f"run {answer.field('run_id')}", lambda: _end(agent, answer))
    return answer


async def _alone(place: Place, agent: Caller, workflow: str) -> Answer:
    answer = await _start(place, agent, workflow)
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
        Check(claim=f"{crowd} at once: the rest 429", held=full == crowd - wanted, seen=str(full)),
        Check(claim=f"{crowd} at once: no 5xx", held=unavailable == 0, seen=str(unavailable)),
        Check(
            claim=f"{crowd} at once: every 429 says when to come back",
            held=all(answer.field("retry_after_ms") for answer in answers if answer.status == 429),
        ),
    ]


async def _freed(place: Place, workflow: str) -> Check:
    shown = await place.admin.surely("GET", "limits?limit=200")
    active = next((item["active"] for item in shown["items"] if item["scope"] == workflow), 0)
    return Check(claim="every slot is free again", held=active == 0, seen=f"{active} active")
