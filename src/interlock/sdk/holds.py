"""What can be held for a block: a run's slot (`admit`) and a resource (`lease`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from interlock.sdk.flow import Flow, taken
from interlock.sdk.lease_models import Lease
from interlock.sdk.models import Run
from interlock.sdk.operations import admission, leases
from interlock.sdk.session import Session

T = TypeVar("T")


class Verbs(Generic[T]):
    """How to acquire (`waits`: perhaps in line), renew and give back one thing; each makes a fresh flow."""

    def __init__(
        self,
        *,
        ttl_seconds: float,
        waits: bool,
        acquire: Callable[[], Flow[T]],
        renew: Callable[[T], Flow[T]],
        give_back: Callable[[T, BaseException | None], Flow[Any]],
    ) -> None:
        self.ttl_seconds = ttl_seconds
        self.waits = waits
        self.acquire = acquire
        self.renew = renew
        self.give_back = give_back

    def acquired(self) -> Flow[T]:
        """Acquire. Who is cancelled meanwhile gives it back, unless it stands in line: it would wait on for nothing."""
        return self.acquire() if self.waits else taken(self.acquire(), self.give_back)


def admit(
    client: Session,
    workflow: str,
    *,
    ttl: float = 60,
    wait: float = 0,
    input: Any = None,  # noqa: A002 - the API's own word
    key: str | None = None,
) -> Verbs[Run]:
    """`with il.admit("nightly-report") as run:` holds a slot for the block, renewed in the background.

    Raises `Full` when there is no room. The run is completed at the end, or failed if the block raises. `key` names
    the intent: after a crash the same run is held again, and `Conflict` raised if it is over or lost.
    """

    def acquire() -> Flow[Run]:
        run = yield from admission.start_run(
            client, workflow, input=input, ttl_seconds=ttl, wait_seconds=wait, key=key
        )
        if run.replayed:
            # That it was started once says nothing of now: it may have ended, and its slot be another's.
            run = yield from admission.renew_run(client, run.run_id, run.fence)
        return run

    def give_back(run: Run, error: BaseException | None) -> Flow[Any]:
        if error is None:
            return admission.complete_run(client, run.run_id, run.fence)
        return admission.fail_run(client, run.run_id, run.fence, error=type(error).__name__)

    return Verbs(
        ttl_seconds=ttl,
        waits=wait > 0,
        acquire=acquire,
        renew=lambda run: admission.renew_run(client, run.run_id, run.fence),
        give_back=give_back,
    )


def lease(
    client: Session,
    resource: str,
    *,
    ttl: float = 60,
    wait: float = 0,
    purpose: str = "",
    mode: Literal["exclusive", "shared"] = "exclusive",
    session: str = "",
) -> Verbs[Lease]:
    """`with il.lease("repo:billing/invoice.py") as held:` owns a resource for the block, whatever happens in it.

    Raises `Busy`, naming the holder, when it is taken. `held.predecessor` has the last checkpoint.
    """
    return Verbs(
        ttl_seconds=ttl,
        waits=wait > 0,
        acquire=lambda: leases.acquire_lease(
            client,
            resource,
            purpose=purpose,
            mode=mode,
            ttl_seconds=ttl,
            wait_seconds=wait,
            as_session=session,
        ),
        renew=lambda held: leases.renew_lease(client, held.lease_id, held.fence, as_session=session),
        give_back=lambda held, error: leases.release_lease(
            client, held.lease_id, held.fence, as_session=session
        ),
    )
