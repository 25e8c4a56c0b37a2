"""Which grants fit an action, taking one use of a grant, and the audit entries about it."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from interlock.kernel.codec.canonical import canonical, digest
from interlock.kernel.record import Params, Pick, Reads, micros
from interlock.kernel.world import World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.events.model import announce
from interlock.rooms.grants.model import (
    GRANT_TERMS,
    GRANTS,
    SIGNERS,
    TERMS_ID,
    TRANSITIONS,
    Grant,
    GrantState,
    GrantTerms,
    GrantUse,
    Number,
    Pin,
    Signer,
    SpendLimit,
)
from interlock.rooms.identity.model import PRINCIPALS, Caller

if TYPE_CHECKING:
    from decimal import Decimal


_ABSENT = object()
# From the first digit of the largest double to the last of the smallest.
_DIGITS_MAX = 700


def misfit_of_args(grant: Grant, args: Any) -> str | None:
    """Which pin or limit these arguments break; None if they fit."""
    for pin in grant.pins:
        why = _misfit_of_pin(pin, args)
        if why:
            return why
    for limit in grant.limits:
        why = _misfit_of_limit(limit, grant.spent.get(limit.path, 0), args)
        if why:
            return why
    return None


def added(spent: Number, amount: Number) -> Number:
    """The sum as people write it: three times 0.1 is 0.3, so that a budget can be used up to its last cent."""
    if isinstance(spent, int) and isinstance(amount, int):
        return spent + amount
    total = _exactly(spent, amount)
    nearest = float(total)
    # A sum that a double cannot hold counts as slightly more: a budget never appears larger than it is.
    return nextafter(nearest, inf) if total > _as_written(nearest) else nearest


def misfit_of_signature(grant: Grant, signer: Signer | None, terms: GrantTerms | None) -> str | None:
    """Why the grant's signature is not good enough; None if it is, or none is needed."""
    if grant.signature is None and grant.nonce:
        return "signature: it was taken out of a grant that was signed"
    if grant.signature is None:
        return "signature: this task needs a signed grant" if needs_signature(terms, grant.task) else None
    if signer is None or signer.id != grant.signature.signer:
        return "signature: the signer is not registered"
    if signer.revoked_at is not None:
        return "signature: the signer's key was revoked"
    if grant.nonce != grant.id:
        return "signature: it was made for another grant"
    if signer.person != grant.approver:
        return "signature: the key belongs to another person than the approver"
    if not is_signed_by(signer.public_key, grant.signature.value, grant.signed_terms()):
        return "signature: it does not match the grant; the grant was altered or signed for something else"
    return None


def needs_signature(terms: GrantTerms | None, task: str) -> bool:
    return terms is not None and any(fnmatchcase(task, pattern) for pattern in terms.signed_tasks)


