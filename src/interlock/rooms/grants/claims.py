"""Claims: find a grant that fits and use it once, in one decision.

All checks come first: task, state and time, signature, pins, limits. A claim that fails one uses nothing, says which
check failed, and is audited. The oldest fitting grant is taken unless one is named; a claim that names a grant never
falls back to another.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

import msgspec

from interlock.kernel.record import PICKED_MAX, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, Deferred, NotLoaded, World
from interlock.rooms.grants.model import (
    GRANT_TERMS,
    GRANT_USES,
    GRANTS,
    TERMS_ID,
    Grant,
    GrantState,
    GrantUse,
)
from interlock.rooms.grants.uses import (
    START,
    LatestGrants,
    OpenGrants,
    approver_reads,
    args_digest,
    candidate_reads,
    consume,
    misfit,
    record_refused,
    use_id,
)
from interlock.rooms.identity.model import PRINCIPALS, Caller, Role
from interlock.rooms.identity.rules import caller_reads, require

_LATEST_MAX = 3


def latest_reads(tenant: str, task: str) -> Reads:
    """The latest grants of a task, without locks."""
    return Reads(picks=(_latest(tenant, task),))


def why_none_is_open(world: World, tenant: str, task: str) -> str:
    """One sentence with the next step."""
    try:
        found = world.pick(_latest(tenant, task))
        fates = ", ".join(filter(None, (_fate(grant, world.now) for grant in found)))
    except (Deferred, NotLoaded):
        # One was open when this batch was loaded, so there was nothing to explain.
        fates = "others were faster"
    told = f": {fates}" if fates else ""
    return f"no open grant for {task}{told}; ask a person to issue one"


def _fate(grant: Grant, now: datetime) -> str | None:
    match grant.state_at(now):
        case GrantState.EXPIRED:
            return f"{grant.id} expired at {grant.expires_at:%Y-%m-%dT%H:%M:%SZ}"
        case GrantState.SPENT:
            return f"{grant.id} is spent"
        case GrantState.REVOKED:
            return f"{grant.id} was revoked by {grant.revoked_by}"
        case GrantState.OPEN:
            # Any other open grant was issued while this claim was loading, and is for the next claim.
            return f"{grant.id} is standing, for jobs that are submitted" if grant.standing else None


def _latest(tenant: str, task: str) -> LatestGrants:
    return LatestGrants(tenant=tenant, task=task, limit=_LATEST_MAX)


# Most claims take the oldest grant, so a batch need not look at all grants again after each claim.
_AT_ONCE = 2
_FIRST_LOOK = 8
_FURTHER_MAX = 128
_LOOKS_MAX = 64
_REASONS_MAX = 5
# How a reason ends: it tells a caller that repeats a claim what to do.
CLAIMED_NOTHING = "has claimed nothing"
FOR_OTHER_ARGUMENTS = "was claimed for other arguments"
_NOT_ALL = "there are more open grants of this task than a claim looks at; name one that fits as grant_id"


class NotClaimed(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was consumed, and why. An expected answer, not an error."""

    reason: str


class LookFurther(Refusal):
    """The oldest grants do not fit, and there may be more: make this claim instead, which goes on after them.

    It is raised a bounded number of times, then the claim is refused: repeating until it stops ends.
    """

    def __init__(self, claim: ClaimGrant) -> None:
        super().__init__("the oldest grants of this task do not fit; look further")
        self.claim = claim


