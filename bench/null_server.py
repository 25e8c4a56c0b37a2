"""The same server on the same routes with the same validation, answering without a store.

What is left out is exactly what the kernel and the store do, so the ratio to it tells their price.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import uvicorn

from bench import null_runs, null_work
from interlock.api.app import App
from interlock.api.asgi import AsgiApp
from interlock.api.assembly import assemble
from interlock.api.http import Request
from interlock.api.logs import Log
from interlock.approvals.rules import ApproveJob, Decided, Outcome
from interlock.identity.model import EVERY_ROLE, Caller, Principal, PrincipalKind
from interlock.jobs.model import Job, JobState, Verdict
from interlock.jobs.rules import SubmitJob
from interlock.kernel.idempotency import Once
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service
from interlock.runtime.settings import settings_from
from interlock.store.urls import store_for

NOW = datetime.now(UTC)
ANYONE = Known(
    Caller(tenant="default", principal="anyone"),
    Principal(tenant="default", id="anyone", kind=PrincipalKind.PERSON, roles=EVERY_ROLE, created_at=NOW),
)


class NoStore:
    """Answers commands from what they carry."""

    queue_depth = 0

    def __init__(self, kernel: Any) -> None:
        self.wakes = kernel.wakes
        self._last: Job | None = None

    async def run(self, command: Any, **_: Any) -> Any:
        if isinstance(command, Once):
            return command.render(self._result(command.inner))
        return self._result(command)

    def _result(self, command: Any) -> Any:
        if isinstance(command, SubmitJob):
            self._last = self._job(command)
            return self._last
        if isinstance(command, ApproveJob) and self._last is not None:
            return Decided(outcome=Outcome.APPROVED, job=self._last, votes=1, quorum=1, decision_id="dec_0")
        known = null_work.answered(command) or null_runs.answered(command)
        if known is None:
            raise TypeError(f"{type(command).__name__} is not measured here")
        return known

    def _job(self, command: SubmitJob) -> Job:
        return Job(
            tenant="default",
            id=command.job_id,
            version=1,
            action=command.action,
            state=JobState.PENDING,
            job_hash=command.action.hash("default"),
            policy_snapshot="sha256:0",
            verdict=Verdict(decision="allow"),
            submitted_by="anyone",
            submitted_at=NOW,
            updated_at=NOW,
        )


async def _anyone(request: Request, service: Service) -> Known:
    return ANYONE


@contextlib.asynccontextmanager
async def _opening() -> AsyncGenerator[App[Known, Service]]:
    settings = settings_from({}, store="memory:")
    service = Service(store_for(settings.store), settings)
    service.kernel = NoStore(service.kernel)  # pyright: ignore[reportAttributeAccessIssue]
    service.store = null_runs.AnyRun(null_work.AnyLease(service.store))  # pyright: ignore[reportAttributeAccessIssue]
    yield assemble(service, Log(level="error"), who=_anyone)


if __name__ == "__main__":
    uvicorn.run(
        AsgiApp(_opening),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
    )
