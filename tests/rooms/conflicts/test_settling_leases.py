"""A resolution reaches the lease that is in that conflict, whatever its owner does meanwhile, and no other."""

from __future__ import annotations

from typing import Any

from tests.rooms.effects.effect_client import Actors, lease_ref

REASON = "waiting_on_review"


async def test_a_holder_who_waited_through_a_conflict_comes_back_as_from_any_wait(actors: Actors) -> None:
    lease = await actors.lease()
    await _call(actors, lease, "suspend", reason=REASON)
    conflict = (await actors.touch("v2"))["conflict_id"]
    assert (await _read(actors, lease))["state"] == "conflict_detected"
    await actors.settle(conflict, "keep_second")
    assert (await _read(actors, lease))["state"] == "waiting_on_review"
    resumed = await _call(actors, lease, "resume")
    assert (resumed["state"], resumed["conflict_id"]) == ("leased", None)


async def test_a_conflict_that_was_settled_during_a_wait_is_over_after_it(actors: Actors) -> None:
    lease = await actors.lease()
    conflict = (await actors.touch("v2"))["conflict_id"]
    await _call(actors, lease, "suspend", reason=REASON)
    settled = await actors.settle(conflict, "keep_second")
    assert settled.document["carried_out"] == ["settle_lease"]
    resumed = await _call(actors, lease, "resume")
    assert (resumed["state"], resumed["conflict_id"]) == ("leased", None)
    assert (await actors.begin(lease=lease_ref(lease))).status == 201


async def test_discarding_ends_a_lease_that_waits_too(actors: Actors) -> None:
    lease = await actors.lease()
    conflict = (await actors.touch("v2"))["conflict_id"]
    await _call(actors, lease, "suspend", reason=REASON)
    assert (await actors.settle(conflict, "discard")).document["carried_out"] == ["end_lease"]
    assert (await actors.renew(lease)).word == "fence_stale"


async def test_what_a_stranger_did_with_a_lease_does_not_end_it_or_settle_it(actors: Actors) -> None:
    lease = await actors.lease()
    edited = (await actors.touch("v2"))["conflict_id"]
    for resolution in ("discard", "keep_first", "retry"):
        stale = (await actors.renew(lease, by=actors.other)).document["conflict_id"]
        assert stale != edited
        assert (await actors.settle(stale, resolution)).document["carried_out"] == []
    renewed = (await actors.renew(lease)).document
    assert (renewed["state"], renewed["conflict_id"]) == ("conflict_detected", edited)


async def test_discarding_what_a_late_worker_brought_leaves_the_job_to_its_owner(actors: Actors) -> None:
    job = await actors.submit(None, "free.a")
    (held,) = await actors.claim()
    late = await actors.post(f"jobs/{job}/complete", actors.other, {"fence": held["fence"], "result": 1})
    settled = await actors.settle(late.document["conflict_id"], "discard")
    assert settled.document["carried_out"] == []
    done = await actors.post(f"jobs/{job}/complete", actors.worker, {"fence": held["fence"], "result": 2})
    assert done.status == 200


async def test_a_wait_that_somebody_interrupted_counts_towards_the_longest(actors: Actors) -> None:
    terms = {"suspend_seconds_max": 100}
    assert (await actors.api.call("PUT", "leases/terms", actors.api.admin, terms)).status == 200
    lease = await actors.lease()
    first = await _call(actors, lease, "suspend", reason=REASON)
    await actors.pass_time(60)
    await actors.touch("v2")
    again = await _call(actors, lease, "suspend", reason=REASON)
    assert again["expires_at"] == first["expires_at"]


async def test_a_holder_who_acts_again_no_longer_holds_for_as_long_as_a_wait_lasts(actors: Actors) -> None:
    lease = await actors.lease(ttl_seconds=60)
    await _call(actors, lease, "suspend", reason=REASON)
    await actors.touch("v2")
    target = {"key": "doc:1", "version": "v2"}
    assert (await actors.begin(lease=lease_ref(lease), target=target)).status == 201
    await actors.commit()
    assert (await _read(actors, lease))["state"] == "leased"
    await actors.pass_time(61, sweep=False)
    assert (await actors.renew(lease)).word == "fence_stale"


async def _call(actors: Actors, lease: Any, verb: str, **fields: Any) -> Any:
    body = {"fence": lease["fence"], **fields}
    seen = await actors.post(f"leases/{lease['lease_id']}/{verb}", actors.bot, body)
    assert seen.status == 200, seen.document
    return seen.document


async def _read(actors: Actors, lease: Any) -> Any:
    return await actors.api.get(f"leases/{lease['lease_id']}")