class ClaimGrant(Command[GrantUse | NotClaimed], frozen=True, kw_only=True):
    """Find a fitting grant and consume one use.

    A repeat of a claim that won (same claimant, task, execution id and arguments) gets the same use again, unless it
    asks for more than the use was claimed under. A "no" is not remembered: nothing happened. `signed_only` narrows to
    signed grants, `groups` to those of people in one of them, `claimed_before` to the use that this execution has.
    `after`, `misfits` and `looks_left` are for `LookFurther`. `action_id` is the effect that begins with this decision,
    if one does: a use permits one effect and no second.
    """

    caller: Caller
    task: str
    args: msgspec.Raw
    execution_id: str
    grant_id: str | None = None
    signed_only: bool = False
    groups: tuple[str, ...] = ()
    claimed_before: bool = False
    after: tuple[int, str] = START
    misfits: tuple[str, ...] = ()
    looks_left: int = _LOOKS_MAX - 1
    action_id: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        own = [GRANT_USES.key(tenant, self._use_id())]
        if self.grant_id is not None:
            own.append(GRANTS.key(tenant, self.grant_id))
        picks = () if self.grant_id is not None else (self._pick(self._most),)
        return caller_reads(self.caller) | Reads(
            own=tuple(own), see=(GRANT_TERMS.key(tenant, TERMS_ID),), picks=picks
        )

    def more(self, world: World) -> Reads:
        """All grants found for the batch, and their signers' keys; if there are none, the grants that explain why."""
        candidates = self._candidates(world, PICKED_MAX)
        if not candidates and self.grant_id is None and self.after == START:
            return latest_reads(self.caller.tenant, self.task)
        reads = world.once(candidate_reads, candidates)
        return reads | world.once(approver_reads, candidates) if self.groups else reads

    def decide(self, world: World) -> GrantUse | NotClaimed:
        require(world, self.caller, Role.SUBMIT, Role.WORK, Role.OPERATE, Role.ADMIN)
        args = msgspec.json.decode(self.args)
        known = world.get(GRANT_USES, self.caller.tenant, self._use_id())
        if known is not None:
            return self._again(world, known, args)
        if self.claimed_before:
            return self._refuse(world, [f"execution_id {self.execution_id} {CLAIMED_NOTHING}"])
        misfits = list(self.misfits)
        candidates: tuple[Grant, ...] = ()
        for most in (_AT_ONCE, self._most):
            seen, candidates = len(candidates), self._candidates(world, most)
            for grant in candidates[seen:]:
                why = self._misfit(world, grant, args)
                if why is None:
                    use = consume(world, self.caller, grant, args, self.execution_id)
                    use = msgspec.structs.replace(use, groups=self.groups)
                    return world.put(GRANT_USES, self._for_effect(use))
                misfits.append(f"{grant.id}: {why}")
        last = self._last_considered(world, candidates)
        if last is None:
            return self._refuse(world, misfits[:_REASONS_MAX])
        if self.looks_left > 0:
            raise LookFurther(self._after(last, misfits))
        return self._refuse(world, [*misfits[:_REASONS_MAX], _NOT_ALL])

    def _last_considered(self, world: World, candidates: tuple[Grant, ...]) -> Grant | None:
        """After which grant there may be more; None if there is none, or if one was named."""
        if self.grant_id is not None:
            return None
        if len(candidates) == self._most:
            return candidates[-1]
        # Other claims may have spent all found grants before they were locked, and there may be more behind them.
        return world.last_seen(self._pick(self._most))

    def _after(self, last: Grant, misfits: list[str]) -> ClaimGrant:
        """The same claim, going on after the grants that did not fit."""
        return msgspec.structs.replace(
            self,
            after=(micros(last.issued_at), last.id),
            misfits=tuple(misfits[:_REASONS_MAX]),
            looks_left=self.looks_left - 1,
        )

    def _again(self, world: World, known: GrantUse, args: Any) -> GrantUse | NotClaimed:
        """The use that this execution already has, unless it was claimed for something else."""
        if other := self._other_than(known, args):
            return self._refuse(world, [f"execution_id {self.execution_id} {other}"])
        if self.action_id in (None, known.action_id):
            return known
        if known.action_id is not None:
            other = f"execution_id {self.execution_id} permits effect {known.action_id} and no other"
            return self._refuse(world, [other])
        return world.put(GRANT_USES, self._for_effect(known))

    def _other_than(self, known: GrantUse, args: Any) -> str | None:
        """How the first claim of this use differs from this one; None if it does not."""
        if known.args_digest != args_digest(args):
            return FOR_OTHER_ARGUMENTS
        if self.grant_id not in (None, known.grant_id):
            return f"used grant {known.grant_id}"
        if asks_for_more(self, known):
            return "was claimed without the signature or the groups that are asked for now"
        return None

    def _for_effect(self, use: GrantUse) -> GrantUse:
        return use if self.action_id is None else msgspec.structs.replace(use, action_id=self.action_id)

    def _misfit(self, world: World, grant: Grant, args: Any) -> str | None:
        if grant.standing:
            return "standing: it is honoured where jobs are submitted, not by claims"
        if self.signed_only and grant.signature is None:
            return "signature: this task needs a signed grant"
        return misfit(world, grant, self.task, args) or self._misfit_of_approver(world, grant)

    def _misfit_of_approver(self, world: World, grant: Grant) -> str | None:
        """The user of the embedded store needs no group; all others must be in a group that is asked for."""
        if not self.groups:
            return None
        approver = world.get(PRINCIPALS, grant.tenant, grant.approver)
        if approver is not None and (approver.is_local or set(self.groups) & set(approver.groups)):
            return None
        return f"approver: {grant.approver} is not in {' or '.join(self.groups)}"

    def _refuse(self, world: World, misfits: list[str]) -> NotClaimed:
        reason = "; ".join(misfits)
        if not misfits and self.grant_id is not None:
            reason = f"there is no grant {self.grant_id}"
        elif not misfits:
            reason = why_none_is_open(world, self.caller.tenant, self.task)
        subject = self.grant_id or self.task
        record_refused(world, self.caller, "grant_claim", subject, reason, execution_id=self.execution_id)
        return NotClaimed(reason=reason)

    def _candidates(self, world: World, most: int) -> tuple[Grant, ...]:
        if self.grant_id is None:
            return world.pick(self._pick(most))
        named = world.get(GRANTS, self.caller.tenant, self.grant_id)
        return () if named is None else (named,)

    def _pick(self, most: int) -> OpenGrants:
        return OpenGrants(tenant=self.caller.tenant, task=self.task, after=self.after, limit=most)

    @property
    def _most(self) -> int:
        return _FIRST_LOOK if self.after == START else _FURTHER_MAX

    def _use_id(self) -> str:
        return use_id(self.task, self.caller.principal, self.execution_id)


class ClaimedUse(Protocol):
    """The part of a claimed use that `asks_for_more` compares."""

    @property
    def signed(self) -> bool: ...
    @property
    def groups(self) -> tuple[str, ...]: ...


def asks_for_more(claim: ClaimGrant, known: ClaimedUse) -> bool:
    """Whether a claim insists on a signature or on groups that a use was not claimed under."""
    if claim.signed_only and not known.signed:
        return True
    return bool(claim.groups) and not (known.groups and set(known.groups) <= set(claim.groups))
