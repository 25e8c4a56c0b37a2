"""Two agents and a person on one ticket: a concurrent edit, a take-over, and a refund with an unknown outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from interlock.demo.company import REFUND
from interlock.demo.refunder import ACTION
from interlock.demo.stage import StageBroken
from interlock.demo.story import Answer, Promise

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.stage import Actor
    from interlock.demo.story import Story

TICKET = "ticket:4711"
REPLY = f"{TICKET}/reply"
DONE = {"done": ["greeting", "apology"], "partial": "the refund", "open_questions": ["which account?"]}
_SECONDS_MAX = 45.0
_LOOK_SECONDS = 0.05


def play(company: Company, story: Story) -> list[Promise]:
    """The edit, the take-over and the refund."""
    drafter, closer = (
        company.stage.cast(name, kind="agent", roles=["submit"], owner="mia")
        for name in ("drafter", "closer")
    )
    # Started first, because a process takes a moment to come up and another to die.
    company.stage.hire(closer, "interlock.demo.refunder")
    return [
        *_edited(company, story, drafter, closer),
        *_taken_over(story, drafter, closer),
        *_refunded(company, story, closer),
    ]


def told(
    renewed: Answer, approval: Answer, conflict: dict[str, Any], edited: dict[str, Any]
) -> list[Promise]:
    """What everybody learns of an edit."""
    actors = {side["actor"] for side in conflict["competing"]}
    ids = {edited["conflict_id"], renewed.body.get("conflict_id"), approval.body.get("conflict_id")}
    return [
        Promise(
            "the agent that holds the ticket learns of the edit when it renews",
            (renewed.status, renewed.word) == (200, "conflict_detected"),
        ),
        Promise(
            "nobody approves a refund that was drafted for the old version",
            (approval.status, approval.word) == (409, "target_changed"),
        ),
        Promise(
            "one conflict names the person and both agents",
            ids == {conflict["id"]} and actors == {"drafter", "closer", "noor"},
        ),
    ]


def gone_on(taken: Answer, late: Answer, fence: int) -> list[Promise]:
    """What the successor of a silent owner gets, and the owner itself."""
    before: dict[str, Any] = taken.body.get("predecessor") or {}
    kept: dict[str, Any] = before.get("checkpoint") or {}
    found = {name: kept.get(name) for name in DONE}
    return [
        Promise(
            "whoever comes next gets the lease under a newer fence, with the checkpoint whole",
            taken.status == 201 and taken.body["fence"] > fence and found == DONE,
        ),
        Promise("the owner that was silent is refused", (late.status, late.word) == (409, "fence_stale")),
    ]


def once_only(found: str, again: Answer, resolved: Answer, replayed: Answer) -> list[Promise]:
    """What becomes of an effect that was cut off."""
    return [
        Promise("a refund cut off between begin and commit is AMBIGUOUS", found == "AMBIGUOUS"),
        Promise("nobody pays again meanwhile", (again.status, again.word) == (409, "effect_ambiguous")),
        Promise(
            "once a person has said what happened, a repeat gets the result and pays nothing",
            (resolved.word, replayed.status, replayed.body.get("replayed")) == ("COMMITTED", 200, True)
            and replayed.body.get("result") == {"receipt": "r-88"},
        ),
    ]


def _edited(company: Company, story: Story, drafter: Actor, closer: Actor) -> list[Promise]:
    where = f"targets/{quote(TICKET, safe='')}"
    drafter.post(f"{where}/touch", {"version": "v1", "summary": "first draft"})
    held = story.step("one agent takes the ticket", drafter.post("leases", _lease(TICKET, 600)))
    target = {"key": TICKET, "version": "v1"}
    asked = closer.post("jobs", {"topic": REFUND, "payload": {"amount_cents": 4_200}, "target": target})
    story.step("another asks to refund it as it stands", asked)
    edit = {"version": "v2", "summary": "the customer called"}
    edited = company.noor.post(f"{where}/touch", edit).body
    story.tell("Noor edits the ticket by hand.")
    lease, fence = held.body["lease_id"], {"fence": held.body["fence"]}
    renewed = story.step("the first agent renews", drafter.post(f"leases/{lease}/renew", fence))
    approval = story.step("Omar approves the refund", company.omar.approve(asked.body["id"]))
    conflict = company.admin.get(f"conflicts/{edited['conflict_id']}").body
    story.tell(f"{conflict['kind']}: {conflict['safest_next_step']}.")
    return told(renewed, approval, conflict, edited)


def _taken_over(story: Story, drafter: Actor, closer: Actor) -> list[Promise]:
    held = drafter.post("leases", _lease(REPLY, 3)).body
    lease, fence = held["lease_id"], {"fence": held["fence"]}
    story.step(
        "the first agent leaves a checkpoint", drafter.post(f"leases/{lease}/checkpoint", {**fence, **DONE})
    )
    story.tell("It falls silent. The other one waits in line.")
    taken = story.step("the other takes over", closer.post("leases", _lease(REPLY, 600, wait_seconds=30)))
    late = story.step("the first comes back", drafter.post(f"leases/{lease}/renew", fence))
    return gone_on(taken, late, held["fence"])


def _refunded(company: Company, story: Story, closer: Actor) -> list[Promise]:
    path = f"effects/{quote(ACTION, safe='')}"
    effect = _until_unknown(closer, path)
    story.tell(f"An agent was killed between begin and commit of {ACTION}: {effect['state']}.")
    begin = {"request_hash": effect["request_hash"]}
    again = story.step("it tries again", closer.post(f"{path}/begin", begin))
    said = {"outcome": "committed", "evidence": "bank statement, line 3", "result": {"receipt": "r-88"}}
    resolved = story.step("Noor found the payment", company.noor.post(f"{path}/resolve", said))
    replayed = story.step("it tries once more", closer.post(f"{path}/begin", begin))
    return once_only(effect["state"], again, resolved, replayed)


def _lease(resource: str, ttl_seconds: int, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "purpose": "answer the customer", "ttl_seconds": ttl_seconds, **more}


def _until_unknown(somebody: Actor, path: str) -> dict[str, Any]:
    deadline = time.monotonic() + _SECONDS_MAX
    while (effect := somebody.get(path)).body.get("state") != "AMBIGUOUS":
        if time.monotonic() > deadline:
            raise StageBroken(f"{path} is still {effect.status} {effect.word}")
        time.sleep(_LOOK_SECONDS)
    return effect.body
