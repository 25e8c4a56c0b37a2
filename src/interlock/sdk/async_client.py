"""The async client: the same flows as the blocking client, run on the running event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple, overload

from interlock.sdk import hold as on_holds
from interlock.sdk import methods as on_granted
from interlock.sdk import once as on_once
from interlock.sdk.base import ClientBase
from interlock.sdk.flow import AsyncTransport, Flow, drive_async
from interlock.sdk.gate_decorator import Drivers
from interlock.sdk.methods import awaited, held_async, permitted_async
from interlock.sdk.operations import admission as on_admission
from interlock.sdk.operations import events as on_events
from interlock.sdk.operations import grants as on_grants
from interlock.sdk.operations import identity as on_identity
from interlock.sdk.operations import jobs as on_jobs
from interlock.sdk.operations import leases as on_leases
from interlock.sdk.operations import policy as on_policy
from interlock.sdk.operations import server as on_server
from interlock.sdk.operations import shared as on_shared
from interlock.sdk.operations import work as on_work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

    from interlock.sdk.once import GrantNeeded, LeaseLike, Reconcile
    from interlock.wire.jobs import HeldJob, Target

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


class AsyncInterlock(ClientBase):
    """The async client; one may be used from several event loops."""

    submit = awaited(on_jobs.submit)
    get_job = awaited(on_jobs.get_job)
    jobs = awaited(on_jobs.jobs)
    wait = awaited(on_jobs.wait)
    cancel_job = awaited(on_jobs.cancel_job)
    retry_job = awaited(on_jobs.retry_job)
    get_job_history = awaited(on_jobs.get_job_history)
    claim_jobs = awaited(on_work.claim_jobs)
    claim_job = awaited(on_work.claim_job)
    renew_job = awaited(on_work.renew_job)
    complete_job = awaited(on_work.complete_job)
    fail_job = awaited(on_work.fail_job)
    release_job = awaited(on_work.release_job)
    reconcile_job = awaited(on_work.reconcile_job)
    signing_keys = awaited(on_identity.signing_keys)
    rotate_signing_keys = awaited(on_identity.rotate_signing_keys)
    approvals = awaited(on_jobs.approvals)
    get_inbox = awaited(on_jobs.get_inbox)
    get_inbox_counts = awaited(on_jobs.get_inbox_counts)
    get_approval = awaited(on_jobs.get_approval)
    approve = awaited(on_jobs.approve)
    reject = awaited(on_jobs.reject)
    refresh = awaited(on_jobs.refresh)
    edit = awaited(on_jobs.edit)
    withdraw = awaited(on_jobs.withdraw)
    comment = awaited(on_jobs.comment)
    comments = awaited(on_jobs.comments)
    ask = awaited(on_jobs.ask)
    look = awaited(on_jobs.look)
    get_settings = awaited(on_server.get_settings)
    issue_grant = awaited(on_grants.issue_grant)
    grants = awaited(on_grants.grants)
    get_grant = awaited(on_grants.get_grant)
    grant_uses = awaited(on_grants.grant_uses)
    get_grant_ledger = awaited(on_grants.get_grant_ledger)
    revoke_grant = awaited(on_grants.revoke_grant)
    get_grant_terms = awaited(on_grants.get_grant_terms)
    set_grant_terms = awaited(on_grants.set_grant_terms)
    claim_grant = awaited(on_grants.claim_grant)
    signers = awaited(on_grants.signers)
    add_signer = awaited(on_grants.add_signer)
    revoke_signer = awaited(on_grants.revoke_signer)
    whoami = awaited(on_identity.whoami)
    principals = awaited(on_identity.principals)
    get_principal = awaited(on_identity.get_principal)
    set_principal = awaited(on_identity.set_principal)
    delete_principal = awaited(on_identity.delete_principal)
    api_keys = awaited(on_identity.api_keys)
    create_api_key = awaited(on_identity.create_api_key)
    revoke_api_key = awaited(on_identity.revoke_api_key)
    sessions = awaited(on_identity.sessions)
    end_session = awaited(on_identity.end_session)
    make_sign_in_link = awaited(on_identity.make_sign_in_link)
    apply_policy = awaited(on_policy.apply_policy)
    get_policy = awaited(on_policy.get_policy)
    snapshots = awaited(on_policy.snapshots)
    get_snapshot = awaited(on_policy.get_snapshot)
    observed_jobs = awaited(on_policy.observed_jobs)
    roll_back_policy = awaited(on_policy.roll_back_policy)
    evaluate_policy = awaited(on_policy.evaluate_policy)
    simulate_policy = awaited(on_policy.simulate_policy)
    start_run = awaited(on_admission.start_run)
    get_run = awaited(on_admission.get_run)
    runs = awaited(on_admission.runs)
    renew_run = awaited(on_admission.renew_run)
    complete_run = awaited(on_admission.complete_run)
    fail_run = awaited(on_admission.fail_run)
    cancel_run = awaited(on_admission.cancel_run)
    set_limit = awaited(on_admission.set_limit)
    clear_limit = awaited(on_admission.clear_limit)
    limits = awaited(on_admission.limits)
    get_admission_stats = awaited(on_admission.get_admission_stats)
    define_workflow = awaited(on_admission.define_workflow)
    get_workflow = awaited(on_admission.get_workflow)
    workflows = awaited(on_admission.workflows)
    delete_workflow = awaited(on_admission.delete_workflow)
    delete_run = awaited(on_admission.delete_run)
    get_run_timeline = awaited(on_admission.get_run_timeline)
    approve_step = awaited(on_admission.approve_step)
    rerun_run = awaited(on_admission.rerun_run)
    acquire_lease = awaited(on_leases.acquire_lease)
    leases = awaited(on_leases.leases)
    renew_lease = awaited(on_leases.renew_lease)
    checkpoint_lease = awaited(on_leases.checkpoint_lease)
    suspend_lease = awaited(on_leases.suspend_lease)
    resume_lease = awaited(on_leases.resume_lease)
    hand_off_lease = awaited(on_leases.hand_off_lease)
    release_lease = awaited(on_leases.release_lease)
    check_lease = awaited(on_leases.check_lease)
    get_lease = awaited(on_leases.get_lease)
    lease_checkpoints = awaited(on_leases.lease_checkpoints)
    lease_waiters = awaited(on_leases.lease_waiters)
    get_lease_terms = awaited(on_leases.get_lease_terms)
    set_lease_terms = awaited(on_leases.set_lease_terms)
    events = awaited(on_events.events)
    webhooks = awaited(on_events.webhooks)
    get_webhook = awaited(on_events.get_webhook)
    add_webhook = awaited(on_events.add_webhook)
    remove_webhook = awaited(on_events.remove_webhook)
    rotate_webhook = awaited(on_events.rotate_webhook)
    test_webhook = awaited(on_events.test_webhook)
    dead_letters = awaited(on_events.dead_letters)
    redeliver_dead_letter = awaited(on_events.redeliver_dead_letter)
    relays = awaited(on_events.relays)
    audit_entries = awaited(on_server.audit_entries)
    get_health = awaited(on_server.get_health)
    get_metrics = awaited(on_server.get_metrics)
    check_store = awaited(on_server.check_store)
    begin_effect = awaited(on_shared.begin_effect)
    commit_effect = awaited(on_shared.commit_effect)
    fail_effect = awaited(on_shared.fail_effect)
    resolve_effect = awaited(on_shared.resolve_effect)
    get_effect = awaited(on_shared.get_effect)
    get_effect_result = awaited(on_shared.get_effect_result)
    effects = awaited(on_shared.effects)
    touch = awaited(on_shared.touch)
    touch_targets = awaited(on_shared.touch_targets)
    get_target = awaited(on_shared.get_target)
    targets = awaited(on_shared.targets)
    conflicts = awaited(on_shared.conflicts)
    get_conflict = awaited(on_shared.get_conflict)
    resolve_conflict = awaited(on_shared.resolve_conflict)
    conflict_patterns = awaited(on_shared.conflict_patterns)
    call = awaited(on_jobs.call)
    admit = held_async(on_holds.admit)
    lease = held_async(on_holds.lease)
    granted = permitted_async(on_granted.granted)

    @overload
    async def once(
        self, action_id: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def once(
        self, action_id: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def once(
        self,
        action_id: str,
        function: Callable[[*Ts], Awaitable[R]],
        /,
        *args: *Ts,
        ttl: float | None = None,
        reconcile: Reconcile | None = None,
        job: HeldJob | str | None = None,
        lease: LeaseLike | None = None,
        target: Target | None = None,
        grant: GrantNeeded | None = None,
    ) -> R: ...
    @overload
    async def once(
        self,
        action_id: str,
        function: Callable[[*Ts], R],
        /,
        *args: *Ts,
        ttl: float | None = None,
        reconcile: Reconcile | None = None,
        job: HeldJob | str | None = None,
        lease: LeaseLike | None = None,
        target: Target | None = None,
        grant: GrantNeeded | None = None,
    ) -> R: ...
    async def once(
        self,
        action_id: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        ttl: float | None = None,
        reconcile: Reconcile | None = None,
        job: HeldJob | str | None = None,
        lease: LeaseLike | None = None,
        target: Target | None = None,
        grant: GrantNeeded | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run `function(*args, **kwargs)` once under this action id, and return what it returned.

            receipt = il.once(f"refund:{txn}", refund, txn, cents)

        A repeat, also from another process and after a crash, returns the recorded result and runs nothing. Raises
        `Busy` while another caller runs it, `Ambiguous` if nobody knows whether it happened (it raised anything but
        `NotDone`, took longer than `ttl` seconds, 60 by default, or its process died), and `Conflict` if the id was
        used with another function or other arguments. Arguments and result are JSON. A parameter called
        `downstream_key` receives the key to pass to the remote side; give it a default.

        `reconcile` is asked about an unknown outcome: it gets the effect, asks the remote side, and returns
        `Committed(result)`, `NotCommitted()` or `Unknown()`; recording that takes the role `operate`. The effect
        begins only while `job` and `lease` are yours, and `target` has its version; a `lease` is whatever
        `il.lease(…)` gave. `grant` is the task of a grant that must fit the arguments (or `{"task": …, "args": …,
        "grant_id": …}`): one use of it is consumed, and `Denied` raised if none fits. With any of these, give the
        function's own arguments by position.
        """
        return await self.drive(
            on_once.once(
                self.session,
                action_id,
                function,
                *args,
                ttl=ttl,
                reconcile=reconcile,
                job=job,
                lease=lease,
                target=target,
                grant=grant,
                **kwargs,
            )
        )

    async def drive(self, flow: Flow[T]) -> T:
        """Drive any flow of the SDK to its result."""
        return await drive_async(flow, self.transport.send)

    async def close(self) -> None:
        """Let go of connections, or of the embedded service."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        """Close at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close, whatever happened in the block."""
        await self.close()

    def _connect(self) -> None:
        self.transport = _async_transport(self.url, self.store, makes_store=self.make_store)

    def _drivers(self) -> Drivers:
        return Drivers(None, self.drive)


def _async_transport(url: str | None, store: str | None, *, makes_store: bool) -> AsyncTransport:
    if url is not None:
        from interlock.sdk.transports import AsyncHttpTransport

        return AsyncHttpTransport(url)
    from interlock.sdk.embedded import AsyncEmbeddedTransport

    return AsyncEmbeddedTransport(store, makes_store=makes_store)
