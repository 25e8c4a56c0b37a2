"""One program's calls of an embedded store, from submitting to giving back a lease, and what it is told."""

from __future__ import annotations

import re
from typing import Any

from interlock import Interlock, InterlockError
from tests.sdk.house import House

HASH = "sha256:" + "0" * 64


class Story:
    """One program's calls, and what it was told."""

    def __init__(self, house: House) -> None:
        self._il = house.il
        self._agent = self._agent_of(house)
        self.told: list[str] = []

    def tell(self) -> list[str]:
        self._jobs()
        self._work()
        self._gated_calls()
        self._grants()
        self._effects()
        self._targets()
        self._leases()
        self._agent.close()
        return self.told

    def _call(self, *segments: str, **body: Any) -> Any:
        try:
            answer = self._il.call("POST", *segments, body=body)
        except InterlockError as refused:
            self.told.append(_without_chance(f"{segments[0]} {refused.code}: {refused}"))
            return None
        self.told.append(_without_chance(f"{segments[0]} {answer}"))
        return answer

    def _agent_of(self, house: House) -> Interlock:
        issued = house.il.call(
            "POST", "principals", "bot", "keys", body={"kind": "agent", "roles": ["submit"]}
        )
        return Interlock(store=house.il.store, key=issued["key"])

    def _jobs(self) -> None:
        asked = [self._agent.submit("pay.one", {"n": n}).id for n in range(2)]
        self._call("jobs", topic="read.one", payload={"n": 1})
        self._call("jobs", topic="write.one", payload={"n": 1})
        mine = self._call("jobs", topic="pay.mine", payload={"n": 1})
        self._call("approvals", asked[0], "approve", reason="fine")
        self._call("approvals", asked[0], "approve", reason="again")
        self._call("approvals", asked[1], "reject", reason="no")
        self._call("approvals", asked[1], "approve", job_hash=HASH)
        self._call("approvals", mine["id"], "approve", reason="my own")
        self._call("jobs", mine["id"], "cancel", reason="not needed")
        self._call("jobs", "job_nobody", "cancel")

    def _work(self) -> None:
        ended: tuple[tuple[str, dict[str, Any]], ...] = (
            ("complete", {"result": {"ok": True}}),
            ("fail", {"error": "broke", "retryable": False}),
            ("release", {"checkpoint": {"at": 3}}),
        )
        for how, with_what in ended:
            job = self._call("jobs", topic="read.work", payload={"how": how})
            held = self._il.claim_job(job["id"])
            self._call("jobs", held.id, "renew", fence=held.fence)
            self._call("jobs", held.id, how, fence=held.fence + 1, **with_what)
            self._call("jobs", held.id, how, fence=held.fence, **with_what)
            self._call("jobs", held.id, "retry", reason="once more")

    def _gated_calls(self) -> None:
        for outcome in ("committed", "not_committed"):
            job = self._call("jobs", topic="read.call", payload={"ends": outcome}, executor="caller")
            held = self._il.claim_job(job["id"])
            self._call("jobs", held.id, "reconcile", outcome=outcome, evidence="too early")
            self._call("jobs", held.id, "fail", fence=held.fence, error="broke", retryable=False)
            self._call("jobs", held.id, "retry", reason="once more")
            self._call("jobs", held.id, "reconcile", outcome=outcome, evidence="the bank says so", result=5)

    def _grants(self) -> None:
        grant = self._call("grants", task="deploy", pins={"repo": "billing"}, uses=2)
        for execution in ("one", "one", "two", "three"):
            self._call("grants", "claim", task="deploy", args={"repo": "billing"}, execution_id=execution)
        self._call("grants", "claim", task="deploy", args={"repo": "shop"}, execution_id="four")
        self._call("grants", grant["id"], "revoke")
        other = self._call("grants", task="deploy")
        self._call("grants", other["id"], "revoke", reason="changed my mind")

    def _effects(self) -> None:
        job = self._il.submit("read.effect", {})
        held = self._il.claim_job(job.id)
        permitted = {"job_id": held.id, "permit": held.permit}
        begun = self._call("effects", "pay:1", "begin", request_hash=HASH, **permitted)
        self._call("effects", "pay:1", "begin", request_hash="sha256:" + "1" * 64)
        self._call("effects", "pay:1", "commit", fence=begun["fence"], result={"paid": 5})
        self._call("effects", "pay:1", "begin", request_hash=HASH)
        begun = self._call("effects", "pay:2", "begin", request_hash=HASH)
        self._call("effects", "pay:2", "fail", fence=begun["fence"], error="no money", safe_to_retry=True)
        self._call("effects", "pay:2", "resolve", outcome="committed", evidence="the bank says so")
        self._call("effects", "pay:3", "begin", request_hash=HASH, permit="not.a.permit")

    def _targets(self) -> None:
        self._call("targets", "ticket/7", "touch", version="3", previous_version="2")
        self._call("targets", "touches", changes=[{"key": "ticket/8", "version": "1"}])

    def _leases(self) -> None:
        lease = self._il.acquire_lease("ticket/9", ttl_seconds=60)
        own = {"fence": lease.fence}
        self._call("leases", lease.lease_id, "renew", **own, progress={"at": 1})
        self._call("leases", lease.lease_id, "checkpoint", **own, done=["a"])
        self._call("leases", lease.lease_id, "check", **own)
        self._call("leases", lease.lease_id, "suspend", **own, reason="waiting_on_review")
        self._call("leases", lease.lease_id, "resume", **own)
        self._call("leases", lease.lease_id, "handoff", **own, to="bot")
        self._call("leases", lease.lease_id, "release", **own)
        self._call("leases", "lse_nobody", "release", **own)


def _without_chance(told: str) -> str:
    """What differs between two runs of the same story: ids, times, fences, permits."""
    told = re.sub(r"\b([a-z]{2,6})_[0-9a-f]{20,}\b", r"\1_", told)
    told = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?(\+00:00)?", "<time>", told)
    told = re.sub(r"\b\d{16}\b", "<fence>", told)
    told = re.sub(r"eyJ[\w\-.]+", "<permit>", told)
    told = re.sub(r"sha256:[0-9a-f]{64}", "<hash>", told)
    return re.sub(r"'retry_after_ms': \d+", "'retry_after_ms': 0", told)
