"""How an effect ends: what its own attempt may say, late or twice, and what other callers may."""

from __future__ import annotations

import pytest

from tests.rooms.effects.effect_client import Actors, lease_ref


async def test_a_second_commit_changes_nothing(actors: Actors) -> None:
    await actors.begin()
    await actors.commit(result=1)
    again = await actors.commit(result=2)
    assert (again.status, again.document["result"]) == (200, 1)
    assert (await actors.api.events("a")).count("effect.committed") == 1


async def test_a_safe_failure_lets_exactly_one_new_attempt_begin(actors: Actors) -> None:
    await actors.begin()
    assert (await actors.fail(safe=True)).document["state"] == "FAILED"
    begun = [await actors.begin(), await actors.begin(by=actors.other)]
    assert [seen.status for seen in begun] == [201, 409]


async def test_a_failure_that_may_have_happened_is_ambiguous_at_once(actors: Actors) -> None:
    await actors.begin()
    assert (await actors.fail(safe=False)).document["state"] == "AMBIGUOUS"
    assert (await actors.begin()).word == "effect_ambiguous"
    assert "effect.ambiguous" in await actors.api.events("a")


async def test_failing_is_unsafe_unless_said_otherwise(actors: Actors) -> None:
    await actors.begin()
    seen = await actors.post("effects/a/fail", actors.bot, {"fence": 1, "error": "?"})
    assert seen.document["state"] == "AMBIGUOUS"


@pytest.mark.parametrize("swept", [True, False])
async def test_a_late_commit_by_its_own_attempt_is_the_truth(actors: Actors, *, swept: bool) -> None:
    await actors.begin(ttl_seconds=5)
    await actors.pass_time(60, sweep=swept)
    assert (await actors.commit(result="done")).document["state"] == "COMMITTED"
    assert (await actors.begin()).document["result"] == "done"


async def test_a_late_word_that_it_did_not_happen_is_the_truth_too(actors: Actors) -> None:
    await actors.begin(ttl_seconds=5)
    await actors.pass_time(60)
    assert (await actors.fail(safe=True)).document["state"] == "FAILED"
    assert (await actors.begin()).status == 201


@pytest.mark.parametrize("newer", ["bot", "other"])
async def test_an_older_attempt_cannot_settle_a_newer_one(actors: Actors, newer: str) -> None:
    await actors.begin()
    await actors.fail(safe=True)
    await actors.begin(by=actors.bot if newer == "bot" else actors.other)
    seen = await actors.commit(fence=1)
    assert (seen.status, seen.word) == (409, "fence_stale")
    (conflict,) = await actors.conflicts(kind="stale_fence")
    assert conflict["affected"]["effect"] == "a"
    assert (await actors.effect())["state"] == "IN_PROGRESS"


async def test_a_fence_is_of_use_only_to_whoever_began(actors: Actors) -> None:
    await actors.begin()
    assert (await actors.commit(by=actors.other)).word == "fence_stale"
    assert (await actors.effect())["state"] == "IN_PROGRESS"


async def test_many_stale_commits_are_one_conflict_with_a_count(actors: Actors) -> None:
    await actors.begin()
    for _ in range(50):
        await actors.commit(by=actors.other)
    (conflict,) = await actors.conflicts()
    assert conflict["count"] == 50


async def test_after_resolve_committed_the_recorded_result_is_replayed(actors: Actors) -> None:
    await actors.begin()
    await actors.fail(safe=False)
    assert (await actors.resolve("committed", result={"receipt": 9})).document["state"] == "COMMITTED"
    seen = await actors.begin()
    assert (seen.status, seen.document["result"]) == (200, {"receipt": 9})


async def test_after_resolve_not_committed_exactly_one_new_attempt_begins(actors: Actors) -> None:
    await actors.begin(ttl_seconds=5)
    await actors.pass_time(5)
    assert (await actors.resolve("not_committed")).document["state"] == "FAILED"
    begun = [await actors.begin(), await actors.begin(by=actors.other)]
    assert [seen.status for seen in begun] == [201, 409]
    assert begun[0].document["fence"] == 2


