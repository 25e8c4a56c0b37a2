"""The two clients. Every method is a flow of `operations`, driven blocking or on the running loop.

A room that lands later adds its file to `operations` and one line a method here, in each client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from interlock.sdk import once as on_once
from interlock.sdk.base import ClientBase
from interlock.sdk.flow import AsyncTransport, Flow, Request, Response, Transport, drive, drive_async
from interlock.sdk.gating import Drivers
from interlock.sdk.granted import AsyncGranted, Granted, claiming
from interlock.sdk.operations import admission as on_admission
from interlock.sdk.operations import approvals as on_approvals
from interlock.sdk.operations import audit as on_audit
from interlock.sdk.operations import conflicts as on_conflicts
from interlock.sdk.operations import effects as on_effects
from interlock.sdk.operations import events as on_events
from interlock.sdk.operations import grants as on_grants
from interlock.sdk.operations import jobs as on_jobs
from interlock.sdk.operations import leases as on_leases
from interlock.sdk.operations import policy as on_policy
from interlock.sdk.operations import targets as on_targets
from interlock.sdk.operations import waiting as on_waiting
from interlock.sdk.operations import work as on_work
from interlock.sdk.operations import workflows as on_workflows
from interlock.sdk.session import Session

if TYPE_CHECKING:
    from typing import Literal, Self

    from interlock.sdk.holding import AsyncHold, Hold
    from interlock.sdk.models import Lease, Run

P = ParamSpec("P")
T = TypeVar("T")


def blocking(operation: Callable[Concatenate[Session, P], Flow[T]]) -> Callable[Concatenate[Interlock, P], T]:
    """An operation as a method that returns when it is done."""

    @wraps(operation)
    def call(self: Interlock, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(operation(self.session, *args, **kwargs))

    _describe(call, operation)
    return call


def awaited(
    operation: Callable[Concatenate[Session, P], Flow[T]],
) -> Callable[Concatenate[AsyncInterlock, P], Coroutine[Any, Any, T]]:
    """An operation as a coroutine method."""

    @wraps(operation)
    async def call(self: AsyncInterlock, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(operation(self.session, *args, **kwargs))

    _describe(call, operation)
    return call


def _describe(method: Callable[..., Any], operation: Callable[..., Flow[Any]]) -> None:
    """Show a method as it is called: on `self` instead of a session, returning the flow's result."""
    shown = signature(operation)
    session, *others = shown.parameters.values()
    result = str(shown.return_annotation).removeprefix("Flow[").removesuffix("]")
    method.__signature__ = shown.replace(  # type: ignore[attr-defined]
        parameters=[session.replace(name="self", annotation=Parameter.empty), *others],
        return_annotation=result,
    )


