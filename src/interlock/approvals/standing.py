"""Standing grants: a person's yes given beforehand, within pins, for as long and as often as it says.

Where the policy asks for people, a standing grant for the job's topic that fits its payload is that yes. It
counts for no more than its approver's vote would: one person, who may still decide, is in the groups asked for,
and is not the one who asks. One that would do but for its signature is refused, and that is audited.
"""

from __future__ import annotations

import msgspec

from interlock.approvals.model import Requirement
from interlock.approvals.placing import Placed, Proposal
from interlock.grants.consuming import approver_reads, broken_signature, candidate_reads, consume, misfit
from interlock.grants.model import GRANT_TERMS, GRANT_USES, TERMS_ID, Grant
from interlock.grants.picks import OpenGrants
from interlock.grants.recording import record_refused
from interlock.identity.model import PRINCIPALS, Caller, Principal, PrincipalKind, Role
from interlock.identity.names import all_folded
from interlock.jobs.model import GrantRef, JobState
from interlock.kernel.record import PICKED_MAX, Reads
from interlock.kernel.world import World

# One for each of many repositories is usual, and what fits may be the youngest.
_CANDIDATES_MAX = 64
_BROKEN_MAX = 5


def standing_reads(tenant: str, topic: str) -> Reads:
    """The oldest standing grants of a topic."""
    return Reads(picks=(_pick(tenant, topic),))


def standing_more(world: World, tenant: str, topic: str) -> Reads:
    """What was found, and who issued and signed it. Where there is no standing grant, nothing."""
    found = world.pick(_pick(tenant, topic, PICKED_MAX))
    if not found:
        return Reads()
    see = Reads(see=(GRANT_TERMS.key(tenant, TERMS_ID),))
    return world.once(candidate_reads, found) | world.once(approver_reads, found) | see


def honour_standing(
    world: World, caller: Caller, proposal: Proposal, placed: Placed, *, job_id: str, job_hash: str
) -> Placed:
    """A job that would wait for people is released if a standing grant fits; one use of it is consumed."""
    if placed.state is not JobState.APPROVAL or placed.approval is None:
        return placed
    requirement = placed.approval.requirement
    payload = msgspec.json.decode(proposal.action.payload)
    broken: list[tuple[Grant, str]] = []
    for grant in world.pick(_pick(proposal.tenant, proposal.action.topic)):
        if not _may_say_yes(world, grant, requirement, proposal.actor):
            continue
        if misfit(world, grant, proposal.action.topic, payload) is None:
            use = world.add(GRANT_USES, consume(world, caller, grant, payload, job_id))
            ref = GrantRef(grant_id=grant.id, use=use.use, job_hash=job_hash, requirement=requirement)
            return Placed(
                state=JobState.PENDING,
                verdict=placed.verdict,
                policy_snapshot=placed.policy_snapshot,
                grant_use=ref,
            )
        if len(broken) < _BROKEN_MAX and (why := broken_signature(world, grant, payload)):
            broken.append((grant, why))
    for grant, why in broken:
        record_refused(world, caller, "grant_claim", grant.id, why, execution_id=job_id)
    return placed


def _may_say_yes(world: World, grant: Grant, asked: Requirement, actor: Principal) -> bool:
    approver = world.get(PRINCIPALS, grant.tenant, grant.approver)
    return (
        asked.quorum == 1
        and approver is not None
        and approver.can_act
        and approver.kind is PrincipalKind.PERSON
        and Role.REVIEW in approver.roles
        and (not asked.groups or bool(set(asked.groups) & set(approver.groups)))
        and (asked.self_approval or _is_somebody_else(grant, approver, actor))
    )


def _is_somebody_else(grant: Grant, approver: Principal, actor: Principal) -> bool:
    """Whether the approver is not the one who asks, by any of their names. Whoever changed hands since may be."""
    if approver.person not in (approver.id, grant.approver_person):
        return False
    return all_folded(approver.people).isdisjoint(all_folded(actor.people))


def _pick(tenant: str, topic: str, limit: int = _CANDIDATES_MAX) -> OpenGrants:
    return OpenGrants(tenant=tenant, task=topic, standing=True, limit=limit)
