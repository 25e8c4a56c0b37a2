"""Collisions are kept once, counted, settled by people, and what keeps coming back is named."""

from __future__ import annotations

from pathlib import Path

from interlock.rooms.conflicts.model import CARRIED_OUT, SAFEST, ConflictKind
from interlock.rooms.conflicts.queries import prefix_of
from tests.rooms.effects.effect_client import Actors, lease_ref


async def test_every_kind_has_a_next_step_and_a_prevention() -> None:
    assert set(SAFEST) == set(ConflictKind)
    assert all(advice.next_step and advice.prevention for advice in SAFEST.values())


async def test_the_page_about_conflicts_says_what_the_rules_say() -> None:
    page = (Path(__file__).parents[3] / "docs" / "conflicts.md").read_text()
    for kind, advice in SAFEST.items():
        assert f"| `{kind.value}` | {advice.next_step} | {advice.prevention} |" in page


async def test_many_stale_fences_of_a_job_are_one_conflict_with_a_count(actors: Actors) -> None:
    job = await actors.submit(None, "free.a")
    (held,) = await actors.claim()
    await actors.post(f"jobs/{job}/release", actors.worker, {"fence": held["fence"]})
    await actors.claim()
    stale = {"fence": held["fence"], "result": 1}
    answers = [await actors.post(f"jobs/{job}/complete", actors.worker, stale) for _ in range(200)]
    assert {seen.word for seen in answers} == {"fence_stale"}
    (conflict,) = await actors.conflicts()
    assert (conflict["kind"], conflict["count"], conflict["affected"]["job"]) == ("stale_fence", 200, job)
    assert {seen.document["conflict_id"] for seen in answers} == {conflict["id"]}


