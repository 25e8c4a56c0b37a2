"""Reading effects."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.pages import NEWEST, Records, readable
from interlock.kernel.record import micros
from interlock.kernel.storage import Store, cut
from interlock.rooms.effects.model import EFFECTS, RESULTS, Effect, EffectResult, EffectState

AMBIGUOUS_COUNTED_MAX = 10_000


async def read_effect(store: Store, tenant: str, action_id: str) -> Effect | None:
    return await store.get(EFFECTS, tenant, action_id)


async def read_result(store: Store, tenant: str, result_id: str) -> EffectResult | None:
    return await store.get(RESULTS, tenant, result_id)


async def list_effects(
    store: Store, tenant: str, *, state: EffectState | None, now: datetime, before: str | None, limit: int
) -> Records[Effect]:
    """Effects, newest first by their first attempt, narrowed by state as of `now`.

    The cursor is not the caller's own id but ours.
    """
    name, params = "list_effects", {"tenant": tenant}
    if state is EffectState.AMBIGUOUS:
        name, params = "list_ambiguous_effects", {"tenant": tenant, "now": micros(now)}
    elif state is not None:
        name, params = "list_effects_by_state", {"tenant": tenant, "state": state.value, "now": micros(now)}
    rows = await store.query(f"effects.{name}", {**params, "before": before or NEWEST, "limit": limit + 1})
    found = readable(EFFECTS, (row[0] for row in rows))
    return Records(*cut(found, limit, lambda effect: effect.uid, rows=len(rows)))


async def count_ambiguous(store: Store, tenant: str, *, now: datetime, limit: int) -> int:
    """How many effects have an unknown outcome as of `now`, counted up to `limit`."""
    params = {"tenant": tenant, "now": micros(now), "limit": limit}
    return min(limit, int((await store.query("effects.count_ambiguous_effects", params))[0][0]))


async def count_ambiguous_by_tenant(store: Store) -> dict[str, int]:
    """How many effects of each tenant are ambiguous, counted up to a bound in all."""
    rows = await store.query("effects.count_ambiguous_by_tenant", {"limit": AMBIGUOUS_COUNTED_MAX})
    return {str(row[0]): int(row[1]) for row in rows}
