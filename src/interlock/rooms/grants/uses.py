"""The uses of a grant: whether it fits an action, taking one use, and the audit entries about it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from interlock.kernel.codec.canonical import digest
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.rooms.audit.model import Note, note
from interlock.rooms.events.model import announce
from interlock.rooms.grants.matches import added, misfit_of_args, misfit_of_signature, value_at
from interlock.rooms.grants.model import (
    GRANT_TERMS,
    GRANTS,
    SIGNERS,
    TERMS_ID,
    TRANSITIONS,
    Grant,
    GrantState,
    GrantUse,
)
from interlock.rooms.identity.model import PRINCIPALS, Caller

SWEEP = "interlock"


def record(world: World, by: Caller, action: str, subject: str, **details: Any) -> None:
    """Audit a change of a grant, a signer or the terms."""
    _note(world, by, action, subject, "done", details)


def record_refused(world: World, by: Caller, action: str, subject: str, why: str, **details: Any) -> None:
    """Audit an attempt, and which check stopped it."""
    _note(world, by, f"{action}_refused", subject, "refused", {"why": why, **details})


def record_expiry(world: World, tenant: str, grant_id: str, left: int) -> None:
    """Audit that the open uses of a grant expired."""
    note(
        world,
        Note(tenant=tenant, actor=SWEEP, action="grant_expire", subject=grant_id, details={"left": left}),
    )


def grants_topic(tenant: str) -> str:
    """The topic that wakes callers who wait for a grant."""
    return f"grants:{tenant}"


def _note(world: World, by: Caller, action: str, subject: str, outcome: str, details: dict[str, Any]) -> None:
    note(
        world,
        Note(
            tenant=by.tenant,
            actor=by.principal,
            action=action,
            subject=subject,
            outcome=outcome,
            request_id=by.request_id,
            details={name: value for name, value in details.items() if value},
        ),
    )


def misfit(world: World, grant: Grant, task: str, args: Any) -> str | None:
    """Which check this grant fails for this task and these arguments; None if it fits."""
    if grant.task != task:
        return f"task: it is for {grant.task}"
    state = grant.state_at(world.now)
    if state is not GrantState.OPEN or grant.used >= grant.uses:
        return f"state: it is {state.value}"
    return _misfit_of_signature(world, grant) or misfit_of_args(grant, args)


def broken_signature(world: World, grant: Grant, args: Any) -> str | None:
    """Why the signature of a grant that fits these arguments is not good enough; None if it is, or they do not fit."""
    why = _misfit_of_signature(world, grant)
    return why if why and misfit_of_args(grant, args) is None else None


def consume(world: World, by: Caller, grant: Grant, args: Any, execution_id: str) -> GrantUse:
    """Take one use of a grant that fits, and return it to be stored. The grant must be locked."""
    used, fence = grant.used + 1, world.next_fence(grant.fence, grant.used)
    verb = "spend" if used == grant.uses else "claim"
    spent = dict(grant.spent)
    for limit in grant.limits:
        spent[limit.path] = added(spent.get(limit.path, 0), value_at(args, limit.path))
    world.put(
        GRANTS,
        msgspec.structs.replace(
            grant, used=used, fence=fence, spent=spent, state=TRANSITIONS[grant.state, verb]
        ),
    )
    use = GrantUse(
        tenant=grant.tenant,
        id=use_id(grant.task, by.principal, execution_id),
        grant_id=grant.id,
        task=grant.task,
        execution_id=execution_id,
        use=used,
        fence=fence,
        claimed_by=by.principal,
        claimed_at=world.now,
        args_digest=args_digest(args),
        signed=grant.signature is not None,
    )
    record(world, by, "grant_claim", grant.id, use=used, execution_id=execution_id, args=use.args_digest)
    announce(world, grant.tenant, "grant.claimed", grant.id, {"task": grant.task, "use": used})
    return use


def candidate_reads(candidates: tuple[Grant, ...]) -> Reads:
    """These grants with locks, and their signers' keys without."""
    signers = {SIGNERS.key(grant.tenant, grant.signature.signer) for grant in candidates if grant.signature}
    own = tuple(GRANTS.key_of(grant) for grant in candidates)
    return Reads(own=own, see=tuple(sorted(signers, key=lambda key: key.rank)))


def approver_reads(candidates: tuple[Grant, ...]) -> Reads:
    """The issuers of these grants, and the people they acted for then; read without locking."""
    people = {
        (grant.tenant, name) for grant in candidates for name in (grant.approver, grant.approver_person)
    }
    approvers = {PRINCIPALS.key(tenant, name) for tenant, name in people if name}
    return Reads(see=tuple(sorted(approvers, key=lambda key: key.rank)))


@lru_cache(maxsize=256)
def use_id(task: str, principal: str, execution_id: str) -> str:
    """Where the answer to an execution id is kept; a principal finds only its own."""
    return hashlib.sha256(f"{task}\0{principal}\0{execution_id}".encode()).hexdigest()


def args_digest(args: Any) -> str:
    """The digest of the arguments that a use was claimed for."""
    return digest("grant-args/v1", args)


def _misfit_of_signature(world: World, grant: Grant) -> str | None:
    signer = world.get(SIGNERS, grant.tenant, grant.signature.signer) if grant.signature else None
    return misfit_of_signature(grant, signer, world.get(GRANT_TERMS, grant.tenant, TERMS_ID))
