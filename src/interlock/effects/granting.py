"""The grant that permits an effect, claimed in the decision that begins it.

A use is consumed if and only if the effect begins. A further attempt of the same action, which begins only after
the last one surely did nothing, goes under the same use, whoever makes it.
"""

from __future__ import annotations

import msgspec

from interlock.effects.model import Effect, GrantRef
from interlock.effects.refusals import GrantMissing
from interlock.grants.claiming import ClaimGrant, NotClaimed, asks_for_more
from interlock.grants.consuming import args_digest
from interlock.grants.model import GRANTS
from interlock.kernel.record import Reads
from interlock.kernel.world import World


def claim_reads(claim: ClaimGrant) -> Reads:
    """What a claim reads, grants only to see: they are owned in the second load, named or found alike."""
    first = claim.reads()
    named = tuple(key for key in first.own if key.kind is GRANTS)
    own = tuple(key for key in first.own if key.kind is not GRANTS)
    return Reads(own=own, see=(*first.see, *named), picks=first.picks)


def claim_grant(world: World, claim: ClaimGrant, before: Effect | None) -> GrantRef:
    """The use that permits the effect: the one of an attempt before, or one consumed now."""
    known = before.grant if before else None
    digest = args_digest(msgspec.json.decode(claim.args))
    if (
        known is not None
        and (known.task, known.args_digest) == (claim.task, digest)
        and claim.grant_id in (None, known.id)
        and not asks_for_more(claim, known)
    ):
        return known
    use = claim.decide(world)
    if isinstance(use, NotClaimed):
        raise GrantMissing(claim.task, use.reason, execution_id=claim.execution_id, grant_id=claim.grant_id)
    return GrantRef(
        id=use.grant_id,
        task=use.task,
        use=use.use,
        args_digest=use.args_digest,
        signed=use.signed,
        groups=use.groups,
    )
