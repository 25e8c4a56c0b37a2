"""Policy: what is in force, what was before, and what another would do."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.sdk.calls import ask, change, encoded, fetch, given, path, put_document
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire.fields import Page
from interlock.wire.jobs import Job
from interlock.wire.policy import Evaluation, Policy, RollbackBody, SimulateBody, Simulation


def apply_policy(
    session: Session,
    policy: str | Mapping[str, object],
    *,
    expecting: str | None = None,
    key: str | None = None,
) -> Flow[Policy]:
    """Put a policy in force: YAML text, or the same as a mapping. `expecting`: only in the place of this snapshot."""
    if isinstance(policy, str):
        document, media_type = policy.encode(), "application/yaml"
    else:
        document, media_type = encoded(dict(policy)), "application/json"
    query = {"expecting": expecting}
    return (
        yield from put_document(session, path("policy"), Policy, document, media_type, query=query, key=key)
    )


def get_policy(session: Session) -> Flow[Policy]:
    """Read the policy in force."""
    return (yield from fetch(session, path("policy"), Policy))


def snapshots(session: Session, *, limit: int | None = None, cursor: str | None = None) -> Flow[Page[Policy]]:
    """List every policy that ever was in force, newest first."""
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("policy", "snapshots"), Page[Policy], query))


def get_snapshot(session: Session, snapshot: str) -> Flow[Policy]:
    """Read one policy by the address of its content."""
    return (yield from fetch(session, path("policy", "snapshots", snapshot), Policy))


def observed_jobs(
    session: Session, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[Job]]:
    """List the jobs that `mode: observe` released and enforcement would have stopped, newest first."""
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("policy", "observed"), Page[Job], query))


def roll_back_policy(session: Session, snapshot: str, *, key: str | None = None) -> Flow[Policy]:
    """Put an earlier policy in force again."""
    body = RollbackBody(snapshot=snapshot)
    return (yield from change(session, path("policy", "rollback"), Policy, body, key=key))


def evaluate_policy(session: Session, job: Mapping[str, object]) -> Flow[Evaluation]:
    """Ask what would happen to a job (the fields of `submit`), and why; nothing is stored."""
    return (yield from ask(session, path("policy", "evaluate"), Evaluation, job))


def simulate_policy(
    session: Session,
    policy: str | Mapping[str, object],
    *,
    last: int | None = None,
    cursor: str | None = None,
) -> Flow[Simulation]:
    """Ask what a candidate policy would have done to the last jobs, or to older ones; nothing is stored."""
    candidate = policy if isinstance(policy, str) else dict(policy)
    body = given(SimulateBody, policy=candidate, last=last, cursor=cursor)
    return (yield from ask(session, path("policy", "simulate"), Simulation, body))
