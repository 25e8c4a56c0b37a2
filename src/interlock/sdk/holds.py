"""What can be held for a block: a run's slot (`admit`) and a resource (`lease`)."""

from __future__ import annotations

from typing import Any, Literal

from interlock.sdk.flow import Flow
from interlock.sdk.holding import Verbs
from interlock.sdk.models import Lease, Run
from interlock.sdk.operations import admission, leases
from interlock.sdk.session import Session


def run_verbs(
    session: Session,
    workflow: str,
    *,
    ttl: float,
    wait: float,
    input: Any,  # noqa: A002 - the API's own word
    key: str | None,
) -> Verbs[Run]:
    """A slot for one run: completed if the block ends well, failed if it raises."""

    def give_back(run: Run, error: BaseException | None) -> Flow[Any]:
        if error is None:
            return admission.complete_run(session, run.run_id, run.fence)
        return admission.fail_run(session, run.run_id, run.fence, error=type(error).__name__)

    return Verbs(
        ttl_seconds=ttl,
        acquire=lambda: admission.start_run(
            session, workflow, input=input, ttl_seconds=ttl, wait_seconds=wait, key=key
        ),
        renew=lambda run: admission.renew_run(session, run.run_id, run.fence),
        give_back=give_back,
    )


def lease_verbs(
    session: Session,
    resource: str,
    *,
    ttl: float,
    wait: float,
    purpose: str,
    mode: Literal["exclusive", "shared"],
    as_session: str,
) -> Verbs[Lease]:
    """A resource, released at the end of the block whatever happened in it."""
    return Verbs(
        ttl_seconds=ttl,
        acquire=lambda: leases.acquire_lease(
            session,
            resource,
            purpose=purpose,
            mode=mode,
            ttl_seconds=ttl,
            wait_seconds=wait,
            as_session=as_session,
        ),
        renew=lambda lease: leases.renew_lease(session, lease.lease_id, lease.fence, as_session=as_session),
        give_back=lambda lease, error: leases.release_lease(
            session, lease.lease_id, lease.fence, as_session=as_session
        ),
    )
