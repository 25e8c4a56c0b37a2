"""What is kept and told of a resolution, and who may give one."""

from __future__ import annotations

import pytest

from tests.rooms.effects.effect_client import Actors


async def collide(actors: Actors) -> str:
    """A conflict that was seen twice, a minute apart."""
    if not (await actors.api.get("targets"))["items"]:
        await actors.touch("v2", by=actors.other)
    for _ in range(2):
        seen = await actors.begin(target={"key": "doc:1", "version": "v1"})
        actors.api.clock.advance(60)
    return seen.document["conflict_id"]


async def test_a_resolution_is_kept_audited_and_announced(actors: Actors) -> None:
    conflict = await collide(actors)
    said = {"resolution": "merge", "note": "we talked"}
    headers = {"x-request-id": "monday"}

    seen = await actors.api.call(
        "POST", f"conflicts/{conflict}/resolve", actors.api.admin, said, headers=headers
    )

    kept = seen.document
    assert (kept["state"], kept["resolution"], kept["note"]) == ("resolved", "merge", "we talked")
    assert (kept["resolved_by"], kept["resolved_at"]) == ("root", "2030-01-01T00:02:00Z")
    assert (kept["count"], kept["last_seen_at"]) == (2, "2030-01-01T00:01:00Z")
    (entry,) = (await actors.api.get(f"audit?subject={conflict}"))["items"]
    told = [entry[field] for field in ("action", "actor", "subject_version", "request_id", "details")]
    details = {"resolution": "merge", "carried_out": [], "note": "we talked"}
    assert told == ["conflict_resolve", "root", 2, "monday", details]
    assert await actors.api.events(conflict) == ["conflict.opened", "conflict.resolved"]


async def test_a_second_resolution_is_told_of_the_first_and_a_new_collision_is_a_new_conflict(
    actors: Actors,
) -> None:
    conflict = await collide(actors)
    assert (await actors.settle(conflict, "retry", by=actors.ada)).status == 200
    late = await actors.settle(conflict, "discard", by=actors.bob)
    assert late.status == 409
    assert "ada" in late.document["detail"]
    assert "retry" in late.document["detail"]

    again = await collide(actors)

    assert again != conflict
    assert (await actors.api.get(f"conflicts/{again}"))["count"] == 2


@pytest.mark.parametrize(
    ("role", "status"), [("review", 200), ("operate", 200), ("admin", 200), ("audit", 403), ("submit", 403)]
)
async def test_whoever_decides_or_runs_the_service_resolves(actors: Actors, role: str, status: int) -> None:
    conflict = await collide(actors)
    key = await actors.api.person("eve", role)
    assert (await actors.settle(conflict, "retry", by=key)).status == status


async def test_an_unknown_conflict_is_not_resolved(actors: Actors) -> None:
    assert (await actors.settle("cnf_none", "retry")).status == 404
