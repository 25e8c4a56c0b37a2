"""An effect is held to what its job and its lease are about, whatever else it names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.rooms.effects.effect_client import Actors, lease_ref


@pytest.mark.parametrize("named", [{"key": "doc:1", "version": "v2"}, {"key": "doc:2", "version": "any"}])
async def test_an_effect_of_a_job_whose_target_moved_is_refused_whatever_it_names(
    everywhere: Actors, named: dict[str, str]
) -> None:
    actors = everywhere
    held = await _approved(actors)
    await actors.touch("v2", by=actors.ada)
    for permit in ({"job_id": held["id"]}, {"permit": held["permit"]}):
        begun = await actors.begin(by=actors.worker, target=named, **permit)
        assert (begun.status, begun.word) == (409, "superseded")
        assert (begun.document["expected"], begun.document["found"]) == ("v1", "v2")
    (conflict,) = await actors.conflicts()
    assert (conflict["kind"], conflict["target"], conflict["count"]) == (
        "target_changed_after_draft",
        "doc:1",
        2,
    )


async def test_whoever_carries_a_job_out_goes_on_from_what_they_changed(everywhere: Actors) -> None:
    actors = everywhere
    held = await _approved(actors)
    await actors.begin("one", by=actors.worker, job_id=held["id"])
    await actors.touch("v2", by=actors.worker, previous_version="v1")
    await actors.touch("v3", by=actors.worker)
    for n, named in enumerate(({"key": "doc:1", "version": "v3"}, {"key": "doc:2", "version": "any"})):
        begun = await actors.begin(f"more-{n}", by=actors.worker, job_id=held["id"], target=named)
        assert begun.status == 201, begun.document
    await actors.touch("v4", by=actors.ada)
    await actors.touch("v5", by=actors.worker)
    named = {"key": "doc:1", "version": "v5"}
    assert (
        await actors.begin("last", by=actors.worker, job_id=held["id"], target=named)
    ).word == "superseded"


async def test_two_targets_of_an_effect_are_checked_in_whatever_order_others_name_them(
    everywhere: Actors,
) -> None:
    actors = everywhere
    for key in ("doc:1", "doc:2"):
        await actors.touch("v1", key)
    held = [await _claimed(actors, key) for key in ("doc:1", "doc:2") * 8]
    others = ("doc:2", "doc:1") * 8
    begun = await asyncio.gather(
        *(
            actors.begin(f"e-{n}", by=actors.worker, job_id=job["id"], target={"key": other, "version": "v1"})
            for n, (job, other) in enumerate(zip(held, others, strict=True))
        )
    )
    assert [seen.status for seen in begun] == [201] * 16


async def test_a_holder_who_was_undercut_cannot_go_on_by_naming_something_else(everywhere: Actors) -> None:
    actors = everywhere
    lease = await actors.lease()
    edited = (await actors.touch("v2"))["conflict_id"]
    for key in ("doc:2", "doc:1/**"):
        begun = await actors.begin(lease=lease_ref(lease), target={"key": key, "version": "v2"})
        assert (begun.status, begun.word) == (409, "not_actionable")
    renewed = (await actors.renew(lease)).document
    assert (renewed["state"], renewed["conflict_id"]) == ("conflict_detected", edited)
    named = {"key": "doc:1", "version": "v2"}
    assert (await actors.begin(lease=lease_ref(lease), target=named)).status == 201
    assert (await actors.renew(lease)).document["conflict_id"] is None


async def test_work_beside_what_was_changed_does_not_hide_the_conflict(everywhere: Actors) -> None:
    actors = everywhere
    lease = await actors.lease("repo:x/**")
    edited = (await actors.touch("v2", "repo:x/a.py"))["conflict_id"]
    beside = {"key": "repo:x/b.py", "version": "v1"}
    assert (await actors.begin("b", lease=lease_ref(lease), target=beside)).status == 201
    assert (await actors.begin("c", lease=lease_ref(lease))).word == "not_actionable"
    await actors.commit("b")
    renewed = (await actors.renew(lease)).document
    assert (renewed["state"], renewed["conflict_id"]) == ("conflict_detected", edited)
    seen = {"key": "repo:x/a.py", "version": "v2"}
    assert (await actors.begin("a", lease=lease_ref(lease), target=seen)).status == 201
    await actors.commit("a")
    assert (await actors.renew(lease)).document["state"] == "leased"


async def _approved(actors: Actors) -> Any:
    job = await actors.submit("v1")
    await actors.api.approve(job, actors.bob)
    (held,) = await actors.claim("pay.a")
    return held


async def _claimed(actors: Actors, key: str) -> Any:
    await actors.submit("v1", "free.a", key=key)
    (held,) = await actors.claim()
    return held
