"""The async client: the same flows as the blocking client, run on the running event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from interlock.sdk import hold as on_holds
from interlock.sdk import methods as on_granted
from interlock.sdk import once as on_once
from interlock.sdk.base import ClientBase
from interlock.sdk.flow import AsyncTransport, Flow, drive_async
from interlock.sdk.gate_decorator import Drivers
from interlock.sdk.methods import awaited, held_async, permitted_async
from interlock.sdk.operations import admission as on_admission
from interlock.sdk.operations import admission as on_workflows
from interlock.sdk.operations import events as on_audit
from interlock.sdk.operations import events as on_events
from interlock.sdk.operations import grants as on_grants
from interlock.sdk.operations import jobs as on_approvals
from interlock.sdk.operations import jobs as on_jobs
from interlock.sdk.operations import jobs as on_waiting
from interlock.sdk.operations import leases as on_leases
from interlock.sdk.operations import policy as on_policy
from interlock.sdk.operations import server as on_server
from interlock.sdk.operations import sessions as on_sessions
from interlock.sdk.operations import shared as on_conflicts
from interlock.sdk.operations import shared as on_effects
from interlock.sdk.operations import shared as on_targets
from interlock.sdk.operations import work as on_work

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")


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
    reconcile_job = awaited(on_work.reconcile_job)
    permit_keys = awaited(on_work.permit_keys)
    rotate_permit_keys = awaited(on_work.rotate_permit_keys)
    approvals = awaited(on_approvals.approvals)
    inbox = awaited(on_approvals.inbox)
    inbox_counts = awaited(on_approvals.inbox_counts)
    approval = awaited(on_approvals.approval)
    approve = awaited(on_approvals.approve)
    reject = awaited(on_approvals.reject)
    refresh = awaited(on_approvals.refresh)
    edit = awaited(on_approvals.edit)
    withdraw = awaited(on_approvals.withdraw)
    comment = awaited(on_approvals.comment)
    comments = awaited(on_approvals.comments)
    ask = awaited(on_approvals.ask)
    look = awaited(on_approvals.look)
    settings = awaited(on_server.settings)
    grant = awaited(on_grants.grant)
    grants = awaited(on_grants.grants)
    grant_get = awaited(on_grants.grant_get)
    grant_revoke = awaited(on_grants.grant_revoke)
    grant_terms = awaited(on_grants.grant_terms)
    set_grant_terms = awaited(on_grants.set_grant_terms)
    claim = awaited(on_grants.claim)
    signers = awaited(on_grants.signers)
    signer_add = awaited(on_grants.signer_add)
    signer_revoke = awaited(on_grants.signer_revoke)
    sessions = awaited(on_sessions.sessions)
    end_session = awaited(on_sessions.end_session)
    make_sign_in_link = awaited(on_sessions.make_sign_in_link)
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
    admission_stats = awaited(on_admission.admission_stats)
    define_workflow = awaited(on_workflows.define_workflow)
    workflow = awaited(on_workflows.workflow)
    workflows = awaited(on_workflows.workflows)
    delete_workflow = awaited(on_workflows.delete_workflow)
    delete_run = awaited(on_workflows.delete_run)
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
    admit = held_async(on_holds.admit)
    lease = held_async(on_holds.lease)
    granted = permitted_async(on_granted.granted)

    async def run(self, flow: Flow[T]) -> T:
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
        return Drivers(None, self.run)


def _async_transport(url: str | None, store: str | None, *, makes_store: bool) -> AsyncTransport:
    if url is not None:
        from interlock.sdk.transports import AsyncHttpTransport

        return AsyncHttpTransport(url)
    from interlock.sdk.embedded import AsyncEmbeddedTransport

    return AsyncEmbeddedTransport(store, makes_store=makes_store)
