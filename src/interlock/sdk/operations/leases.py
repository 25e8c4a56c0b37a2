"""Leases: take a resource, keep it, save a checkpoint, hand it over."""

from __future__ import annotations

from typing import Any, Literal

from interlock.sdk.calls import ask, change, fetch, given, path
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire import leases as wire
from interlock.wire.fields import Page
from interlock.wire.leases import CheckedFence, Checkpoints, Lease, LeaseTerms, Waiters


def acquire_lease(
    client: Session,
    resource: str,
    *,
    purpose: str = "",
    mode: Literal["exclusive", "shared"] = "exclusive",
    ttl_seconds: float = 60,
    wait_seconds: float = 0,
    session: str | None = None,
    key: str | None = None,
) -> Flow[Lease]:
    """Take a resource; `repo:billing/**` takes everything under it. Raises `Busy`, naming the holder.

    The lease says who had it before (`predecessor`) and how far they got.
    """
    body = wire.AcquireLeaseBody(
        resource=resource,
        purpose=purpose,
        mode=mode,
        ttl_seconds=ttl_seconds,
        wait_seconds=wait_seconds,
        session=client.names(session) or "",
    )
    return (
        yield from change(
            client,
            path("leases"),
            Lease,
            body,
            key=key,
            hold_seconds=wait_seconds,
            busy_seconds=wait_seconds,
            say=client.says(f"the lease on {resource}", wait_seconds),
        )
    )


def leases(
    client: Session,
    *,
    resource: str | None = None,
    owner: str | None = None,
    live: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Lease]]:
    """List leases, newest first; `live` ones only, if asked."""
    query = {
        "resource": resource,
        "owner": owner,
        "live": "true" if live else None,
        "limit": limit,
        "cursor": cursor,
    }
    return (yield from fetch(client, path("leases"), Page[Lease], query))


def renew_lease(
    client: Session,
    lease_id: str,
    fence: int,
    *,
    progress: Any = None,
    session: str | None = None,
    key: str | None = None,
) -> Flow[Lease]:
    """Keep a lease for another period. `Conflict` (`fence_stale`) if it is lost."""
    body = given(wire.RenewLeaseBody, fence=fence, progress=progress, session=client.names(session))
    return (yield from change(client, path("leases", lease_id, "renew"), Lease, body, key=key))


def checkpoint_lease(
    client: Session,
    lease_id: str,
    fence: int,
    done: Any,
    *,
    partial: Any = None,
    evidence: Any = None,
    validation: Any = None,
    open_questions: Any = None,
    session: str | None = None,
    key: str | None = None,
) -> Flow[Lease]:
    """Record how far the work has come; the next owner receives it whole."""
    body = given(
        wire.CheckpointBody,
        fence=fence,
        done=done,
        partial=partial,
        evidence=evidence,
        validation=validation,
        open_questions=open_questions,
        session=client.names(session),
    )
    return (yield from change(client, path("leases", lease_id, "checkpoint"), Lease, body, key=key))


def suspend_lease(
    client: Session,
    lease_id: str,
    fence: int,
    *,
    reason: Literal["waiting_on_review", "paused_by_policy"] = "waiting_on_review",
    session: str | None = None,
    key: str | None = None,
) -> Flow[Lease]:
    """Wait for a person without renewing."""
    body = given(wire.SuspendLeaseBody, fence=fence, reason=reason, session=client.names(session))
    return (yield from change(client, path("leases", lease_id, "suspend"), Lease, body, key=key))


def resume_lease(
    client: Session,
    lease_id: str,
    fence: int | None = None,
    *,
    session: str | None = None,
    key: str | None = None,
) -> Flow[Lease]:
    """Go on after a suspension. Only the owner can, so the fence may be left out."""
    body = given(wire.ResumeLeaseBody, fence=fence, session=client.names(session))
    return (yield from change(client, path("leases", lease_id, "resume"), Lease, body, key=key))


def hand_off_lease(
    client: Session,
    lease_id: str,
    fence: int,
    *,
    to: str | None = None,
    checkpoint: Any = None,
    session: str | None = None,
    key: str | None = None,
) -> Flow[Lease]:
    """Give a resource to one principal, or to the next that asks, with a checkpoint."""
    body = given(
        wire.HandOffLeaseBody, fence=fence, to=to, checkpoint=checkpoint, session=client.names(session)
    )
    return (yield from change(client, path("leases", lease_id, "handoff"), Lease, body, key=key))


def release_lease(
    client: Session, lease_id: str, fence: int, *, session: str | None = None, key: str | None = None
) -> Flow[Lease]:
    """Give a resource back."""
    body = given(wire.LeaseFenceBody, fence=fence, session=client.names(session))
    return (yield from change(client, path("leases", lease_id, "release"), Lease, body, key=key))


def check_lease(client: Session, lease_id: str, fence: int) -> Flow[CheckedFence]:
    """Whether a sink may write under this fence."""
    where = path("leases", lease_id, "check")
    return (yield from ask(client, where, CheckedFence, wire.CheckFenceBody(fence=fence)))


def get_lease(client: Session, lease_id: str) -> Flow[Lease]:
    """One lease, and who had the resource before."""
    return (yield from fetch(client, path("leases", lease_id), Lease))


def lease_checkpoints(client: Session, lease_id: str) -> Flow[Checkpoints]:
    """List the checkpoints of a lease, newest first."""
    return (yield from fetch(client, path("leases", lease_id, "checkpoints"), Checkpoints))


def lease_waiters(client: Session) -> Flow[Waiters]:
    """List who waits for which resource, in the order of arrival."""
    return (yield from fetch(client, path("leases", "waiting"), Waiters))


def get_lease_terms(client: Session) -> Flow[LeaseTerms]:
    """Read what your tenant asks of lease holders: how long a lease lasts, and how often it shows progress."""
    return (yield from fetch(client, path("leases", "terms"), LeaseTerms))


def set_lease_terms(
    client: Session,
    *,
    ttl_seconds_max: int = 3600,
    suspend_seconds_max: int = 86_400,
    progress_after: int | None = None,
) -> Flow[LeaseTerms]:
    """Set all terms of leases; what is left out goes back to its default.

    After `progress_after` renewals without progress a lease is not renewed again; None allows any number.
    """
    body = wire.LeaseTermsBody(
        ttl_seconds_max=ttl_seconds_max,
        suspend_seconds_max=suspend_seconds_max,
        progress_after=progress_after,
    )
    return (yield from change(client, path("leases", "terms"), LeaseTerms, body, key=None, method="PUT"))