async def test_an_attempt_that_contradicts_what_was_resolved_stops_further_attempts(actors: Actors) -> None:
    await actors.begin(ttl_seconds=5)
    await actors.pass_time(5)
    await actors.resolve("not_committed")
    assert (await actors.commit(result="it did")).word == "fence_stale"
    assert (await actors.begin(by=actors.other)).word == "effect_ambiguous"
    (conflict,) = await actors.conflicts(kind="stale_fence")
    assert {side["actor"] for side in conflict["competing"]} == {"ada", "bot"}
    assert (await actors.resolve("committed", result="it did")).document["state"] == "COMMITTED"


async def test_people_and_reconcilers_resolve_and_agents_do_not(actors: Actors) -> None:
    for action, by in (("a", actors.ada), ("b", actors.reconciler)):
        await actors.begin(action)
        await actors.fail(action, safe=False)
        assert (await actors.resolve("committed", action, by=by)).status == 200
    await actors.begin("c")
    await actors.fail("c", safe=False)
    operator = await actors.api.key("robot", "agent", "operate")
    assert (await actors.resolve("committed", "c", by=operator)).word == "people_only"
    assert (await actors.resolve("committed", "c", by=actors.bot)).word == "forbidden"


async def test_nothing_is_resolved_without_evidence_or_before_it_is_ambiguous(actors: Actors) -> None:
    await actors.begin()
    assert (await actors.resolve("committed")).word == "not_actionable"
    await actors.fail(safe=False)
    assert (await actors.resolve("committed", evidence="")).status == 400
    assert (await actors.resolve("committed", evidence=" \n")).status == 400
    assert (await actors.resolve("committed")).status == 200
    assert (await actors.resolve("committed")).status == 200
    assert (await actors.resolve("not_committed")).word == "not_actionable"


async def test_a_large_result_is_kept_by_digest_and_read_whole(actors: Actors) -> None:
    await actors.begin()
    committed = await actors.commit(result="x" * 100_000)
    stored = committed.document["stored_result"]
    assert (committed.document["result"], stored["size"]) == (None, 100_002)
    assert stored["digest"].startswith("sha256:")
    whole = await actors.api.get(stored["pointer"])
    assert (whole["result"], whole["digest"]) == ("x" * 100_000, stored["digest"])


async def test_a_lease_that_runs_out_with_a_result_pending_is_a_conflict(actors: Actors) -> None:
    lease = await actors.lease(ttl_seconds=5)
    await actors.begin(lease=lease_ref(lease), ttl_seconds=10)
    await actors.pass_time(11)
    (conflict,) = await actors.conflicts(kind="lease_expired_with_result_pending")
    affected = conflict["affected"]
    assert (affected["job"], affected["effect"], affected["lease"]) == (None, "a", lease["lease_id"])
    assert (await actors.effect())["state"] == "AMBIGUOUS"
    await actors.commit()
    assert len(await actors.conflicts(kind="lease_expired_with_result_pending")) == 1


async def test_the_sweep_tells_of_an_attempt_once(actors: Actors) -> None:
    await actors.begin(ttl_seconds=5)
    await actors.pass_time(6)
    await actors.pass_time(6)
    assert (await actors.api.events("a")) == ["effect.begun", "effect.ambiguous"]


async def test_every_step_is_audited(actors: Actors) -> None:
    await actors.begin()
    await actors.commit(by=actors.other)
    await actors.fail(safe=False)
    await actors.begin(by=actors.other)
    await actors.resolve("committed")
    assert await actors.api.audit("a") == [
        ("effect_begin", "done"),
        ("effect_commit_refused", "EffectFenceStale"),
        ("effect_doubt", "done"),
        ("effect_begin_refused", "EffectAmbiguous"),
        ("effect_resolve", "done"),
    ]


async def test_effects_are_listed_newest_first_and_another_tenants_are_not_there(actors: Actors) -> None:
    for action in ("z", "a", "m"):
        await actors.begin(action)
    await actors.commit("a")
    items = (await actors.api.get("effects"))["items"]
    assert [item["action_id"] for item in items] == ["m", "a", "z"]
    page = await actors.api.get("effects?limit=2")
    rest = await actors.api.get(f"effects?cursor={page['next_cursor']}")
    assert [item["action_id"] for item in rest["items"]] == ["z"]
    assert [i["action_id"] for i in (await actors.api.get("effects?state=COMMITTED"))["items"]] == ["a"]
    stranger = await actors.api.key("eve", "agent", "submit,work", tenant="elsewhere")
    assert (await actors.commit("z", by=stranger)).status == 404
