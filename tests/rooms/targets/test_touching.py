"""A touch is a fact: recorded whoever made it, and told to everybody whose work it undercuts."""

from __future__ import annotations

import pytest

from tests.rooms.effects.effect_client import Actors, lease_ref


async def test_a_touch_is_remembered_with_its_actor_and_version(actors: Actors) -> None:
    await actors.touch("v1", summary="first draft")
    await actors.touch("v2", by=actors.bot)
    target = await actors.target()
    assert (target["version"], target["touched_by"]) == ("v2", "bot")
    assert [(t["actor"], t["kind"], t["version"], t["previous_version"]) for t in target["touches"]] == [
        ("bot", "agent", "v2", "v1"),
        ("ada", "person", "v1", None),
    ]
    assert await actors.conflicts() == []


async def test_reporting_the_same_version_again_changes_nothing(actors: Actors) -> None:
    await actors.touch("v1")
    await actors.touch("v1", by=actors.bot)
    target = await actors.target()
    assert (len(target["touches"]), target["touched_by"]) == (1, "ada")
    assert await actors.api.events("doc:1") == ["target.touched"]


async def test_the_holders_own_touch_is_no_conflict(actors: Actors) -> None:
    lease = await actors.lease()
    assert (await actors.touch("v1", by=actors.bot))["conflict_id"] is None
    assert (await actors.renew(lease)).document["state"] == "leased"


async def test_a_touch_in_another_session_of_the_holder_is_a_conflict(actors: Actors) -> None:
    lease = await actors.lease(session="left")
    own = await actors.touch("v1", by=actors.bot, session="left")
    assert (own["conflict_id"], own["held_in_session"]) == (None, "")
    other = await actors.touch("v2", by=actors.bot, session="right")
    assert other["conflict_id"]
    (conflict,) = await actors.conflicts()
    assert (conflict["kind"], conflict["affected"]["lease"]) == ("duplicate_work", lease["lease_id"])
    assert [(side["actor"], side["what"]) for side in conflict["competing"]] == [
        ("bot", "holds the lease in session left"),
        ("bot", "changed it in session right"),
    ]
    target = await actors.target()
    assert (target["owner"]["session"], target["touches"][0]["session"]) == ("left", "right")


async def test_a_touch_by_the_holder_without_its_session_says_so_and_is_no_conflict(actors: Actors) -> None:
    await actors.lease(session="left")
    touched = await actors.touch("v1", by=actors.bot)
    assert (touched["conflict_id"], touched["held_in_session"]) == (None, "left")
    assert await actors.conflicts() == []


async def test_a_session_may_change_what_its_own_principal_holds_without_one(actors: Actors) -> None:
    await actors.lease()
    touched = await actors.touch("v1", by=actors.bot, session="right")
    assert (touched["conflict_id"], touched["held_in_session"]) == (None, "")


async def test_who_shares_a_lease_in_its_own_session_is_not_warned_of_the_others(actors: Actors) -> None:
    await actors.lease(mode="shared", session="left")
    await actors.lease(mode="shared", session="right")
    touched = await actors.touch("v1", by=actors.bot, session="right")
    assert (touched["conflict_id"], touched["held_in_session"]) == (None, "")


async def test_touches_of_two_sessions_that_did_not_see_each_other_are_a_conflict(actors: Actors) -> None:
    await actors.touch("v1", by=actors.bot, session="left")
    blind = await actors.touch("v2", by=actors.bot, session="right", previous_version="v0")
    assert blind["conflict_id"]
    seen = await actors.touch("v3", by=actors.bot, session="left", previous_version="v2")
    assert seen["conflict_id"] is None


@pytest.mark.parametrize("resource", ["repo:a/b.py", "repo:a/**", "repo:a"])
async def test_a_lease_learns_of_a_touch_of_what_it_covers(actors: Actors, resource: str) -> None:
    lease = await actors.lease(resource)
    await actors.touch("v2", "repo:a/b.py")
    covers = resource != "repo:a"
    state = (await actors.renew(lease)).document["state"]
    assert state == ("conflict_detected" if covers else "leased")
    assert len(await actors.conflicts()) == covers


async def test_an_ended_lease_is_not_undercut(actors: Actors) -> None:
    await actors.lease(ttl_seconds=5)
    await actors.pass_time(6, sweep=False)
    assert (await actors.touch("v2"))["conflict_id"] is None


async def test_whoever_shares_a_lease_may_change_what_it_is_on(actors: Actors) -> None:
    lease = await actors.lease(mode="shared")
    await actors.lease(mode="shared", by=actors.other)
    await actors.touch("v2", by=actors.other)
    assert (await actors.renew(lease)).document["state"] == "leased"
    await actors.touch("v3", by=actors.ada)
    assert (await actors.renew(lease)).document["state"] == "conflict_detected"


