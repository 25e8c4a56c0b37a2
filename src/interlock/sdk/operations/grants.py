"""Grants: allow a task, and claim a grant before acting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from interlock.sdk.calls import change, change_named, fetch, fresh_name, given, path, words
from interlock.sdk.flow import Flow
from interlock.sdk.outcomes import Conflict, Denied, InterlockError
from interlock.sdk.session import Session
from interlock.wire import grants as wire
from interlock.wire.fields import Page
from interlock.wire.grants import Grant, GrantClaim, GrantLedger, GrantTerms, GrantUse, Signer
from interlock.wire.problem import Problem


def issue_grant(
    session: Session,
    task: str,
    *,
    pins: Mapping[str, Any] | None = None,
    limits: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    budget: Mapping[str, Any] | None = None,
    uses: int | None = None,
    expires_in: str | None = None,
    expires_at: datetime | None = None,
    standing: bool | None = None,
    reason: str | None = None,
    nonce: str | None = None,
    signature: Mapping[str, str] | None = None,
    key: str | None = None,
) -> Flow[Grant]:
    """Permit a task (people only), `uses` times (1), for `expires_in` (1h), within `pins` and `limits`.

    A pin is an exact value, `{"max": n}` or `{"glob": "x*"}` on an argument's path. A limit is
    `{"path": …, "total_max": n}` over all uses, and `budget` is one more. `standing` grants are honoured where jobs are
    submitted.
    """
    body = given(
        wire.IssueGrantBody,
        task=task,
        pins=None if pins is None else dict(pins),
        limits=None if limits is None else _several(limits),
        budget=None if budget is None else dict(budget),
        uses=uses,
        expires_in=expires_in,
        expires_at=None if expires_at is None else expires_at.isoformat(),
        standing=standing,
        reason=reason,
        nonce=nonce,
        signature=None if signature is None else dict(signature),
    )
    return (yield from change(session, path("grants"), Grant, body, key=key, scope=task))


def grants(
    session: Session,
    *,
    task: str | None = None,
    state: Literal["open", "spent", "expired", "revoked"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Grant]]:
    """List grants, newest first."""
    query = {"task": task, "state": state, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("grants"), Page[Grant], query))


def get_grant(session: Session, grant_id: str) -> Flow[Grant]:
    """Read one grant, with the newest of its uses."""
    return (yield from fetch(session, path("grants", grant_id), Grant))


def revoke_grant(
    session: Session, grant_id: str, *, reason: str | None = None, key: str | None = None
) -> Flow[Grant]:
    """End what is left of a grant. `Conflict` if nothing is: it is spent or expired, and stays so."""
    body = given(wire.RevokeGrantBody, reason=reason)
    return (yield from change(session, path("grants", grant_id, "revoke"), Grant, body, key=key))


def grant_uses(
    session: Session, grant_id: str, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[GrantUse]]:
    """List the uses of a grant, newest first."""
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("grants", grant_id, "uses"), Page[GrantUse], query))


def get_grant_ledger(
    session: Session, *, limit: int | None = None, cursor: str | None = None
) -> Flow[GrantLedger]:
    """Add up what became of the uses of grants, page by page: issued = open + claimed + expired + revoked.

    `uneven` names the grants for which that does not hold; there should be none.
    """
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("grants", "ledger"), GrantLedger, query))


def get_grant_terms(session: Session) -> Flow[GrantTerms]:
    """Which tasks need a signed grant, and what to write into one that is signed now."""
    return (yield from fetch(session, path("grants", "terms"), GrantTerms))


def set_grant_terms(session: Session, signed_tasks: Sequence[str]) -> Flow[GrantTerms]:
    """Say which tasks need a signed grant: exact names or globs, and `*` for every task."""
    body = wire.GrantTermsBody(signed_tasks=words(signed_tasks))
    return (yield from change(session, path("grants", "terms"), GrantTerms, body, key=None, method="PUT"))


def claim_grant(
    session: Session,
    task: str,
    *,
    args: Any = None,
    execution_id: str | None = None,
    grant_id: str | None = None,
    signed: bool | None = None,
    groups: Sequence[str] | None = None,
) -> Flow[GrantClaim]:
    """Find a grant that fits `args` and consume one use; look at `claimed`, and at `reason` if it is False.

    Repeating with the same `execution_id` gives the same use. Without one, this call is its own execution. `signed`
    asks for a signed grant, `groups` for one by a person in one of them.
    """
    body = given(
        wire.ClaimGrantBody,
        task=task,
        args={} if args is None else args,
        execution_id=fresh_name() if execution_id is None else execution_id,
        grant_id=grant_id,
        signed=signed,
        groups=None if groups is None else words(groups),
    )
    # Under the execution id alone, without a key: a "no" must not be answered from memory.
    where = path("grants", "claim")
    return (yield from change_named(session, where, GrantClaim, body, named_by="execution_id"))


def claim_or_refuse(
    session: Session,
    task: str,
    *,
    args: Any = None,
    execution_id: str | None = None,
    grant_id: str | None = None,
    signed: bool | None = None,
    groups: Sequence[str] | None = None,
) -> Flow[GrantClaim]:
    """Claim, and raise `Denied` if no grant fits, `Conflict` if the named one does not."""
    use = yield from claim_grant(
        session, task, args=args, execution_id=execution_id, grant_id=grant_id, signed=signed, groups=groups
    )
    if not use.claimed:
        raise _refusal(task, use.reason or "no grant fits", named=grant_id is not None)
    return use


def signers(session: Session, *, limit: int | None = None, cursor: str | None = None) -> Flow[Page[Signer]]:
    """List the keys that grants may be signed with, newest first."""
    return (yield from fetch(session, path("signers"), Page[Signer], {"limit": limit, "cursor": cursor}))


def add_signer(
    session: Session, public_key: str, *, person: str | None = None, key: str | None = None
) -> Flow[Signer]:
    """Register a person's public key (admins only): an OpenSSH line, a PEM block or base64."""
    body = wire.AddSignerBody(public_key=public_key, person=person)
    return (yield from change(session, path("signers"), Signer, body, key=key))


def revoke_signer(session: Session, fingerprint: str, *, key: str | None = None) -> Flow[Signer]:
    """Stop trusting a key; what is left of grants signed with it cannot be claimed."""
    return (yield from change(session, path("signers", fingerprint, "revoke"), Signer, key=key))


def _several(limits: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """One limit by itself is a list of one."""
    return [dict(limit) for limit in ((limits,) if isinstance(limits, Mapping) else limits)]


def _refusal(task: str, reason: str, *, named: bool) -> InterlockError:
    problem = Problem(
        status=200,
        code="not_claimed",
        title="Not claimed",
        detail=f"{task} may not run: {reason}",
        fields={"task": task, "reason": reason},
    )
    return Conflict(problem) if named else Denied(problem)
