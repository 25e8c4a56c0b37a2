"""What must hold before a caller may act: one attempt at a time, and all conditions in one decision."""

from __future__ import annotations

import pytest

from tests.rooms.effects.effect_client import Actors, lease_ref


async def test_the_first_begin_gets_a_fence_and_a_stable_key(actors: Actors) -> None:
    begun = await actors.begin()
    assert begun.status == 201
    assert (begun.document["state"], begun.document["fence"]) == ("IN_PROGRESS", 1)
    key = begun.document["downstream_key"]
    await actors.fail(safe=True)
    again = await actors.begin()
    assert (again.document["fence"], again.document["downstream_key"]) == (2, key)


async def test_keys_differ_by_action_and_by_tenant(actors: Actors) -> None:
    stranger = await actors.api.key("bot", "agent", "submit", tenant="elsewhere")
    begun = [await actors.begin("a"), await actors.begin("b"), await actors.begin("a", by=stranger)]
    assert [seen.status for seen in begun] == [201, 201, 201]
    assert len({seen.document["downstream_key"] for seen in begun}) == 3


async def test_a_second_begin_waits_for_the_first_and_is_told_how_long(actors: Actors) -> None:
    await actors.begin(ttl_seconds=10)
    await actors.pass_time(4)
    seen = await actors.begin(by=actors.other)
    assert (seen.status, seen.word) == (409, "effect_in_progress")
    assert seen.document["retryable"] is True
    assert seen.document["retry_after_ms"] == 6000


async def test_another_request_under_the_same_id_is_refused_whatever_became_of_the_first(
    actors: Actors,
) -> None:
    for settle in (None, "commit", "fail", "time"):
        action = f"act-{settle}"
        await actors.begin(action, ttl_seconds=5)
        if settle == "commit":
            await actors.commit(action)
        if settle == "fail":
            await actors.fail(action, safe=True)
        if settle == "time":
            await actors.pass_time(6)
        seen = await actors.begin(action, request_hash="sha256:other")
        assert (seen.status, seen.word) == (422, "action_id_reused"), settle


async def test_what_was_committed_is_replayed_and_needs_no_conditions_any_more(actors: Actors) -> None:
    lease = await actors.lease(ttl_seconds=5)
    await actors.begin(lease=lease_ref(lease))
    await actors.commit(result={"receipt": 7})
    await actors.pass_time(60)
    seen = await actors.begin(lease=lease_ref(lease), by=actors.other)
    assert seen.status == 200
    assert (seen.document["state"], seen.document["replayed"]) == ("COMMITTED", True)
    assert seen.document["result"] == {"receipt": 7}


@pytest.mark.parametrize("swept", [True, False])
async def test_an_attempt_past_its_time_is_ambiguous_whether_or_not_a_sweep_ran(
    actors: Actors, *, swept: bool
) -> None:
    begun = await actors.begin(ttl_seconds=5)
    await actors.pass_time(5, sweep=swept)
    seen = await actors.begin(by=actors.other)
    assert (seen.status, seen.word) == (409, "effect_ambiguous")
    assert seen.document["next"]["operation"] == "resolve_effect"
    assert seen.document["downstream_key"] == begun.document["downstream_key"]


async def test_a_stale_lease_begins_nothing_and_is_recorded(actors: Actors) -> None:
    lease = await actors.lease(ttl_seconds=5)
    await actors.pass_time(6)
    seen = await actors.begin(lease=lease_ref(lease))
    assert (seen.status, seen.word) == (409, "fence_stale")
    assert (await actors.api.call("GET", "effects/a", actors.bot)).status == 404
    (conflict,) = await actors.conflicts(kind="stale_fence")
    assert conflict["target"] == "doc:1"


async def test_somebody_elses_lease_begins_nothing(actors: Actors) -> None:
    lease = await actors.lease(by=actors.other)
    assert (await actors.begin(lease=lease_ref(lease))).word == "fence_stale"


async def test_a_lease_is_applying_while_an_effect_runs_under_it(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.begin(lease=lease_ref(lease))
    assert (await actors.target())["owner"]["state"] == "applying"
    await actors.commit()
    assert (await actors.target())["owner"]["state"] == "leased"


async def test_an_effect_for_an_old_version_of_its_target_is_superseded(actors: Actors) -> None:
    await actors.touch("v1")
    await actors.touch("v2")
    seen = await actors.begin(target={"key": "doc:1", "version": "v1"})
    assert (seen.status, seen.word) == (409, "superseded")
    assert (seen.document["expected"], seen.document["found"]) == ("v1", "v2")
    (conflict,) = await actors.conflicts()
    assert conflict["id"] == seen.document["conflict_id"]
    assert conflict["kind"] == "target_changed_after_draft"
    assert (await actors.begin(target={"key": "doc:1", "version": "v2"})).status == 201


async def test_a_held_job_permits_its_effect_by_its_holder_or_by_its_permit_alone(actors: Actors) -> None:
    job = await actors.submit(None, "free.a")
    (held,) = await actors.claim()
    assert (await actors.begin("no", job_id=job)).word == "fence_stale"
    assert (await actors.begin("holder", job_id=job, by=actors.worker)).status == 201
    assert (await actors.begin("bearer", permit=held["permit"])).status == 201
    forged = held["permit"][:-4] + "AAAA"
    assert (await actors.begin("forged", permit=forged)).status == 403


async def test_a_permit_of_a_lost_job_begins_nothing_and_is_recorded(actors: Actors) -> None:
    await actors.submit(None, "free.a")
    (held,) = await actors.claim()
    released = {"fence": held["fence"]}
    assert (await actors.post(f"jobs/{held['id']}/release", actors.worker, released)).status == 200
    (again,) = await actors.claim()
    seen = await actors.begin(permit=held["permit"])
    assert (seen.status, seen.word) == (409, "fence_stale")
    assert "current_fence" not in seen.document  # It is the holder's.
    assert str(again["fence"]) not in seen.document["detail"].replace(held["id"], "")
    (conflict,) = await actors.conflicts(kind="stale_fence")
    assert (conflict["affected"]["job"], conflict["id"]) == (held["id"], seen.document["conflict_id"])
    assert (await actors.begin(permit=again["permit"])).status == 201


async def test_the_target_of_the_job_is_checked_without_being_named_again(actors: Actors) -> None:
    await actors.touch("v1")
    job = await actors.submit("v1", "free.a")
    (held,) = await actors.claim()
    await actors.touch("v2")
    assert (await actors.begin(permit=held["permit"])).word == "superseded"
    assert held["id"] == job


async def test_an_action_id_may_be_any_visible_text(actors: Actors) -> None:
    assert (await actors.begin("refund: 47/11 ü")).document["action_id"] == "refund: 47/11 ü"
    assert (await actors.begin("x" * 301)).status == 400


async def test_a_repeat_under_an_idempotency_key_gets_the_same_fence(actors: Actors) -> None:
    body = {"request_hash": "sha256:one"}
    first, second = [
        await actors.api.call("POST", "effects/a/begin", actors.bot, body, idempotency_key="k")
        for _ in range(2)
    ]
    assert (first.status, first.body) == (second.status, second.body)