class Interlock(ClientBase):
    """The blocking client; threads may share one."""

    submit = blocking(on_jobs.submit)
    job = blocking(on_jobs.job)
    jobs = blocking(on_jobs.jobs)
    wait = blocking(on_waiting.wait)
    cancel = blocking(on_jobs.cancel)
    retry_job = blocking(on_jobs.retry_job)
    history = blocking(on_jobs.history)
    claim_jobs = blocking(on_work.claim)
    claim_job = blocking(on_work.claim_job)
    renew = blocking(on_work.renew)
    complete = blocking(on_work.complete)
    fail = blocking(on_work.fail)
    release = blocking(on_work.release)
    permit_keys = blocking(on_work.permit_keys)
    approvals = blocking(on_approvals.approvals)
    approval = blocking(on_approvals.approval)
    approve = blocking(on_approvals.approve)
    reject = blocking(on_approvals.reject)
    refresh = blocking(on_approvals.refresh)
    edit = blocking(on_approvals.edit)
    grant = blocking(on_grants.grant)
    grants = blocking(on_grants.grants)
    grant_get = blocking(on_grants.grant_get)
    grant_revoke = blocking(on_grants.grant_revoke)
    grant_terms = blocking(on_grants.grant_terms)
    claim = blocking(on_grants.claim)
    signers = blocking(on_grants.signers)
    signer_add = blocking(on_grants.signer_add)
    signer_revoke = blocking(on_grants.signer_revoke)
    policy_put = blocking(on_policy.policy_put)
    policy_get = blocking(on_policy.policy_get)
    policy_snapshots = blocking(on_policy.policy_snapshots)
    policy_snapshot = blocking(on_policy.policy_snapshot)
    policy_observed = blocking(on_policy.policy_observed)
    policy_rollback = blocking(on_policy.policy_rollback)
    policy_evaluate = blocking(on_policy.policy_evaluate)
    policy_simulate = blocking(on_policy.policy_simulate)
    start_run = blocking(on_admission.start_run)
    workflow_run = blocking(on_admission.run)
    runs = blocking(on_admission.runs)
    renew_run = blocking(on_admission.renew_run)
    complete_run = blocking(on_admission.complete_run)
    fail_run = blocking(on_admission.fail_run)
    cancel_run = blocking(on_admission.cancel_run)
    set_limit = blocking(on_admission.set_limit)
    clear_limit = blocking(on_admission.clear_limit)
    limits = blocking(on_admission.limits)
    define_workflow = blocking(on_workflows.define_workflow)
    workflow = blocking(on_workflows.workflow)
    workflows = blocking(on_workflows.workflows)
    delete_workflow = blocking(on_workflows.delete_workflow)
    run_timeline = blocking(on_workflows.run_timeline)
    approve_step = blocking(on_workflows.approve_step)
    rerun = blocking(on_workflows.rerun)
    acquire_lease = blocking(on_leases.acquire_lease)
    leases = blocking(on_leases.leases)
    renew_lease = blocking(on_leases.renew_lease)
    checkpoint = blocking(on_leases.checkpoint)
    suspend_lease = blocking(on_leases.suspend_lease)
    resume_lease = blocking(on_leases.resume_lease)
    hand_off_lease = blocking(on_leases.hand_off_lease)
    release_lease = blocking(on_leases.release_lease)
    check_lease = blocking(on_leases.check_lease)
    lease_record = blocking(on_leases.lease_record)
    events = blocking(on_events.events)
    webhooks = blocking(on_events.webhooks)
    add_webhook = blocking(on_events.add_webhook)
    remove_webhook = blocking(on_events.remove_webhook)
    rotate_webhook = blocking(on_events.rotate_webhook)
    try_webhook = blocking(on_events.try_webhook)
    dead_letters = blocking(on_events.dead_letters)
    redeliver = blocking(on_events.redeliver)
    relays = blocking(on_events.relays)
    audit = blocking(on_audit.audit)
    health = blocking(on_audit.health)
    once = blocking(on_once.once)
    begin_effect = blocking(on_effects.begin_effect)
    commit_effect = blocking(on_effects.commit_effect)
    fail_effect = blocking(on_effects.fail_effect)
    resolve_effect = blocking(on_effects.resolve_effect)
    get_effect = blocking(on_effects.get_effect)
    effect_result = blocking(on_effects.effect_result)
    effects = blocking(on_effects.effects)
    touch = blocking(on_targets.touch)
    touch_many = blocking(on_targets.touch_many)
    target = blocking(on_targets.target)
    targets = blocking(on_targets.targets)
    conflicts = blocking(on_conflicts.conflicts)
    conflict = blocking(on_conflicts.conflict)
    resolve_conflict = blocking(on_conflicts.resolve_conflict)
    conflict_patterns = blocking(on_conflicts.conflict_patterns)
    call = blocking(on_jobs.call)

    def admit(
        self,
        workflow: str,
        *,
        ttl: float = 60,
        wait: float = 0,
        input: Any = None,  # noqa: A002 - the API's own word
        key: str | None = None,
    ) -> Hold[Run]:
        """`with il.admit("nightly-report") as run:` holds a slot for the block, renewed in the background.

        Raises `Full` when there is no room. The run is completed at the end, or failed if the block raises.
        """
        from interlock.sdk.holding import Hold
        from interlock.sdk.holds import run_verbs

        return Hold(self.run, run_verbs(self.session, workflow, ttl=ttl, wait=wait, input=input, key=key))

    def lease(
        self,
        resource: str,
        *,
        ttl: float = 60,
        wait: float = 0,
        purpose: str = "",
        mode: Literal["exclusive", "shared"] = "exclusive",
        session: str = "",
    ) -> Hold[Lease]:
        """`with il.lease("repo:billing/invoice.py") as held:` owns a resource for the block.

        Raises `Busy`, naming the holder, when it is taken. `held.now.predecessor` has the last checkpoint.
        """
        from interlock.sdk.holding import Hold
        from interlock.sdk.holds import lease_verbs

        verbs = lease_verbs(
            self.session, resource, ttl=ttl, wait=wait, purpose=purpose, mode=mode, as_session=session
        )
        return Hold(self.run, verbs)

    def granted(
        self,
        task: str,
        *,
        args: Any = None,
        execution_id: str | None = None,
        grant_id: str | None = None,
        signed: bool | None = None,
    ) -> Granted:
        """A block that runs only under a claimed grant; `Denied` or `Conflict` is raised instead of entering."""
        return Granted(self.run, claiming(self.session, task, args, execution_id, grant_id, signed))

    def run(self, flow: Flow[T]) -> T:
        """Drive any flow of the SDK to its result."""
        return drive(flow, self._transport)

    def close(self) -> None:
        """Let go of connections, or of the embedded service."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close, whatever happened in the block."""
        self.close()

    def _connect(self) -> None:
        self._transport = _blocking_transport(self.url, self.store)

    def _drivers(self) -> Drivers:
        return Drivers(self.run, self._run_in_loop)

    async def _run_in_loop(self, flow: Flow[T]) -> T:
        """For an async function behind a blocking client: each request takes a thread, no wait does."""
        import asyncio

        async def send(request: Request) -> Response:
            return await asyncio.to_thread(self._transport.send, request)

        return await drive_async(flow, send)


