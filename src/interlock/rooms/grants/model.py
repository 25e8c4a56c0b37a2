"""Grants, their uses, the keys that people sign them with, and the refusals to issue, revoke or sign.

A grant allows a task a limited number of times, until a deadline, within its pins. The sum of its uses never changes:
issued = open + claimed + expired + revoked.

Callers write pins as `{"path": value | {"exact": value} | {"max": n} | {"glob": "x*"}}`; `pins_of` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.record import Kind, Record, micros
from interlock.kernel.refusal import Next, Refusal

SIGNED_DOMAIN = b"interlock:grant/v1\n"
Number = int | float


class GrantState(StrEnum):
    OPEN = "open"
    SPENT = "spent"
    EXPIRED = "expired"
    REVOKED = "revoked"


TRANSITIONS: Mapping[tuple[GrantState, str], GrantState] = {
    (GrantState.OPEN, "claim"): GrantState.OPEN,
    (GrantState.OPEN, "spend"): GrantState.SPENT,
    (GrantState.OPEN, "expire"): GrantState.EXPIRED,
    (GrantState.OPEN, "revoke"): GrantState.REVOKED,
}


class Pin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One narrowing of an argument: an exact value, a maximum or a glob. A missing argument never fits."""

    path: str
    exact: msgspec.Raw = msgspec.Raw(b"")
    max: Number | None = None
    glob: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it names a value. One that says nothing at all was altered, and nothing fits it."""
        return bytes(self.exact) != b""


class SpendLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one argument all uses together may add up to."""

    path: str
    total_max: Number


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """An Ed25519 signature over the grant's terms. `signer` is the fingerprint of a registered key."""

    signer: str
    value: str


class Grant(Record, frozen=True, kw_only=True):
    """One permission. `standing` ones are honoured where people would otherwise be asked.

    The nonce of a signed grant is its id, so that one signature is good for one grant. `approver_person` is who
    the approver was as a person when they issued it.
    """

    task: str
    pins: tuple[Pin, ...] = ()
    limits: tuple[SpendLimit, ...] = ()
    uses: int = 1
    used: int = 0
    fence: int = 0
    spent: dict[str, Number] = {}
    state: GrantState = GrantState.OPEN
    standing: bool = False
    approver: str
    approver_person: str = ""
    reason: str = ""
    issued_at: datetime
    expires_at: datetime
    nonce: str = ""
    signature: Signature | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def state_at(self, now: datetime) -> GrantState:
        """The state by the clock: past its time it is expired even if no sweep has run."""
        overdue = self.state is GrantState.OPEN and now >= self.expires_at
        return GrantState.EXPIRED if overdue else self.state

    def signed_terms(self) -> bytes:
        """Exactly what an approver signs."""
        return signed_bytes(
            tenant=self.tenant,
            task=self.task,
            pins=self.pins,
            limits=self.limits,
            uses=self.uses,
            expires_at=self.expires_at,
            approver=self.approver,
            nonce=self.nonce,
            standing=self.standing,
        )

    def tally(self, now: datetime) -> dict[str, int]:
        """How many uses are open, claimed, expired and revoked."""
        left = self.uses - self.used
        state = self.state_at(now)
        kept = {GrantState.OPEN: "open", GrantState.EXPIRED: "expired", GrantState.REVOKED: "revoked"}
        counts = {"issued": self.uses, "open": 0, "claimed": self.used, "expired": 0, "revoked": 0}
        if state in kept:
            counts[kept[state]] = left
        return counts


class GrantUse(Record, frozen=True, kw_only=True):
    """One use of a grant. The id is a digest of the task, the claimant and the claimant's execution id.

    `action_id` is the one effect that it permits, once that began; None says that none has. `signed` and `groups`: what
    the claim could count on, a signed grant and a person in one of these.
    """

    grant_id: str
    task: str
    execution_id: str
    use: int
    fence: int
    claimed_by: str
    claimed_at: datetime
    args_digest: str
    action_id: str | None = None
    signed: bool = False
    groups: tuple[str, ...] = ()


class Signer(Record, frozen=True, kw_only=True):
    """A person's public key (Ed25519, base64 of its 32 bytes). The id is its fingerprint as OpenSSH writes it."""

    person: str
    public_key: str
    added_at: datetime
    added_by: str
    revoked_at: datetime | None = None
    revoked_by: str | None = None


class GrantTerms(Record, frozen=True, kw_only=True):
    """Which tasks need a signature: exact names or globs; `*` is every task."""

    signed_tasks: tuple[str, ...] = ()


TERMS_ID = "terms"

GRANTS = Kind(
    "grant",
    Grant,
    table="grants",
    columns=("task", "state", "standing", "issued_at", "open_until"),
    values=lambda grant: (
        grant.task,
        grant.state,
        int(grant.standing),
        micros(grant.issued_at),
        micros(grant.expires_at) if grant.state is GrantState.OPEN else None,
    ),
)
GRANT_USES = Kind(
    "grant_use",
    GrantUse,
    table="grant_uses",
    columns=("grant_id", "number"),
    values=lambda use: (use.grant_id, use.use),
)
SIGNERS = Kind(
    "signer",
    Signer,
    table="signers",
    columns=("person", "added_at"),
    values=lambda signer: (signer.person, micros(signer.added_at)),
)
GRANT_TERMS = Kind("grant_terms", GrantTerms, table="grant_terms")


