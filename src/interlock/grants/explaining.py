"""Why a task has no open grant: what became of its latest ones, as far as a bounded read tells.

Only a claim that finds none open reads them, so that a claim that wins costs what it did.
"""

from __future__ import annotations

from datetime import datetime

from interlock.grants.model import Grant, GrantState
from interlock.grants.picks import LatestGrants
from interlock.kernel.record import Reads
from interlock.kernel.world import Deferred, NotLoaded, World

_LATEST_MAX = 3


def latest_reads(tenant: str, task: str) -> Reads:
    """The latest grants of a task, to see."""
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
    return f"no open grant for {task}{told}; ask a person to issue one with `interlock grant`"


def _fate(grant: Grant, now: datetime) -> str | None:
    match grant.state_at(now):
        case GrantState.EXPIRED:
            return f"{grant.id} expired at {grant.expires_at:%Y-%m-%dT%H:%M:%SZ}"
        case GrantState.SPENT:
            return f"{grant.id} is spent"
        case GrantState.REVOKED:
            return f"{grant.id} was revoked by {grant.revoked_by}"
        case GrantState.OPEN:
            # Any other open one came while this claim was loading, and is for the next.
            return f"{grant.id} is standing, for jobs that are submitted" if grant.standing else None


def _latest(tenant: str, task: str) -> LatestGrants:
    return LatestGrants(tenant=tenant, task=task, limit=_LATEST_MAX)