class AsyncInterlock(ClientBase):
    """The async client; one may be used from several event loops."""

    submit = awaited(on_jobs.submit)
    job = awaited(on_jobs.job)
    jobs = awaited(on_jobs.jobs)
    wait = awaited(on_waiting.wait)
    cancel = awaited(on_jobs.cancel)
    retry_job = awaited(on_jobs.retry_job)
    history = awaited(on_jobs.history)
    claim_jobs = awaited(on_work.claim)
    claim_job = awaited(on_work.claim_job)
    renew = awaited(on_work.renew)
    complete = awaited(on_work.complete)
    fail = awaited(on_work.fail)
    release = awaited(on_work.release)
    permit_keys = awaited(on_work.permit_keys)
    approvals = awaited(on_approvals.approvals)
    approval = awaited(on_approvals.approval)
    approve = awaited(on_approvals.approve)
    reject = awaited(on_approvals.reject)
    refresh = awaited(on_approvals.refresh)
    edit = awaited(on_approvals.edit)
    grant = awaited(on_grants.grant)
    grants = awaited(on_grants.grants)
    grant_get = awaited(on_grants.grant_get)
    grant_revoke = awaited(on_grants.grant_revoke)
    grant_terms = awaited(on_grants.grant_terms)
    claim = awaited(on_grants.claim)
    signers = awaited(on_grants.signers)
    signer_add = awaited(on_grants.signer_add)
    signer_revoke = awaited(on_grants.signer_revoke)
    policy_put = awaited(on_policy.policy_put)
    policy_get = awaited(on_policy.policy_get)
    policy_snapshots = awaited(on_policy.policy_snapshots)
    policy_snapshot = awaited(on_policy.policy_snapshot)
    policy_observed = awaited(on_policy.policy_observed)
    policy_rollback = awaited(on_policy.policy_rollback)
    policy_evaluate = awaited(on_policy.policy_evaluate)
    policy_simulate = awaited(on_policy.policy_simulate)
    start_run = awaited(on_admission.start_run)
    workflow_run = awaited(on_admission.run)
    runs = awaited(on_admission.runs)
    renew_run = awaited(on_admission.renew_run)
    complete_run = awaited(on_admission.complete_run)
    fail_run = awaited(on_admission.fail_run)
    cancel_run = awaited(on_admission.cancel_run)
    set_limit = awaited(on_admission.set_limit)
    clear_limit = awaited(on_admission.clear_limit)
    limits = awaited(on_admission.limits)
    define_workflow = awaited(on_workflows.define_workflow)
    workflow = awaited(on_workflows.workflow)
    workflows = awaited(on_workflows.workflows)
    delete_workflow = awaited(on_workflows.delete_workflow)
    run_timeline = awaited(on_workflows.run_timeline)
    approve_step = awaited(on_workflows.approve_step)
    rerun = awaited(on_workflows.rerun)
    acquire_lease = awaited(on_leases.acquire_lease)
    leases = awaited(on_leases.leases)
    renew_lease = awaited(on_leases.renew_lease)
    checkpoint = awaited(on_leases.checkpoint)
    suspend_lease = awaited(on_leases.suspend_lease)
    resume_lease = awaited(on_leases.resume_lease)
    hand_off_lease = awaited(on_leases.hand_off_lease)
    release_lease = awaited(on_leases.release_lease)
    check_lease = awaited(on_leases.check_lease)
    lease_record = awaited(on_leases.lease_record)
    events = awaited(on_events.events)
    webhooks = awaited(on_events.webhooks)
    add_webhook = awaited(on_events.add_webhook)
    remove_webhook = awaited(on_events.remove_webhook)
    rotate_webhook = awaited(on_events.rotate_webhook)
    try_webhook = awaited(on_events.try_webhook)
    dead_letters = awaited(on_events.dead_letters)
    redeliver = awaited(on_events.redeliver)
    relays = awaited(on_events.relays)
    audit = awaited(on_audit.audit)
    health = awaited(on_audit.health)
    once = awaited(on_once.once)
    begin_effect = awaited(on_effects.begin_effect)
    commit_effect = awaited(on_effects.commit_effect)
    fail_effect = awaited(on_effects.fail_effect)
    resolve_effect = awaited(on_effects.resolve_effect)
    get_effect = awaited(on_effects.get_effect)
    effect_result = awaited(on_effects.effect_result)
    effects = awaited(on_effects.effects)
    touch = awaited(on_targets.touch)
    touch_many = awaited(on_targets.touch_many)
    target = awaited(on_targets.target)
    targets = awaited(on_targets.targets)
    conflicts = awaited(on_conflicts.conflicts)
    conflict = awaited(on_conflicts.conflict)
    resolve_conflict = awaited(on_conflicts.resolve_conflict)
    conflict_patterns = awaited(on_conflicts.conflict_patterns)
    call = awaited(on_jobs.call)

    def admit(
        self,
        workflow: str,
        *,
        ttl: float = 60,
        wait: float = 0,
        input: Any = None,  # noqa: A002 - the API's own word
        key: str | None = None,
    ) -> AsyncHold[Run]:
        """`async with il.admit("nightly-report") as run:` holds a slot for the block, renewed in the background.

        Raises `Full` when there is no room. The run is completed at the end, or failed if the block raises.
        """
        from interlock.sdk.holding import AsyncHold
        from interlock.sdk.holds import run_verbs

        return AsyncHold(
            self.run, run_verbs(self.session, workflow, ttl=ttl, wait=wait, input=input, key=key)
        )

    def lease(
        self,
        resource: str,
        *,
        ttl: float = 60,
        wait: float = 0,
        purpose: str = "",
        mode: Literal["exclusive", "shared"] = "exclusive",
        session: str = "",
    ) -> AsyncHold[Lease]:
        """`async with il.lease("repo:billing/invoice.py") as held:` owns a resource for the block.

        Raises `Busy`, naming the holder, when it is taken. `held.now.predecessor` has the last checkpoint.
        """
        from interlock.sdk.holding import AsyncHold
        from interlock.sdk.holds import lease_verbs

        verbs = lease_verbs(
            self.session, resource, ttl=ttl, wait=wait, purpose=purpose, mode=mode, as_session=session
        )
        return AsyncHold(self.run, verbs)

    def granted(
        self,
        task: str,
        *,
        args: Any = None,
        execution_id: str | None = None,
        grant_id: str | None = None,
        signed: bool | None = None,
    ) -> AsyncGranted:
        """A block that runs only under a claimed grant; `Denied` or `Conflict` is raised instead of entering."""
        return AsyncGranted(self.run, claiming(self.session, task, args, execution_id, grant_id, signed))

    async def run(self, flow: Flow[T]) -> T:
        """Drive any flow of the SDK to its result."""
        return await drive_async(flow, self._transport.send)

    async def close(self) -> None:
        """Let go of connections, or of the embedded service."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        """Close at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close, whatever happened in the block."""
        await self.close()

    def _connect(self) -> None:
        self._transport = _async_transport(self.url, self.store)

    def _drivers(self) -> Drivers:
        return Drivers(None, self.run)


def _blocking_transport(url: str | None, store: str | None) -> Transport:
    if url is not None:
        from interlock.sdk.transports import HttpTransport

        return HttpTransport(url)
    from interlock.sdk.embedded import EmbeddedTransport

    return EmbeddedTransport(store)


def _async_transport(url: str | None, store: str | None) -> AsyncTransport:
    if url is not None:
        from interlock.sdk.transports import AsyncHttpTransport

        return AsyncHttpTransport(url)
    from interlock.sdk.embedded import AsyncEmbeddedTransport

    return AsyncEmbeddedTransport(store)
