"""The API with an admission gate: shorthand for starting runs, waiting for them, and looking at what is counted."""

from __future__ import annotations

from typing import Any

from interlock.kernel.ids import new_id
from interlock.kernel.refusal import Refusal
from interlock.rooms.admission.model import GATES, TENANT_SCOPE, Gate, GateFull, Run, workflow_scope
from interlock.rooms.admission.queries import tenant_gate
from interlock.rooms.admission.rules import LeaveLine, ReclaimSlots, StartRun
from interlock.rooms.admission.slots import RECLAIM_MAX
from interlock.rooms.identity.model import Caller
from tests.harness.in_process_api import InProcessApi, Seen


class AdmissionClient:
    """The API, an operator (`api.admin`), and an agent who starts runs."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.bot = ""
        self.caller = Caller(tenant="default", principal="bot")

    async def open(self) -> AdmissionClient:
        self.bot = await self.api.agent()
        return self

    async def limit(self, most: int, scope: str = TENANT_SCOPE) -> None:
        seen = await self.api.call("PUT", f"limits/{scope}", self.api.admin, {"max_concurrent_runs": most})
        assert seen.status == 200, seen.document

    async def ask(self, workflow: str = "w", *, key: str | None = None, **fields: Any) -> Seen:
        return await self.api.call(
            "POST", f"workflows/{workflow}/runs", self.bot, fields, idempotency_key=key
        )

    async def start(self, workflow: str = "w", **fields: Any) -> dict[str, Any]:
        seen = await self.ask(workflow, **fields)
        assert seen.status == 201, seen.document
        return seen.document

    async def end(self, run: dict[str, Any], verb: str = "complete", **fields: Any) -> Seen:
        body = {"fence": run["fence"], **fields}
        return await self.api.call("POST", f"workflow-runs/{run['run_id']}/{verb}", self.bot, body)

    async def queue(self, ticket: str, workflow: str = "w", run_id: str | None = None) -> Run | GateFull:
        """One try of a caller who waits, without the route's own waiting."""
        command = StartRun(
            caller=self.caller,
            workflow=workflow,
            run_id=run_id or new_id("run"),
            ttl_seconds=60,
            ticket=ticket,
        )
        try:
            return await self.api.service.kernel.run(command)
        except GateFull as full:
            return full

    async def leave(self, ticket: str, run_id: str) -> None:
        await self.api.service.kernel.run(LeaveLine(caller=self.caller, ticket=ticket, call_id=run_id))

    async def reclaim(self) -> int:
        """What the sweep does, by this clock."""
        total, lost = 0, RECLAIM_MAX
        while lost == RECLAIM_MAX:
            lost = await self.api.service.kernel.run(ReclaimSlots(tenant="default"))
            total += lost
        return total

    async def gate(self, workflow: str | None = None) -> Gate:
        scope = TENANT_SCOPE if workflow is None else workflow_scope(workflow)
        found = await self.api.service.store.get(GATES, "default", scope)
        return found or Gate(tenant="default", id=scope)

    async def line(self) -> list[str]:
        return [ticket.id for ticket in (await self.gate()).waiting_at(self.api.clock.now)]

    async def counts(self) -> tuple[int, int]:
        """How many runs the tenant's gate counts, and how many there are."""
        gate, running = await tenant_gate(self.api.service.store, "default")
        return gate.active, running


def word(outcome: Run | Refusal) -> str:
    """`in`, or `full`."""
    return "in" if isinstance(outcome, Run) else "full"
