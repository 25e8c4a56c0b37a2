"""What the service says happened, and whether it is what may happen."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from interlock import Interlock

OVER = frozenset({"SUCCEEDED", "FAILED"})


def pages(il: Interlock, *segments: str, **query: Any) -> list[dict[str, Any]]:
    """Every item of a list."""
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = il.call("GET", *segments, query={**query, "limit": 200, "cursor": cursor})
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items


def unfinished(il: Interlock) -> int:
    """How many jobs are not over; counted up to one page a state while there are many."""
    found = (il.call("GET", "jobs", query={"state": state, "limit": 200}) for state in ("PENDING", "RUNNING"))
    # A job that goes from one state to the other between two lists is in neither; what is over stays over.
    return sum(len(page["items"]) for page in found) or sum(
        job["state"] not in OVER for job in pages(il, "jobs")
    )


class Ledger:
    """Jobs as they ended, and every audit entry about them."""

    def __init__(self, il: Interlock) -> None:
        self.jobs = {job["id"]: job for job in pages(il, "jobs")}
        self.entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for entry in reversed(pages(il, "audit")):
            if entry["subject"] in self.jobs:
                self.entries[entry["subject"]].append(entry)

    def count(self, action: str) -> int:
        return sum(entry["action"] == action for entries in self.entries.values() for entry in entries)

    def stale(self) -> int:
        """How many calls were refused for their fence."""
        return sum(
            entry["outcome"] == "fence_stale" for entries in self.entries.values() for entry in entries
        )

    def states(self) -> Counter[str]:
        return Counter(job["state"] for job in self.jobs.values())

    def check(self) -> None:
        """Each job ended exactly once, under the fence of its newest claim, which its result tells."""
        for job_id, job in self.jobs.items():
            entries = self.entries[job_id]
            assert job["state"] in OVER, (job_id, job["state"], job["not_before"])
            done = [entry for entry in entries if entry["outcome"] == "done"]
            ends = [entry for entry in done if entry["details"]["state"] in OVER]
            assert len(ends) == 1, (job_id, entries)
            if job["state"] == "SUCCEEDED":
                # Workers give their fence as the result; fences are counted from 1, one for each claim.
                assert job["result"] == sum(entry["action"] == "claim" for entry in done), (job_id, entries)
            self._check_order(job_id, done)

    def _check_order(self, job_id: str, entries: list[dict[str, Any]]) -> None:
        """Between two claims the first one's hold ended; nothing ends that is not held."""
        held = False
        for entry in entries:
            if entry["action"] == "claim":
                assert not held, (job_id, entries)
                held = True
            elif entry["action"] in ("complete", "fail", "lose", "release"):
                assert held, (job_id, entries)
                held = False
