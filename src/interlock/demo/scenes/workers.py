"""Scenes about work: workers that are killed, and two agents and a person on one ticket."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from interlock.demo.processes import PAYOUT, REFUND_ACTION, REFUND_PART, REPORT, RESERVED, WORKER_PARTS
from interlock.demo.server import REFUND, DemoBroken
from interlock.demo.story import Answer, Promise

if TYPE_CHECKING:
    from interlock.demo.server import Actor, Company
    from interlock.demo.story import Story


POISON_ATTEMPTS = 2
_SECONDS_MAX = 45.0
_LOOK_SECONDS = 0.05


def play_workers(company: Company, story: Story) -> list[Promise]:
    """Both stories at once, because most of both is waiting for leases to run out."""
    processes = WorkerProcesses(company)
    payout = _released(company, story)
    poison, other = (_report(company, poison=poison) for poison in (True, False))
    processes.start("render")
    processes.start("stall")
    processes.until(payout, lambda job: job["state"] == "RUNNING" and job["checkpoint"] is not None)
    half = processes.job(payout, "stall")
    story.tell(f"A worker has it (fence {half['fence']}) and leaves a checkpoint: {half['checkpoint']}.")
    processes.kill("stall")
    story.tell("SIGKILL to the worker. Another one starts, and the lease of the first runs out.")
    before = processes.job(payout, "stall")
    processes.start("finish")
    deaths = _poisoned(processes, story, poison)
    processes.until(payout, lambda job: job["state"] == "SUCCEEDED")
    done = processes.job(payout, "finish")
    story.tell(f"The other one finished it: attempt {done['attempt']}, fence {done['fence']}.")
    late = story.step("the first worker says that it is done", processes.complete(payout, before["fence"]))
    after = processes.job(payout, "finish")
    dead = [job["id"] for job in company.admin.get("jobs?state=FAILED").body["items"]]
    return [
        *taken_over(before, done),
        *latecomer(late, done, after),
        *buried(processes.job(poison), processes.job(other), deaths, dead),
    ]


class WorkerProcesses:
    """The worker processes, and how the jobs they work on stand."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._principals = {
            part: company.server.add_principal(f"worker-{part}", kind="worker", roles=["work"])
            for part in WORKER_PARTS
        }

    def start(self, part: str) -> None:
        """A worker process that plays this part."""
        self._company.server.start_process(self._principals[part], part)

    def kill(self, part: str) -> None:
        """End it as a power cut would."""
        self._company.server.kill_process(self._principals[part])

    def died(self, part: str) -> bool:
        """Whether it is gone."""
        return not self._company.server.is_running(self._principals[part])

    def complete(self, job_id: str, fence: int) -> Answer:
        """What the worker that stalled would send, had it come back to its senses."""
        return self._principals["stall"].post(f"jobs/{job_id}/complete", {"fence": fence, "result": "late"})

    def job(self, job_id: str, part: str | None = None) -> dict[str, Any]:
        """As this worker sees it, with the fence if it is the holder; without one, as the admin does."""
        who = self._principals[part] if part else self._company.admin
        return who.get(f"jobs/{job_id}").body

    def until(self, job_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job, as soon as this holds of it."""
        deadline = time.monotonic() + _SECONDS_MAX
        while not holds(job := self.job(job_id)):
            if time.monotonic() > deadline:
                raise DemoBroken(f"{job_id} is still {job['state']} at attempt {job['attempt']}")
            time.sleep(_LOOK_SECONDS)
        return job


def taken_over(before: dict[str, Any], done: dict[str, Any]) -> list[Promise]:
    """What the second worker got."""
    return [
        Promise("the approved payout is done although its worker died", done["state"] == "SUCCEEDED"),
        Promise(
            "under a newer fence, and the crash counts as an attempt",
            done["fence"] > before["fence"] and done["attempt"] > before["attempt"],
        ),
        Promise(
            "the second worker went on from the checkpoint of the first",
            before["checkpoint"] == RESERVED and done["result"] == {"went_on_from": RESERVED},
        ),
    ]


def latecomer(late: Answer, done: dict[str, Any], after: dict[str, Any]) -> list[Promise]:
    """What a worker gets that is no longer the one."""
    return [
        Promise("its old fence is refused", (late.status, late.word) == (409, "fence_stale")),
        Promise("and nothing of what it said is kept", after == done),
    ]


def buried(poison: dict[str, Any], other: dict[str, Any], deaths: int, dead: list[str]) -> list[Promise]:
    """What becomes of a job that kills every worker."""
    return [
        Promise(
            f"a report that kills its worker is given up after {POISON_ATTEMPTS} attempts",
            (poison["state"], poison["attempt"], deaths) == ("FAILED", POISON_ATTEMPTS, POISON_ATTEMPTS),
        ),
        Promise("it is listed as a dead letter", poison["id"] in dead),
        Promise("the report behind it was rendered", other["state"] == "SUCCEEDED"),
    ]


def _released(company: Company, story: Story) -> str:
    """A payout that a person has approved."""
    # Many attempts: on a busy machine a lease of a second may run out by itself.
    body = {"topic": PAYOUT, "payload": {"amount_cents": 12_500}, "max_attempts": 20}
    asked = story.step("the agent asks for a payout", company.agent.post("jobs", body))
    job_id: str = asked.body["id"]
    story.step("Noor approves", company.noor.approve(job_id))
    return job_id


def _report(company: Company, *, poison: bool) -> str:
    body = {"topic": REPORT, "payload": {"poison": poison}, "max_attempts": POISON_ATTEMPTS}
    return company.agent.post("jobs", body).body["id"]


def _poisoned(processes: WorkerProcesses, story: Story, poison: str) -> int:
    """Start a worker again each time the poison kills it, as a supervisor would; returns how often it died."""
    deaths = 0
    while deaths < POISON_ATTEMPTS:
        _await_death(processes)
        deaths += 1
        story.tell(
            f"A report killed its worker ({deaths} of {POISON_ATTEMPTS}). The worker is started again."
        )
        processes.start("render")
    processes.until(poison, lambda job: job["state"] == "FAILED")
    return deaths


def _await_death(processes: WorkerProcesses) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while not processes.died("render"):
        if time.monotonic() > deadline:
            raise DemoBroken("the report that kills its worker has not killed it")
        time.sleep(_LOOK_SECONDS)


TICKET = "ticket:4711"
REPLY = f"{TICKET}/reply"
DONE = {"done": ["greeting", "apology"], "partial": "the refund", "open_questions": ["which account?"]}


def play_shared_ticket(company: Company, story: Story) -> list[Promise]:
    """The edit, the take-over and the refund."""
    drafter, closer = (
        company.server.add_principal(name, kind="agent", roles=["submit"], owner="mia")
        for name in ("drafter", "closer")
    )
    # Started first, because a process takes a moment to come up and another to die.
    company.server.start_process(closer, REFUND_PART)
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
            "the next holder gets the lease under a newer fence, with the whole checkpoint",
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
    path = f"effects/{quote(REFUND_ACTION, safe='')}"
    effect = _until_unknown(closer, path)
    story.tell(f"An agent was killed between begin and commit of {REFUND_ACTION}: {effect['state']}.")
    begin = {"request_hash": effect["request_hash"]}
    again = story.step("it tries again", closer.post(f"{path}/begin", begin))
    said = {"outcome": "committed", "evidence": "bank statement, line 3", "result": {"receipt": "r-88"}}
    resolved = story.step("Noor found the payment", company.noor.post(f"{path}/resolve", said))
    replayed = story.step("it tries once more", closer.post(f"{path}/begin", begin))
    return once_only(effect["state"], again, resolved, replayed)


def _lease(resource: str, ttl_seconds: int, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "purpose": "answer the customer", "ttl_seconds": ttl_seconds, **more}


def _until_unknown(reader: Actor, path: str) -> dict[str, Any]:
    deadline = time.monotonic() + _SECONDS_MAX
    while (effect := reader.get(path)).body.get("state") != "AMBIGUOUS":
        if time.monotonic() > deadline:
            raise DemoBroken(f"{path} is still {effect.status} {effect.word}")
        time.sleep(_LOOK_SECONDS)
    return effect.body
