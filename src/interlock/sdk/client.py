"""The blocking client: every method runs a flow of `operations` to its end.

A new room adds its file to `operations`, and one line per method here and in `async_client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from interlock.sdk import hold as on_holds
from interlock.sdk import methods as on_granted
from interlock.sdk import once as on_once
from interlock.sdk.base import ClientBase
from interlock.sdk.flow import Flow, Transport, drive, drive_async
from interlock.sdk.gate_decorator import Drivers
from interlock.sdk.methods import blocking, held, permitted
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
    reconcile_job = blocking(on_work.reconcile_job)
    permit_keys = blocking(on_work.permit_keys)
    rotate_permit_keys = blocking(on_work.rotate_permit_keys)
    approvals = blocking(on_approvals.approvals)
    inbox = blocking(on_approvals.inbox)
    inbox_counts = blocking(on_approvals.inbox_counts)
    approval = blocking(on_approvals.approval)
    approve = blocking(on_approvals.approve)
    reject = blocking(on_approvals.reject)
    refresh = blocking(on_approvals.refresh)
    edit = blocking(on_approvals.edit)
    withdraw = blocking(on_approvals.withdraw)
    comment = blocking(on_approvals.comment)
    comments = blocking(on_approvals.comments)
    ask = blocking(on_approvals.ask)
    look = blocking(on_approvals.look)
    settings = blocking(on_server.settings)
    grant = blocking(on_grants.grant)
    grants = blocking(on_grants.grants)
    grant_get = blocking(on_grants.grant_get)
    grant_revoke = blocking(on_grants.grant_revoke)
    grant_terms = blocking(on_grants.grant_terms)
    set_grant_terms = blocking(on_grants.set_grant_terms)
    claim = blocking(on_grants.claim)
    signers = blocking(on_grants.signers)
    signer_add = blocking(on_grants.signer_add)
    signer_revoke = blocking(on_grants.signer_revoke)
    sessions = blocking(on_sessions.sessions)
    end_session = blocking(on_sessions.end_session)
    make_sign_in_link = blocking(on_sessions.make_sign_in_link)
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
    admission_stats = blocking(on_admission.admission_stats)
    define_workflow = blocking(on_workflows.define_workflow)
    workflow = blocking(on_workflows.workflow)
    workflows = blocking(on_workflows.workflows)
    delete_workflow = blocking(on_workflows.delete_workflow)
    delete_run = blocking(on_workflows.delete_run)
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
    admit = held(on_holds.admit)
    lease = held(on_holds.lease)
    granted = permitted(on_granted.granted)

    def run(self, flow: Flow[T]) -> T:
        """Drive any flow of the SDK to its result."""
        return drive(flow, self.transport)

    def close(self) -> None:
        """Let go of connections, or of the embedded service."""
        self.transport.close()
        self._in_loops.leave()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close, whatever happened in the block."""
        self.close()

    def _connect(self) -> None:
        self.transport = _blocking_transport(self.url, self.store, makes_store=self.make_store)
        self._in_loops = self.transport.in_loop()

    def _drivers(self) -> Drivers:
        return Drivers(self.run, self._run_in_loop)

    async def _run_in_loop(self, flow: Flow[T]) -> T:
        """For an async function behind a blocking client: a thread for each would run out of threads."""
        return await drive_async(flow, self._in_loops.send)


def _blocking_transport(url: str | None, store: str | None, *, makes_store: bool) -> Transport:
    if url is not None:
        from interlock.sdk.transports import HttpTransport

        return HttpTransport(url)
    from interlock.sdk.embedded import EmbeddedTransport

    return EmbeddedTransport(store, makes_store=makes_store)