async def test_the_kind_says_who_undercut_what(actors: Actors) -> None:
    await actors.lease("doc:1")
    await actors.touch("v2", "doc:1", by=actors.ada)
    await actors.lease("doc:2")
    await actors.touch("v2", "doc:2", by=actors.other)
    await actors.submit("v1", key="doc:3")
    await actors.touch("v2", "doc:3", by=actors.other)
    kinds = {conflict["target"]: conflict["kind"] for conflict in await actors.conflicts()}
    assert kinds == {
        "doc:1": "human_edit_during_lease",
        "doc:2": "duplicate_work",
        "doc:3": "target_changed_after_draft",
    }


async def test_a_change_made_without_seeing_the_last_one_is_duplicate_work(actors: Actors) -> None:
    await actors.touch("v1")
    await actors.touch("v2", by=actors.bot, previous_version="v1")
    assert await actors.conflicts() == []
    await actors.touch("v2b", by=actors.other, previous_version="v1")
    (conflict,) = await actors.conflicts()
    assert conflict["kind"] == "duplicate_work"
    assert [(side["actor"], side["version"]) for side in conflict["competing"]] == [
        ("bot", "v2"),
        ("other", "v2b"),
    ]


async def test_a_hundred_saves_during_one_lease_are_one_conflict(actors: Actors) -> None:
    await actors.lease()
    seen = {(await actors.touch(f"v{n}"))["conflict_id"] for n in range(100)}
    assert len(seen) == 1
    (conflict,) = await actors.conflicts()
    assert (conflict["count"], conflict["competing"][-1]["version"]) == (100, "v99")
    assert len(conflict["competing"]) <= 50
    assert len((await actors.target())["touches"]) == 20


async def test_a_conflict_that_was_settled_is_not_added_to(actors: Actors) -> None:
    await actors.lease()
    first = (await actors.touch("v2"))["conflict_id"]
    assert (await actors.settle(first, "keep_second")).status == 200
    second = (await actors.touch("v3"))["conflict_id"]
    assert second not in (None, first)


async def test_somebody_new_who_is_undercut_is_named(actors: Actors) -> None:
    await actors.lease()
    first = (await actors.touch("v2"))["conflict_id"]
    await actors.submit("v2", by=actors.other)
    second = (await actors.touch("v3"))["conflict_id"]
    assert second != first
    actors_named = {side["actor"] for side in (await actors.api.get(f"conflicts/{second}"))["competing"]}
    assert actors_named == {"bot", "other", "ada"}


async def test_many_touches_are_one_decision(actors: Actors) -> None:
    await actors.lease("repo:a/**")
    changes = [{"key": f"repo:a/{n}.py", "version": "v1", "summary": "moved"} for n in range(100)]
    seen = await actors.post("targets/touches", actors.ada, {"changes": changes})
    assert seen.status == 200
    assert len({item["conflict_id"] for item in seen.document["items"]} - {None}) == 100
    twice = await actors.post("targets/touches", actors.ada, {"changes": [changes[0], changes[0]]})
    assert (twice.status, twice.document["errors"][0]["path"]) == (400, "/changes/1/key")


async def test_a_target_shows_who_holds_it_and_what_waits_for_it(actors: Actors) -> None:
    lease = await actors.lease(purpose="rewrite")
    asked = await actors.submit("v1", "pay.a")
    free = await actors.submit("v1", "free.a")
    await actors.touch("v2", by=actors.bot)
    target = await actors.target()
    assert (target["owner"]["principal"], target["owner"]["purpose"]) == ("bot", "rewrite")
    assert target["owner"]["lease_id"] == lease["lease_id"]
    assert [(j["job_id"], j["drifted"]) for j in target["pending_approvals"]] == [(asked, True)]
    assert [(j["job_id"], j["drifted"]) for j in target["pending_jobs"]] == [(free, True)]


async def test_an_unknown_target_and_another_tenants_are_not_there(actors: Actors) -> None:
    await actors.touch("v1")
    stranger = await actors.api.person("eve", "review", tenant="elsewhere")
    for key, by in (("doc:9", actors.ada), ("doc:1", stranger)):
        assert (await actors.api.call("GET", f"targets/{key}", by)).status == 404


async def test_targets_are_listed_by_key_and_prefix(actors: Actors) -> None:
    for key in ("b:1", "a:2", "a:1", "a%3A1"):
        await actors.touch("v1", key)
    listed = (await actors.api.get("targets"))["items"]
    assert [item["key"] for item in listed] == ["a%3A1", "a:1", "a:2", "b:1"]
    page = await actors.api.get("targets?prefix=a:&limit=1")
    rest = await actors.api.get(f"targets?prefix=a:&cursor={page['next_cursor']}")
    assert [i["key"] for i in (*page["items"], *rest["items"])] == ["a:1", "a:2"]


async def test_an_effect_that_names_the_new_version_goes_on_after_a_conflict(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.touch("v1", by=actors.bot)
    await actors.touch("v2")
    refused = await actors.begin("blind", lease=lease_ref(lease))
    assert (refused.word, refused.document["state"]) == ("not_actionable", "conflict_detected")
    seen = await actors.begin("read", lease=lease_ref(lease), target={"key": "doc:1", "version": "v2"})
    assert seen.status == 201
