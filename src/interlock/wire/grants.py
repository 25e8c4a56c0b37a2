"""Grants, claims of their uses, and the keys that sign them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.wire.fields import LINE, Body, Duration, Given, Name, Reason, Sometimes, Spelled


class GrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a grant. `action_id` is the effect that began under it, if one did.

    `fence` is told only to the caller that claimed it.
    """

    grant_id: str
    use: int
    fence: Sometimes[int] = 0
    execution_id: str = ""
    claimed_by: Given[str] = None
    claimed_at: Given[datetime] = None
    args_digest: str = ""
    action_id: str | None = None


class GrantTally(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the uses: issued = open + claimed + expired + revoked."""

    issued: int = 0
    open: int = 0
    claimed: int = 0
    expired: int = 0
    revoked: int = 0


class SpendLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one argument all uses together may add up to."""

    path: str
    total_max: int | float


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A permission: `open`, `spent`, `expired` or `revoked`, by the clock. `claims` are the newest of its uses."""

    id: str
    grant_id: str = ""
    task: str
    state: str
    pins: dict[str, Any] = {}
    limits: tuple[SpendLimit, ...] = ()
    spent: dict[str, int | float] = {}
    uses: int = 1
    used: int = 0
    standing: bool = False
    approver: Given[str] = None
    reason: str = ""
    issued_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    signed_by: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    tally: GrantTally = GrantTally()
    claims: tuple[GrantUse, ...] = ()


class GrantClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the claimant may act: by which use of which grant, or why not."""

    claimed: bool
    grant_id: Sometimes[str | None] = None
    use: Sometimes[int | None] = None
    fence: Sometimes[int | None] = None
    reason: Sometimes[str | None] = None


class GrantLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of one page of grants. `claimed` counts recorded uses; `uneven` are grants that do not add up."""

    grants: int
    issued: int
    open: int
    claimed: int
    expired: int
    revoked: int
    uneven: tuple[str, ...] = ()
    next_cursor: str | None = None


class GrantTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks need a signature, and what a person who signs a grant now writes into it."""

    signed_tasks: tuple[str, ...] = ()
    tenant: str
    approver: str
    nonce: str
    now: datetime


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """A key that grants may be signed with. `fingerprint` is as `ssh-keygen -lf` prints it."""

    fingerprint: str
    person: str
    public_key: str = ""
    added_at: Given[datetime] = None
    added_by: Given[str] = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


Task = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:/\-]+$(?!\n)")]
TaskGlob = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:/*\-]+$(?!\n)")]
ArgumentPath = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
GrantId = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$(?!\n)")]
ExecutionId = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=LINE)]
Groups = Annotated[list[Name], msgspec.Meta(max_length=32)]


class SpendLimitBody(Body, frozen=True, kw_only=True):
    """All uses together may add up to this much of one argument."""

    path: ArgumentPath
    total_max: Annotated[int, msgspec.Meta(ge=0)] | Annotated[float, msgspec.Meta(ge=0)]


class SignatureBody(Body, frozen=True, kw_only=True):
    """`signer`: the fingerprint of a registered key. `value`: Ed25519 over the grant's terms, in base64."""

    signer: Annotated[str, msgspec.Meta(max_length=100)]
    value: Annotated[str, msgspec.Meta(max_length=200)]


class IssueGrantBody(Body, frozen=True, kw_only=True):
    """A permission. `pins` only narrow: `{"repo": "billing", "cents": {"max": 500}, "branch": {"glob": "fix/*"}}`.

    A signed grant gives `expires_at` and `nonce` (its id, from `GET /grants/terms`) as they were signed.
    """

    task: Task
    pins: Annotated[dict[ArgumentPath, Any], msgspec.Meta(max_length=32)] = msgspec.field(
        default_factory=dict[str, Any]
    )
    limits: Annotated[list[SpendLimitBody], msgspec.Meta(max_length=8)] = msgspec.field(
        default_factory=list[SpendLimitBody]
    )
    budget: SpendLimitBody | None = None
    uses: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    expires_in: Duration | None = None
    expires_at: datetime | None = None
    reason: Reason = ""
    standing: bool = False
    nonce: GrantId | None = None
    signature: SignatureBody | None = None


class RevokeGrantBody(Body, frozen=True, kw_only=True):
    reason: Reason = ""


class ClaimGrantBody(Body, frozen=True, kw_only=True):
    """Finds and uses a grant for what is about to run: its `args`.

    With `signed`, only a signed grant is used; with `groups`, only a grant that a person in one of them issued.
    """

    task: Task
    args: Spelled = msgspec.field(default_factory=dict[str, Any])
    execution_id: ExecutionId
    grant_id: GrantId | None = None
    signed: bool = False
    groups: Groups = msgspec.field(default_factory=list[str])


class AddSignerBody(Body, frozen=True, kw_only=True):
    """`public_key`: an OpenSSH line (`ssh-ed25519 AAAA…`), a PEM block, or base64. `person`: the caller if left out."""

    public_key: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    person: Name | None = None


class GrantTermsBody(Body, frozen=True, kw_only=True):
    """Tasks whose grants must be signed: exact names or globs; `*` is every task."""

    signed_tasks: Annotated[list[TaskGlob], msgspec.Meta(max_length=200)]
