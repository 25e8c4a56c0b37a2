"""A person edits what an agent holds and another agent waits to change: everybody learns of it, once."""

from __future__ import annotations

import asyncio

from tests.rooms.effects.effect_client import Actors, lease_ref


async def test_a_persons_edit_reaches_the_holder_the_approval_and_the_effect(everywhere: Actors) -> None:
    actors = everywhere
    await actors.touch("v1", by=actors.bot)
    lease = await actors.lease(by=actors.bot, purpose="rewrite the terms")
    job = await actors.submit("v1", by=actors.other)

    edited = await actors.touch("v2", by=actors.ada, summary="a typo")

    renewed = (await actors.renew(lease)).document
    assert (renewed["state"], renewed["conflict_id"]) == ("conflict_detected", edited["conflict_id"])
    approval = await actors.api.approve(job, actors.bob)
    assert (approval.status, approval.word) == (409, "target_changed")
    assert approval.document["conflict_id"] == edited["conflict_id"]
    prepared = {"lease": lease_ref(lease), "target": {"key": "doc:1", "version": "v1"}}
    effect = await actors.begin("publish", **prepared)
    assert (effect.status, effect.word) == (409, "superseded")
    assert effect.document["conflict_id"] == edited["conflict_id"]
    (conflict,) = await actors.conflicts()
    assert conflict["id"] == edited["conflict_id"]
    assert conflict["kind"] == "human_edit_during_lease"
    assert {side["actor"] for side in conflict["competing"]} == {"bot", "other", "ada"}
    held = lease["lease_id"]
    assert conflict["affected"] == {
        "job": job, "lease": held, "effect": None, "jobs": [job], "leases": [held]
    }  # fmt: skip
    assert "lease.conflict_detected" in await actors.api.events(lease["lease_id"])


async def test_whatever_order_touch_and_begin_meet_in_no_effect_begins_on_the_old_version(
    everywhere: Actors,
) -> None:
    actors = everywhere
    for n in range(20):
        key = f"doc:{n}"
        await actors.touch("v1", key, by=actors.bot)
        target = {"key": key, "version": "v1"}
        touched, begun = await asyncio.gather(
            actors.touch("v2", key), actors.begin(f"effect-{n}", target=target)
        )
        assert begun.status in (201, 409)
        if begun.status == 409:
            assert begun.word == "superseded"
        # A caller that begins after the touch was answered is refused.
        late = await actors.begin(f"late-{n}", target=target)
        assert (late.word, touched["version"]) == ("superseded", "v2")


async def test_one_conflict_names_every_job_and_lease_and_settles_them_all(everywhere: Actors) -> None:
    actors = everywhere
    leases = [(await actors.lease(mode="shared", by=by))["lease_id"] for by in (actors.bot, actors.other)]
    jobs = [await actors.submit("v1", by=by) for by in (actors.bot, actors.other, actors.bot)]
    edited = await actors.touch("v2", by=actors.ada)
    (conflict,) = await actors.conflicts()
    assert conflict["id"] == edited["conflict_id"]
    assert conflict["affected"]["jobs"] == jobs
    assert set(conflict["affected"]["leases"]) == set(leases)
    assert conflict["competing"][-1]["actor"] == "ada"
    settled = await actors.settle(conflict["id"], "discard")
    assert settled.document["carried_out"] == ["cancel_job", "end_lease"]
    assert [(await actors.api.get(f"jobs/{job}"))["state"] for job in jobs] == ["CANCELLED"] * 3
    assert (await actors.target())["owners"] == []


async def test_many_begins_at_once_on_few_uses_begin_just_as_many(everywhere: Actors) -> None:
    actors = everywhere
    await actors.post("grants", actors.ada, {"task": "refund", "uses": 3})
    need = {"task": "refund", "args": {}}
    begun = await asyncio.gather(
        *(actors.begin(f"refund-{n}", grant=need, by=(actors.bot, actors.other)[n % 2]) for n in range(20))
    )
    uses = sorted(seen.document["grant"]["use"] for seen in begun if seen.status == 201)
    assert uses == [1, 2, 3]
    assert {seen.word for seen in begun if seen.status != 201} == {"not_claimed"}


async def test_fifty_begins_at_once_are_one_attempt(everywhere: Actors) -> None:
    actors = everywhere
    begun = await asyncio.gather(
        *(actors.begin("pay", by=key) for key in (actors.bot, actors.other) for _ in range(25))
    )
    statuses = [seen.status for seen in begun]
    assert (statuses.count(201), statuses.count(409)) == (1, 49)
    assert {seen.word for seen in begun if seen.status == 409} == {"effect_in_progress"}


async def test_stale_attempts_at_once_are_one_conflict(everywhere: Actors) -> None:
    actors = everywhere
    lease = await actors.lease()
    await actors.post(f"leases/{lease['lease_id']}/release", actors.bot, {"fence": lease["fence"]})
    renewals = await asyncio.gather(*(actors.renew(lease) for _ in range(100)))
    assert {seen.word for seen in renewals} == {"fence_stale"}
    (conflict,) = await actors.conflicts()
    assert conflict["count"] == 100


async def test_a_large_result_survives_every_store(everywhere: Actors) -> None:
    actors = everywhere
    await actors.begin()
    await actors.commit(result={"text": "ü" * 50_000})
    replayed = (await actors.begin()).document
    whole = await actors.api.get(replayed["stored_result"]["pointer"])
    assert whole["result"] == {"text": "ü" * 50_000}