def is_signed_by(public_key: str, signature: str, message: bytes) -> bool:
    """Whether an Ed25519 signature (base64) over a message is good."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def value_at(args: Any, path: str) -> Any:
    """The argument at a dotted path (`args.0` is the first of a list), or a marker that it is absent."""
    value = args
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = cast("dict[str, Any]", value)[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(part)]
        else:
            return _ABSENT
    return value


def _misfit_of_pin(pin: Pin, args: Any) -> str | None:
    value = value_at(args, pin.path)
    if value is _ABSENT:
        return f"pin {pin.path}: the argument is missing"
    if pin.max is not None:
        fits = _is_number(value) and value <= pin.max
        return None if fits else f"pin {pin.path}: must be a number of at most {_shown(pin.max)}"
    if pin.glob is not None:
        fits = isinstance(value, str) and fnmatchcase(value, pin.glob)
        return None if fits else f"pin {pin.path}: must match {pin.glob!r}"
    if not pin.is_exact:
        return f"pin {pin.path}: it was altered, and says nothing any more"
    same = canonical(value) == canonical(msgspec.json.decode(pin.exact))
    return None if same else f"pin {pin.path}: must be exactly {bytes(pin.exact).decode()}"


def _misfit_of_limit(limit: SpendLimit, spent: Number, args: Any) -> str | None:
    amount = value_at(args, limit.path)
    if not _is_number(amount) or amount < 0:
        return f"limit {limit.path}: the argument must be a number of 0 or more"
    if _fits(spent, amount, limit.total_max):
        return None
    left = f"{_shown(spent)} of {_shown(limit.total_max)} is spent already"
    return f"limit {limit.path}: {_shown(amount)} is too much, {left}"


def _fits(spent: Number, amount: Number, total_max: Number) -> bool:
    if isinstance(spent, int) and isinstance(amount, int):
        return spent + amount <= total_max
    return _exactly(spent, amount) <= _as_written(total_max)


def _exactly(spent: Number, amount: Number) -> Decimal:
    from decimal import Context

    return Context(prec=_DIGITS_MAX).add(_as_written(spent), _as_written(amount))


def _as_written(number: Number) -> Decimal:
    from decimal import Decimal  # cents need none, and a start that loads it takes longer

    return Decimal(repr(number))


def _shown(number: Number) -> str:
    """In full, as it was written: rounded, 12345678 would read as 12345700."""
    return canonical(number).decode()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Before every grant.
START = (0, "")


class OpenGrants(Pick[Grant], frozen=True, kw_only=True):
    """The oldest grants of a task that were open at the load, after a given one; standing ones or the others.

    `after` is the time and the id of the last grant that was looked at before. Read without locking; the second load
    locks the grants that were found. It waits for a grant that another claim holds, where a pick that locks would skip
    it and answer "none". A grant that was spent in between no longer matches; `World.last_seen` says whether there may
    be more behind it.
    """

    kind = GRANTS
    query = "grants.open_grants"

    own: bool = False

    tenant: str
    task: str
    standing: bool = False
    after: tuple[int, str] = START

    @property
    def uses_up(self) -> int:
        """A claim spends one grant at most."""
        return 1

    def params(self, now: datetime) -> Params:
        return {
            "tenant": self.tenant,
            "task": self.task,
            "standing": int(self.standing),
            "after_at": self.after[0],
            "after_id": self.after[1],
            "now": micros(now),
        }

    def matches(self, record: Grant, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.task == self.task
            and record.standing == self.standing
            and (micros(record.issued_at), record.id) > self.after
            and record.state_at(now) is GrantState.OPEN
        )

    def sort_key(self, record: Grant) -> Any:
        return (record.issued_at, record.id)


class LatestGrants(Pick[Grant], frozen=True, kw_only=True):
    """The newest grants of a task in any state, read without locks: they only explain a refusal."""

    kind = GRANTS
    query = "grants.latest_grants"

    own: bool = False

    tenant: str
    task: str

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "task": self.task}

    def matches(self, record: Grant, now: datetime) -> bool:
        return record.tenant == self.tenant and record.task == self.task

    def sort_key(self, record: Grant) -> Any:
        # Ids downwards, byte by byte as the stores compare them; the end sorts after whatever is longer.
        return (*(-byte for byte in record.id.encode()), 1)


class OverdueGrants(Pick[Grant], frozen=True, kw_only=True):
    """Grants whose time has run out, in every tenant, the longest overdue first."""

    kind = GRANTS
    query = "grants.overdue_grants"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Grant, now: datetime) -> bool:
        return record.state is GrantState.OPEN and now >= record.expires_at

    def sort_key(self, record: Grant) -> Any:
        return (record.expires_at, record.tenant, record.id)


def record(world: World, by: Caller, action: str, subject: str, **details: Any) -> None:
    """Audit a change of a grant, a signer or the terms."""
    _note(world, by, action, subject, "done", details)


def record_refused(world: World, by: Caller, action: str, subject: str, why: str, **details: Any) -> None:
    """Audit an attempt, and which check stopped it."""
    _note(world, by, f"{action}_refused", subject, "refused", {"why": why, **details})


def record_expiry(world: World, tenant: str, grant_id: str, left: int) -> None:
    """Audit that the open uses of a grant expired."""
    note(world, Author(tenant=tenant), "grant_expire", grant_id, details={"left": left})


def grants_topic(tenant: str) -> str:
    """The topic that wakes callers who wait for a grant."""
    return f"grants:{tenant}"


def _note(world: World, by: Caller, action: str, subject: str, outcome: str, details: dict[str, Any]) -> None:
    note(
        world,
        by,
        action,
        subject,
        outcome=outcome,
        details={name: value for name, value in details.items() if value},
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
