"""A real service on a real store, with somebody who asks and people who decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock import AsyncInterlock, Interlock, Job
from interlock.kernel.codec.canonical import canonical

POLICY = """
version: v1
default: deny
rules:
  - {id: reads, when: {topic: read.**}, decision: allow}
  - {id: pays, when: {topic: pay.**}, decision: require_human}
  - {id: thinks, when: {topic: think.**}, decision: require_human, approval: {grace: 2s}}
  - {id: hurries, when: {topic: hurry.**}, decision: require_human, approval: {expires_in: 1s}}
"""


class ApprovalTeam:
    """A store with a policy, somebody who asks (`il`, `ail`) and people who decide."""

    def __init__(self, path: Path) -> None:
        store = f"sqlite:///{path}/interlock.db"
        self.il = Interlock(store=store)
        self.ail = AsyncInterlock(store=store)
        self.il.apply_policy(POLICY)
        self.ann, self.bob = self.person("ann"), self.person("bob")
        self.seen: list[bytes] = []

    def person(self, name: str) -> Interlock:
        body = {"kind": "person", "roles": ["review"]}
        issued = self.il.call("POST", "principals", name, "keys", body=body)
        return Interlock(store=self.il.store, key=issued["key"])

    def approve(self, job: Job) -> None:
        """Say yes to exactly what is shown, and remember it."""
        shown = self.ann.get_approval(job.id)
        self.seen.append(canonical(shown.payload))
        self.ann.approve(job.id, job_hash=shown.job.job_hash)

    def reject(self, job: Job) -> None:
        self.ann.reject(job.id, reason="The invoice is from last year.")

    def edit(self, change: dict[str, Any]) -> Callable[[Job], None]:
        def edit_then_approve(job: Job) -> None:
            self.bob.edit(job.id, job.payload | change, reason="Pay less.")
            self.approve(job)

        return edit_then_approve

    def close(self) -> None:
        self.il.close()
        self.ann.close()
        self.bob.close()
        asyncio.run(self.ail.close())
