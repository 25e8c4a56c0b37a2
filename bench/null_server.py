"""The same server on the same routes with the same validation, answering without a store.

What is left out is exactly what the kernel and the store do, so the ratio to it tells their price.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bench import null_identity, null_runs, null_work, serving
from interlock.kernel.idempotency import Once
from interlock.rooms.jobs.approvals import ApproveJob, Decided, DecisionOutcome
from interlock.rooms.jobs.model import Job, JobState, Verdict
from interlock.rooms.jobs.rules import SubmitJob
from interlock.service.service import Service
from interlock.service.settings import settings_from
from interlock.store import store_for

NOW = datetime.now(UTC)


class NoStore:
    """Answers commands from what they carry."""

    queue_depth = 0

    def __init__(self, kernel: Any) -> None:
        self.wakes = kernel.wakes
        self._last: Job | None = None

    def check_room(self, weight: int) -> None:
        pass

    async def run(self, command: Any, **_: Any) -> Any:
        if isinstance(command, Once):
            return command.render(self._result(command.inner))
        return self._result(command)

    def _result(self, command: Any) -> Any:
        if isinstance(command, SubmitJob):
            self._last = self._job(command)
            return self._last
        if isinstance(command, ApproveJob) and self._last is not None:
            return Decided(
                outcome=DecisionOutcome.APPROVED, job=self._last, votes=1, quorum=1, decision_id="dec_0"
            )
        known = null_work.answered(command) or null_runs.answered(command)
        if known is None:
            raise TypeError(f"{type(command).__name__} is not measured here")
        return known

    def _job(self, command: SubmitJob) -> Job:
        return Job(
            tenant="default",
            id=command.job_id or "job_0",
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


async def _serve(port: int) -> None:
    settings = settings_from({}, store="memory:")
    store: Any = null_identity.OneKey(null_runs.AnyRun(null_work.AnyLease(store_for(settings.store))))
    service = Service(store, settings)
    service.kernel = NoStore(service.kernel)  # pyright: ignore[reportAttributeAccessIssue]
    await serving.serve(service, port)


if __name__ == "__main__":
    serving.main(_serve)