async def test_stale_fences_of_different_actors_are_different_conflicts(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.post(f"leases/{lease['lease_id']}/release", actors.bot, {"fence": lease["fence"]})
    await actors.renew(lease)
    await actors.renew(lease, by=actors.other)
    assert len(await actors.conflicts(kind="stale_fence")) == 2


async def test_a_holder_in_good_standing_leaves_no_trace(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.renew(lease)
    await actors.submit(None, "free.a")
    (held,) = await actors.claim()
    done = {"fence": held["fence"], "result": 1}
    for _ in range(2):
        assert (await actors.post(f"jobs/{held['id']}/complete", actors.worker, done)).status == 200
    assert await actors.conflicts() == []


async def test_reviewers_who_decide_against_each_other_are_one_conflict_a_job(actors: Actors) -> None:
    job = await actors.submit(None)
    assert (await actors.api.approve(job, actors.ada)).word == "approved"
    for _ in range(3):
        assert (await actors.api.reject(job, actors.bob)).word == "already_approved"
    (conflict,) = await actors.conflicts()
    assert (conflict["kind"], conflict["count"]) == ("approve_reject_race", 3)
    assert [side["actor"] for side in conflict["competing"]] == ["ada", "bob"]


async def test_a_race_of_reviewers_tells_who_did_what_to_which_job(actors: Actors) -> None:
    approved, rejected = await actors.submit("v1"), await actors.submit("v1")
    await actors.api.approve(approved, actors.ada)
    assert (await actors.api.reject(approved, actors.bob)).word == "already_approved"
    await actors.api.reject(rejected, actors.ada)
    assert (await actors.api.approve(rejected, actors.bob)).word == "already_rejected"

    told = {
        conflict["affected"]["job"]: [(side["actor"], side["what"]) for side in conflict["competing"]]
        for conflict in await actors.conflicts(kind="approve_reject_race")
    }

    assert told == {
        approved: [("ada", "approved it"), ("bob", "wanted to reject it")],
        rejected: [("ada", "rejected it"), ("bob", "wanted to approve it")],
    }


async def test_a_yes_to_an_old_version_tells_who_did_what_to_which_version(actors: Actors) -> None:
    await actors.touch("v2", by=actors.other)
    first, second = await actors.submit("v1"), await actors.submit("v1")
    for job in (first, second):
        assert (await actors.api.approve(job, actors.ada)).word == "target_changed"

    told = {
        conflict["affected"]["job"]: [
            (side["actor"], side["version"], side["what"]) for side in conflict["competing"]
        ]
        for conflict in await actors.conflicts(kind="approval_on_old_version")
    }

    assert told == {
        job: [
            ("bot", "v1", f"waits with {job}"),
            ("other", "v2", "changed it"),
            ("ada", "v1", "wanted to approve it"),
        ]
        for job in (first, second)
    }


async def test_deciding_the_same_way_twice_is_no_conflict(actors: Actors) -> None:
    job = await actors.submit(None)
    await actors.api.reject(job, actors.ada)
    assert (await actors.api.reject(job, actors.bob)).word == "already_rejected"
    assert await actors.conflicts() == []


async def test_a_conflict_is_resolved_once_and_by_people_who_may(actors: Actors) -> None:
    await actors.lease()
    conflict = (await actors.touch("v2"))["conflict_id"]
    assert (await actors.settle(conflict, "merge", by=actors.bot)).word == "forbidden"
    assert (await actors.settle(conflict, "merge", by=actors.ada)).status == 200
    again = await actors.settle(conflict, "discard", by=actors.bob)
    assert (again.status, again.word) == (409, "conflict")
    assert await actors.conflicts(state="open") == []
    (settled,) = await actors.conflicts(state="resolved")
    assert (settled["resolved_by"], settled["resolution"]) == ("ada", "merge")
    assert await actors.api.events(conflict) == ["conflict.opened", "conflict.resolved"]


async def test_the_count_is_kept_when_it_is_resolved_and_the_next_repeat_is_a_new_conflict(
    actors: Actors,
) -> None:
    await actors.begin()
    for _ in range(3):
        await actors.commit(by=actors.other)
    (conflict,) = await actors.conflicts()
    settled = await actors.settle(conflict["id"], "keep_first")
    assert settled.document["count"] == 3
    await actors.commit(by=actors.other)
    assert [each["count"] for each in await actors.conflicts()] == [1, 3]


async def test_settling_gives_the_lease_back_to_its_owner(actors: Actors) -> None:
    lease = await actors.lease()
    conflict = (await actors.touch("v2"))["conflict_id"]
    settled = await actors.settle(conflict, "keep_second")
    assert settled.document["carried_out"] == ["settle_lease"]
    renewed = (await actors.renew(lease)).document
    assert (renewed["state"], renewed["conflict_id"]) == ("leased", None)


async def test_discarding_ends_the_lease_and_withdraws_the_job(actors: Actors) -> None:
    lease = await actors.lease()
    job = await actors.submit("v1", by=actors.other)
    conflict = (await actors.touch("v2"))["conflict_id"]
    settled = await actors.settle(conflict, "discard")
    assert sorted(settled.document["carried_out"]) == ["cancel_job", "end_lease"]
    assert (await actors.renew(lease)).word == "fence_stale"
    assert (await actors.api.job(job))["state"] == "CANCELLED"


async def test_an_open_conflict_says_what_each_resolution_would_do_and_does_that(actors: Actors) -> None:
    await actors.lease()
    await actors.submit("v1", by=actors.other)
    conflict = (await actors.touch("v2"))["conflict_id"]
    seen = await actors.api.get(f"conflicts/{conflict}")
    would = {word: sorted(steps) for word, steps in seen["would_carry_out"].items()}
    assert would == {
        "keep_first": ["settle_lease"],
        "keep_second": ["settle_lease"],
        "merge": ["ask_again", "settle_lease"],
        "retry": ["ask_again", "settle_lease"],
        "discard": ["cancel_job", "end_lease"],
    }
    settled = await actors.settle(conflict, "merge")
    assert sorted(settled.document["carried_out"]) == would["merge"]
    assert "would_carry_out" not in await actors.api.get(f"conflicts/{conflict}")
    assert "would_carry_out" not in (await actors.conflicts())[0]


async def test_the_safest_next_step_names_its_resolution_unless_there_is_more_to_do(actors: Actors) -> None:
    more_to_do = {
        ConflictKind.TARGET_CHANGED_AFTER_DRAFT,
        ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING,
    }
    assert {kind for kind, advice in SAFEST.items() if advice.resolution is None} == more_to_do
    await actors.lease()
    await actors.touch("v2")
    (conflict,) = await actors.conflicts()
    advised = SAFEST[ConflictKind(conflict["kind"])].resolution
    assert advised is not None
    assert conflict["safest_resolution"] == advised.value


async def test_retrying_asks_people_again_about_the_version_that_is_there(actors: Actors) -> None:
    job = await actors.submit("v1", by=actors.other)
    conflict = (await actors.touch("v2"))["conflict_id"]
    settled = await actors.settle(conflict, "retry")
    assert settled.document["carried_out"] == ["ask_again"]
    assert (await actors.api.approve(job, actors.ada)).word == "approved"


async def test_retrying_lets_an_ambiguous_effect_be_tried_once_more(actors: Actors) -> None:
    lease = await actors.lease(ttl_seconds=5)
    await actors.begin(lease=lease_ref(lease), ttl_seconds=10)
    await actors.pass_time(11)
    (conflict,) = await actors.conflicts(kind="lease_expired_with_result_pending")
    actors.api.clock.now = actors.api.clock.now.replace(year=2031)
    settled = await actors.settle(conflict["id"], "retry")
    assert settled.document["carried_out"] == ["retry_effect"]
    assert [(await actors.begin()).status for _ in range(2)] == [201, 409]


async def test_retrying_what_was_refused_says_nothing_of_a_later_attempt(actors: Actors) -> None:
    await actors.touch("v2")
    refused = await actors.begin(target={"key": "doc:1", "version": "v1"})
    assert refused.word == "superseded"
    await actors.begin(target={"key": "doc:1", "version": "v2"}, ttl_seconds=10)
    await actors.pass_time(11)
    actors.api.clock.now = actors.api.clock.now.replace(year=2031)
    settled = await actors.settle(refused.document["conflict_id"], "retry")
    assert settled.document["carried_out"] == []
    assert (await actors.effect())["state"] == "AMBIGUOUS"


async def test_retrying_an_older_collision_says_nothing_of_a_newer_attempt(actors: Actors) -> None:
    await actors.begin()
    late = (await actors.commit(by=actors.other)).document["conflict_id"]
    await actors.fail(safe=True)
    actors.api.clock.advance(1)
    await actors.begin()
    await actors.fail(fence=2, safe=False)
    settled = await actors.settle(late, "retry")
    assert settled.document["carried_out"] == []
    assert (await actors.begin()).word == "effect_ambiguous"


async def test_a_lease_that_was_given_up_under_an_effect_is_not_called_lost(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.begin(lease=lease_ref(lease))
    given = await actors.post(f"leases/{lease['lease_id']}/release", actors.bot, {"fence": lease["fence"]})
    await actors.commit()
    (conflict,) = await actors.conflicts(kind="lease_expired_with_result_pending")
    assert (conflict["competing"][0]["what"], conflict["competing"][0]["at"]) == (
        "released the lease",
        given.document["ended_at"],
    )


async def test_a_resolution_that_cannot_be_carried_out_is_not_recorded(actors: Actors) -> None:
    job = await actors.submit("v1", by=actors.other)
    conflict = (await actors.touch("v2"))["conflict_id"]
    # A reviewer may resolve, but withdrawing another principal's job takes an operator.
    refused = await actors.settle(conflict, "discard", by=actors.ada)
    assert refused.word == "forbidden"
    assert (await actors.api.job(job))["state"] == "APPROVAL"
    assert (await actors.api.get(f"conflicts/{conflict}"))["state"] == "open"


async def test_patterns_name_what_keeps_colliding_and_what_would_prevent_it(actors: Actors) -> None:
    for name in ("a", "b", "c"):
        await actors.lease(f"repo:x/{name}.py")
        await actors.touch("v2", f"repo:x/{name}.py")
    await actors.begin()
    await actors.commit(by=actors.other)
    found = await actors.api.get("conflicts/patterns")
    assert found["examined"] == 4
    first = found["items"][0]
    assert (first["kind"], first["target_prefix"], first["conflicts"]) == (
        "human_edit_during_lease",
        "repo:x/",
        3,
    )
    assert first["prevention"] == SAFEST[ConflictKind.HUMAN_EDIT_DURING_LEASE].prevention


async def test_targets_of_one_family_share_a_prefix() -> None:
    assert [prefix_of(target) for target in ("repo:x/a/b.py", "doc:1", "plain", "job:pay.a/job_1")] == [
        "repo:x/a/",
        "doc:",
        "plain",
        "job:pay.a/",
    ]


async def test_what_is_carried_out_is_about_states_that_exist() -> None:
    from interlock.rooms.effects.model import EffectState
    from interlock.rooms.jobs.model import JobState
    from interlock.rooms.leases.model import LeaseState

    known = {"job": JobState, "effect": EffectState, "lease": LeaseState}
    assert all(state in {each.value for each in known[what]} for _, what, state in CARRIED_OUT)


async def test_another_tenants_conflict_is_not_there(actors: Actors) -> None:
    await actors.lease()
    conflict = (await actors.touch("v2"))["conflict_id"]
    stranger = await actors.api.person("eve", "review", tenant="elsewhere")
    assert (await actors.settle(conflict, "merge", by=stranger)).status == 404