def signed_bytes(
    *,
    tenant: str,
    task: str,
    pins: tuple[Pin, ...],
    limits: tuple[SpendLimit, ...],
    uses: int,
    expires_at: datetime,
    approver: str,
    nonce: str,
    standing: bool,
) -> bytes:
    """What an approver's machine signs: the terms, with a domain prefix so that it can be nothing else."""
    return SIGNED_DOMAIN + canonical(
        {
            "tenant": tenant,
            "task": task,
            "pins": [pin_document(pin) for pin in pins],
            "limits": [{"path": limit.path, "total_max": limit.total_max} for limit in limits],
            "uses": uses,
            "expires_at": micros(expires_at),
            "approver": approver,
            "nonce": nonce,
            "standing": standing,
        }
    )


def pin_document(pin: Pin) -> dict[str, Any]:
    """A pin as callers write it, with its path."""
    if pin.max is not None:
        return {"path": pin.path, "max": pin.max}
    if pin.glob is not None:
        return {"path": pin.path, "glob": pin.glob}
    return {"path": pin.path, "exact": msgspec.json.decode(pin.exact)} if pin.is_exact else {"path": pin.path}


NOT_A_PATH = "is not a path; write names joined by dots, such as invoice.amount_cents"
_WAYS = frozenset({"exact", "max", "glob"})


class BadPin(ValueError):
    """A pin without one clear meaning."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


def pins_of(written: Mapping[str, Any]) -> tuple[Pin, ...]:
    """Pins in the order of their paths. Raises `BadPin`."""
    return tuple(_pin(path, written[path]) for path in sorted(written))


def written_pins(pins: Sequence[Pin]) -> dict[str, Any]:
    """Pins as callers write them; `pins_of` reads them back the same."""
    return {pin.path: _written(pin) for pin in pins}


def is_path(path: str) -> bool:
    """Whether it names an argument: no part between its dots is empty."""
    return all(path.split("."))


def _pin(path: str, value: Any) -> Pin:
    if not is_path(path):
        raise BadPin(path, NOT_A_PATH)
    if not isinstance(value, dict):
        return Pin(path=path, exact=msgspec.Raw(canonical(value)))
    narrowing = cast("dict[str, Any]", value)
    if len(narrowing) != 1 or not narrowing.keys() <= _WAYS:
        raise BadPin(path, 'must be a value, {"max": n}, {"glob": "x*"} or {"exact": value}')
    ((way, bound),) = narrowing.items()
    if way == "max":
        return Pin(path=path, max=_number(path, bound))
    if way == "glob":
        return Pin(path=path, glob=_glob(path, bound))
    return Pin(path=path, exact=msgspec.Raw(canonical(bound)))


def _number(path: str, bound: Any) -> Number:
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise BadPin(path, "max must be a number")
    return bound


def _glob(path: str, bound: Any) -> str:
    if not isinstance(bound, str) or not bound or len(bound) > 255:
        raise BadPin(path, "glob must be text of 1 to 255 characters")
    return bound


def _written(pin: Pin) -> Any:
    if pin.max is not None:
        return {"max": pin.max}
    if pin.glob is not None:
        return {"glob": pin.glob}
    if not pin.is_exact:
        return {}
    exact: object = msgspec.json.decode(pin.exact)
    return {"exact": cast("object", exact)} if isinstance(exact, dict) else exact


class BadSignature(Refusal):
    """A grant that comes with a signature must come with a good one."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the grant was not issued ({why}); have the key registered, or sign again")
        self.next = Next("add_signer", {}, needs=("public_key",))


class SignatureRequired(Refusal):
    """An unsigned grant of this task could never be claimed, so none is issued."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"the grant was not issued: {task} needs a signed one; sign it, and send its signature along"
        )
        self.next = Next("issue_grant", {"task": task}, needs=("signature",))


class BadGrantTime(Refusal):
    """A grant must end in the future, and not too far in it."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the grant was not issued: {why}; it must end in the future, at most 366 days from now"
        )


class BadGrantMoment(BadGrantTime):
    """The same, of one whose end was given as a moment."""


class GrantExists(Refusal):
    """A signature is good for one grant, and that one exists."""

    def __init__(self, grant_id: str, state: str) -> None:
        super().__init__(f"grant {grant_id} exists and is {state}; sign a new one with a new nonce")
        self.state = state


class GrantOver(Refusal):
    """A grant that is spent or expired stays so: revoking it would hide its real end."""

    def __init__(self, grant_id: str, state: str) -> None:
        super().__init__(
            f"grant {grant_id} is {state}; there is nothing left to revoke. Read what became of it"
        )
        self.next = Next("get_grant", {"grant_id": grant_id})
        self.state = state


class SignerTaken(Refusal):
    """A key belongs to one person, once."""

    def __init__(self, fingerprint: str, why: str) -> None:
        super().__init__(f"key {fingerprint} {why}; make a new key with `ssh-keygen -t ed25519`")


class NotAPublicKey(Refusal):
    """The input is not an Ed25519 public key."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"that is not an Ed25519 public key ({why}); send a line such as `ssh-ed25519 AAAA…`"
        )
