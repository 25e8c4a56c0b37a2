"""Whatever people, agents, clocks and policies do in whatever order, some things stay true."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.in_process_api import InProcessApi, Seen, open_api

POLICY = """
version: v1
rules:
  - id: ask
    when: {{topic: pay}}
    decision: require_human
    approval: {{quorum: {quorum}, expires_in: 1h, binding: {binding}}}
  - {{id: other, when: {{topic: {other}}}, decision: allow}}
"""
POLICIES = [
    POLICY.format(quorum=quorum, binding=binding, other=other)
    for quorum in (1, 2)
    for binding in ("strict", "semantic")
    for other in ("a", "b")
]
PEOPLE = ("ada", "bob", "eve")
JOBS = 2

person = st.sampled_from(PEOPLE)
which = st.integers(0, JOBS - 1)
move = st.one_of(
    st.tuples(st.just("approve"), which, person),
    st.tuples(st.just("approve"), which, person),
    st.tuples(st.just("reject"), which, person),
    st.tuples(st.just("cancel"), which, st.just("bot")),
    st.tuples(st.just("refresh"), which, st.sampled_from((*PEOPLE, "bot"))),
    st.tuples(st.just("edit"), which, st.sampled_from((*PEOPLE, "bot"))),
    st.tuples(st.just("policy"), st.integers(0, len(POLICIES) - 1), st.just("")),
    st.tuples(st.just("roles"), st.booleans(), person),
    st.tuples(st.just("sweep"), st.just(0), st.just("")),
)
burst = st.tuples(st.lists(move, min_size=1, max_size=5), st.sampled_from((0, 0, 0, 1800, 3600)))


async def play(
    api: InProcessApi, keys: dict[str, str], jobs: list[str], verb: str, target: Any, who: str
) -> Seen | None:
    if verb == "policy":
        await api.policy(POLICIES[target])
    elif verb == "sweep":
        await api.sweep()
    elif verb == "roles":
        await api.call("PUT", f"principals/{who}", api.admin, {"roles": ["review"] if target else []})
    elif verb == "cancel":
        return await api.call("POST", f"jobs/{jobs[target]}/cancel", keys[who], {})
    else:
        body = {
            "approve": {},
            "reject": {"reason": "no"},
            "refresh": {},
            "edit": {"payload": {}, "reason": "x"},
        }
        return await api.call("POST", f"approvals/{jobs[target]}/{verb}", keys[who], body[verb])
    return None


async def tell(bursts: list[tuple[list[tuple[str, Any, str]], int]]) -> None:
    async with open_api() as api:
        await api.policy(POLICIES[0])
        keys = {name: await api.person(name) for name in PEOPLE} | {"bot": await api.agent()}
        jobs = [await api.submit(keys["bot"], {"n": n}) for n in range(JOBS)]
        decided: Counter[tuple[str, str]] = Counter()
        for moves, seconds in bursts:
            answers = await asyncio.gather(*(play(api, keys, jobs, *each) for each in moves))
            for answer in answers:
                if answer is not None:
                    assert answer.status in (200, 403, 409), answer.document
                    decided[answer.document.get("job_id", ""), answer.word] += 1
            api.clock.advance(seconds)
            for job in jobs:
                await check(api, job, decided)


async def check(api: InProcessApi, job: str, decided: Counter[tuple[str, str]]) -> None:
    now = await api.job(job)
    events, audit = Counter(await api.events(job)), Counter(await api.audit(job))
    for verb, word in (("approve", "approved"), ("reject", "rejected")):
        assert decided[job, word] == events[f"approval.{word}"] == audit[verb, "done"]
    assert events["approval.approved"] + events["approval.rejected"] <= 1
    if now["state"] in ("PENDING", "EXPIRED", "DENIED", "CANCELLED"):
        approval: Any = now["approval"] or {"state": "none"}
        granted = approval["state"] == "approved"
        assert (now["labels"].get("approval_granted") == "true") == granted
        assert now["state"] != "PENDING" or granted
        if granted:
            assert len({vote["principal"] for vote in approval["votes"]}) >= approval["quorum"]
    if events["approval.rejected"]:
        assert now["state"] == "DENIED"


@given(st.lists(burst, max_size=8))
def test_one_decision_one_event_one_audit_entry_whatever_happens(
    bursts: list[tuple[list[tuple[str, Any, str]], int]],
) -> None:
    asyncio.run(tell(bursts))
