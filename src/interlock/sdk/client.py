"""The blocking client: every method runs a flow of `operations` to its end.

An operation is one function of `operations/`, and one line here and in `async_client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple, overload

from interlock.sdk import hold as on_holds
from interlock.sdk import methods as on_granted
from interlock.sdk import once as on_once
from interlock.sdk.base import ClientBase
from interlock.sdk.flow import Flow, Transport, drive, drive_async
from interlock.sdk.gate_decorator import Drivers
from interlock.sdk.methods import blocking, held, permitted
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
    from collections.abc import Callable
    from typing import Self

    from interlock.sdk.once import GrantNeeded, LeaseLike, Reconcile
    from interlock.wire.jobs import HeldJob, Target

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


class Interlock(ClientBase):
    """The blocking client; threads may share one."""

    submit = blocking(on_jobs.submit)
    get_job = blocking(on_jobs.get_job)
    jobs = blocking(on_jobs.jobs)
    wait = blocking(on_jobs.wait)
    cancel_job = blocking(on_jobs.cancel_job)
    retry_job = blocking(on_jobs.retry_job)
    get_job_history = blocking(on_jobs.get_job_history)
    claim_jobs = blocking(on_work.claim_jobs)
    claim_job = blocking(on_work.claim_job)
    renew_job = blocking(on_work.renew_job)
    complete_job = blocking(on_work.complete_job)
    fail_job = blocking(on_work.fail_job)
    release_job = blocking(on_work.release_job)
    reconcile_job = blocking(on_work.reconcile_job)
    signing_keys = blocking(on_identity.signing_keys)
    rotate_signing_keys = blocking(on_identity.rotate_signing_keys)
    approvals = blocking(on_jobs.approvals)
    get_inbox = blocking(on_jobs.get_inbox)
    get_inbox_counts = blocking(on_jobs.get_inbox_counts)
    get_approval = blocking(on_jobs.get_approval)
    approve = blocking(on_jobs.approve)
    reject = blocking(on_jobs.reject)
    refresh = blocking(on_jobs.refresh)
    edit = blocking(on_jobs.edit)
    withdraw = blocking(on_jobs.withdraw)
    comment = blocking(on_jobs.comment)
    comments = blocking(on_jobs.comments)
    ask = blocking(on_jobs.ask)
    look = blocking(on_jobs.look)
    get_settings = blocking(on_server.get_settings)
    issue_grant = blocking(on_grants.issue_grant)
    grants = blocking(on_grants.grants)
    get_grant = blocking(on_grants.get_grant)
    grant_uses = blocking(on_grants.grant_uses)
    get_grant_ledger = blocking(on_grants.get_grant_ledger)
    revoke_grant = blocking(on_grants.revoke_grant)
    get_grant_terms = blocking(on_grants.get_grant_terms)
    set_grant_terms = blocking(on_grants.set_grant_terms)
    claim_grant = blocking(on_grants.claim_grant)
    signers = blocking(on_grants.signers)
    add_signer = blocking(on_grants.add_signer)
    revoke_signer = blocking(on_grants.revoke_signer)
    whoami = blocking(on_identity.whoami)
    principals = blocking(on_identity.principals)
    get_principal = blocking(on_identity.get_principal)
    set_principal = blocking(on_identity.set_principal)
    delete_principal = blocking(on_identity.delete_principal)
    api_keys = blocking(on_identity.api_keys)
    create_api_key = blocking(on_identity.create_api_key)
    revoke_api_key = blocking(on_identity.revoke_api_key)
    sessions = blocking(on_identity.sessions)
    end_session = blocking(on_identity.end_session)
    make_sign_in_link = blocking(on_identity.make_sign_in_link)
    apply_policy = blocking(on_policy.apply_policy)
    get_policy = blocking(on_policy.get_policy)
    snapshots = blocking(on_policy.snapshots)
    get_snapshot = blocking(on_policy.get_snapshot)
    observed_jobs = blocking(on_policy.observed_jobs)
    roll_back_policy = blocking(on_policy.roll_back_policy)
    evaluate_policy = blocking(on_policy.evaluate_policy)
    simulate_policy = blocking(on_policy.simulate_policy)
    start_run = blocking(on_admission.start_run)
    get_run = blocking(on_admission.get_run)
    runs = blocking(on_admission.runs)
    renew_run = blocking(on_admission.renew_run)
    complete_run = blocking(on_admission.complete_run)
    fail_run = blocking(on_admission.fail_run)
    cancel_run = blocking(on_admission.cancel_run)
    set_limit = blocking(on_admission.set_limit)
    clear_limit = blocking(on_admission.clear_limit)
    limits = blocking(on_admission.limits)
    get_admission_stats = blocking(on_admission.get_admission_stats)
    define_workflow = blocking(on_admission.define_workflow)
    get_workflow = blocking(on_admission.get_workflow)
    workflows = blocking(on_admission.workflows)
    delete_workflow = blocking(on_admission.delete_workflow)
    delete_run = blocking(on_admission.delete_run)
    get_run_timeline = blocking(on_admission.get_run_timeline)
    approve_step = blocking(on_admission.approve_step)
    rerun_run = blocking(on_admission.rerun_run)
    acquire_lease = blocking(on_leases.acquire_lease)
    leases = blocking(on_leases.leases)
    renew_lease = blocking(on_leases.renew_lease)
    checkpoint_lease = blocking(on_leases.checkpoint_lease)
    suspend_lease = blocking(on_leases.suspend_lease)
    resume_lease = blocking(on_leases.resume_lease)
    hand_off_lease = blocking(on_leases.hand_off_lease)
    release_lease = blocking(on_leases.release_lease)
    check_lease = blocking(on_leases.check_lease)
    get_lease = blocking(on_leases.get_lease)
    lease_checkpoints = blocking(on_leases.lease_checkpoints)
    lease_waiters = blocking(on_leases.lease_waiters)
    get_lease_terms = blocking(on_leases.get_lease_terms)
    set_lease_terms = blocking(on_leases.set_lease_terms)
    events = blocking(on_events.events)
    webhooks = blocking(on_events.webhooks)
    get_webhook = blocking(on_events.get_webhook)
    add_webhook = blocking(on_events.add_webhook)
    remove_webhook = blocking(on_events.remove_webhook)
    rotate_webhook = blocking(on_events.rotate_webhook)
    test_webhook = blocking(on_events.test_webhook)
    dead_letters = blocking(on_events.dead_letters)
    redeliver_dead_letter = blocking(on_events.redeliver_dead_letter)
    relays = blocking(on_events.relays)
    audit_entries = blocking(on_server.audit_entries)
    get_health = blocking(on_server.get_health)
    get_metrics = blocking(on_server.get_metrics)
    check_store = blocking(on_server.check_store)
    begin_effect = blocking(on_shared.begin_effect)
    commit_effect = blocking(on_shared.commit_effect)
    fail_effect = blocking(on_shared.fail_effect)
    resolve_effect = blocking(on_shared.resolve_effect)
    get_effect = blocking(on_shared.get_effect)
    get_effect_result = blocking(on_shared.get_effect_result)
    effects = blocking(on_shared.effects)
    touch = blocking(on_shared.touch)
    touch_targets = blocking(on_shared.touch_targets)
    get_target = blocking(on_shared.get_target)
    targets = blocking(on_shared.targets)
    conflicts = blocking(on_shared.conflicts)
    get_conflict = blocking(on_shared.get_conflict)
    resolve_conflict = blocking(on_shared.resolve_conflict)
    conflict_patterns = blocking(on_shared.conflict_patterns)
    call = blocking(on_jobs.call)
    admit = held(on_holds.admit)
    lease = held(on_holds.lease)
    granted = permitted(on_granted.granted)

    @overload
    def once(self, action_id: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def once(
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
    def once(
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
        return self.drive(
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

    def drive(self, flow: Flow[T]) -> T:
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
        return Drivers(self.drive, self._run_in_loop)

    async def _run_in_loop(self, flow: Flow[T]) -> T:
        """For an async function behind a blocking client: a thread for each would run out of threads."""
        return await drive_async(flow, self._in_loops.send)


def _blocking_transport(url: str | None, store: str | None, *, makes_store: bool) -> Transport:
    if url is not None:
        from interlock.sdk.transports import HttpTransport

        return HttpTransport(url)
    from interlock.sdk.embedded import EmbeddedTransport

    return EmbeddedTransport(store, makes_store=makes_store)
