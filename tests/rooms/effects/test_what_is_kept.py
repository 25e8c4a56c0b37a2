"""What an effect keeps when it ends, who may say so, and what the audit and the conflicts tell of it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from interlock.rooms.effects.model import downstream_key
from interlock.rooms.effects.settlement import CommitEffect
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import Forbidden
from tests.rooms.effects.effect_client import Actors, lease_ref

LATER = "2030-01-01T00:01:00Z"


async def end(actors: Actors, how: str) -> Any:
    """End effect `a` a minute after it began in time for one."""
    await actors.begin(ttl_seconds=30)
    await actors.pass_time(60)
    if how == "commit":
        return (await actors.commit(result=1)).document
    if how == "fail":
        return (await actors.fail(safe=True, error="no route")).document
    return (await actors.resolve(how)).document


@pytest.mark.parametrize(
    ("how", "state"),
    [("commit", "COMMITTED"), ("fail", "FAILED"), ("committed", "COMMITTED"), ("not_committed", "FAILED")],
)
async def test_an_end_clears_the_doubt_and_says_when(actors: Actors, how: str, state: str) -> None:
    ended = await end(actors, how)
    assert (ended["state"], ended["ended_at"], ended["doubt"]) == (state, LATER, None)
    said = ended["resolved"]
    if how in ("commit", "fail"):
        assert said is None
    else:
        assert (said["by"], said["at"], said["evidence"]) == ("ada", LATER, "the bank says so")


async def test_what_went_wrong_is_kept(actors: Actors) -> None:
    await actors.begin("safe")
    await actors.begin("unsafe")
    safe = (await actors.fail("safe", safe=True, error="no route")).document
    unsafe = (await actors.fail("unsafe", safe=False, error="cut off")).document
    assert (safe["error"], safe["doubt"]) == ("no route", None)
    assert (unsafe["error"], unsafe["doubt"]) == ("cut off", "reported")


@pytest.mark.parametrize("safe", [True, False])
async def test_failing_the_same_way_twice_changes_nothing(actors: Actors, *, safe: bool) -> None:
    await actors.begin()
    first = await actors.fail(safe=safe, error="first")
    again = await actors.fail(safe=safe, error="second")
    assert (again.status, again.document) == (200, first.document)
    assert await actors.conflicts() == []


async def test_what_was_committed_cannot_fail_any_more(actors: Actors) -> None:
    await actors.begin()
    await actors.commit(result=1)
    for safe in (True, False):
        seen = await actors.fail(safe=safe)
        assert (seen.status, seen.word) == (409, "not_actionable")
    assert (await actors.fail(safe=True, by=actors.other)).word == "fence_stale"
    assert (await actors.effect())["result"] == 1


async def test_nobody_elses_commit_is_answered_with_the_result(actors: Actors) -> None:
    await actors.begin()
    await actors.commit(result=1)
    assert (await actors.commit(by=actors.other, result=1)).word == "fence_stale"
    assert (await actors.fail(by=actors.other, safe=False)).word == "fence_stale"
    assert (await actors.effect())["state"] == "COMMITTED"
    await actors.begin("b")
    await actors.fail("b", safe=True)
    assert (await actors.fail("b", by=actors.other, safe=True)).word == "fence_stale"


@pytest.mark.parametrize("safe", [True, False])
async def test_an_attempt_that_said_it_could_not_tell_settles_nothing_afterwards(
    actors: Actors, *, safe: bool
) -> None:
    await actors.begin()
    await actors.fail(safe=False)
    late = await (actors.fail(safe=True) if safe else actors.commit(result=1))
    assert (late.status, late.word) == (409, "fence_stale")
    assert (await actors.effect())["state"] == "AMBIGUOUS"


async def test_an_attempt_that_contradicts_its_own_failure_puts_it_in_doubt(actors: Actors) -> None:
    await actors.begin()
    await actors.fail(safe=True)
    assert (await actors.commit(by=actors.other)).word == "fence_stale"
    assert (await actors.effect())["state"] == "FAILED"
    actors.api.clock.advance(60)

    assert (await actors.commit(result=1)).word == "fence_stale"

    effect = await actors.effect()
    assert (effect["state"], effect["doubt"]) == ("AMBIGUOUS", "contradicted")
    assert (await actors.api.audit("a"))[-1] == ("effect_doubt", "done")
    assert (await actors.api.events("a"))[-1] == "effect.ambiguous"
    sides = (await actors.conflicts())[0]["competing"]
    assert (sides[0]["at"], sides[0]["what"]) == ("2030-01-01T00:00:00Z", "FAILED")


async def test_a_late_commit_is_told_apart_in_the_audit(actors: Actors) -> None:
    for action, ttl in (("late", 5), ("timely", 90)):
        await actors.begin(action, ttl_seconds=ttl)
    actors.api.clock.advance(60)
    for action in ("late", "timely"):
        await actors.commit(action)
    told = [(await actors.api.get(f"audit?subject={action}"))["items"][0] for action in ("late", "timely")]
    assert [entry["details"].get("late") for entry in told] == [True, None]


async def test_a_failure_is_audited_and_frees_its_lease(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.begin(lease=lease_ref(lease))
    await actors.fail(safe=True)
    assert (await actors.api.audit("a"))[-1] == ("effect_fail", "done")
    assert (await actors.api.events("a"))[-1] == "effect.failed"
    assert (await actors.target())["owner"]["state"] == "leased"
    assert await actors.conflicts() == []


async def test_a_lease_is_free_again_when_the_doubt_about_its_effect_is_cleared(actors: Actors) -> None:
    lease = await actors.lease()
    await actors.begin(lease=lease_ref(lease))
    await actors.fail(safe=False)
    assert (await actors.target())["owner"]["state"] == "applying"
    await actors.resolve("committed")
    assert (await actors.target())["owner"]["state"] == "leased"


async def test_a_lease_that_ran_out_is_not_brought_back_when_its_effects_end(actors: Actors) -> None:
    lease = await actors.lease(ttl_seconds=5)
    for action in ("a", "b"):
        await actors.begin(action, lease=lease_ref(lease), ttl_seconds=90)
    actors.api.clock.advance(60)
    for action in ("a", "b"):
        assert (await actors.commit(action)).document["state"] == "COMMITTED"
    await actors.commit("a")

    shown = await actors.api.get(f"leases/{lease['lease_id']}")
    outlived = await actors.conflicts(kind="lease_expired_with_result_pending")

    assert shown["state"] != "leased"
    assert {(found["affected"]["effect"], found["count"]) for found in outlived} == {("a", 1), ("b", 1)}
    assert {found["competing"][1]["what"] for found in outlived} == {
        "a was in progress",
        "b was in progress",
    }


async def test_a_lease_that_waits_for_review_carries_nothing_out(actors: Actors) -> None:
    lease = await actors.lease()
    said = {"fence": lease["fence"], "reason": "waiting_on_review"}
    assert (await actors.post(f"leases/{lease['lease_id']}/suspend", actors.bot, said)).status == 200
    assert (await actors.begin(lease=lease_ref(lease))).word == "not_actionable"


async def test_a_job_whose_target_has_no_version_is_carried_out_whatever_its_version(actors: Actors) -> None:
    job = await actors.api.submit(actors.bot, topic="free.a", target={"key": "doc:1"})
    await actors.claim()
    await actors.touch("v2")
    assert (await actors.begin(by=actors.worker, job_id=job)).status == 201


async def test_a_further_attempt_may_name_the_grant_it_goes_under(actors: Actors) -> None:
    grant = (await actors.post("grants", actors.ada, {"task": "refund"})).document["id"]
    need = {"task": "refund", "args": {}, "grant_id": grant}
    for fence in (1, 2):
        begun = await actors.begin(grant=need)
        assert (begun.status, begun.document["grant"]["use"]) == (201, 1)
        await actors.fail(fence=fence, safe=True)


async def test_what_did_not_happen_has_no_result(actors: Actors) -> None:
    await actors.begin()
    await actors.fail(safe=False)
    assert (await actors.resolve("not_committed", result=5)).document["result"] is None


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        ("person", {"review", "operate", "admin"}),
        ("service", {"operate", "admin"}),
        ("agent", set[str]()),
        ("worker", set[str]()),
    ],
)
async def test_who_may_say_what_became_of_an_effect(actors: Actors, kind: str, allowed: set[str]) -> None:
    for role in ("submit", "work", "review", "operate", "audit", "admin"):
        await actors.begin(role)
        await actors.fail(role, safe=False)
        key = await actors.api.key(f"{kind}-{role}", kind, role)
        seen = await actors.resolve("committed", role, by=key)
        assert (seen.status == 200) is (role in allowed), (role, seen.document)


async def test_who_has_no_role_that_acts_settles_nothing(actors: Actors) -> None:
    await actors.begin()
    ada = Caller(tenant="default", principal="ada")
    with pytest.raises(Forbidden):
        await actors.api.service.kernel.run(CommitEffect(caller=ada, action_id="a", fence=1))


async def test_who_changed_the_target_and_who_came_too_late_are_named(actors: Actors) -> None:
    await actors.touch("v2", by=actors.other)
    for by in (actors.bot, actors.worker):
        for _ in range(2):
            await actors.begin(by=by, target={"key": "doc:1", "version": "v1"})

    found = list(reversed(await actors.conflicts(kind="target_changed_after_draft")))

    changed = ("other", "v2", "changed it")
    assert [
        [(side["actor"], side["version"], side["what"]) for side in conflict["competing"]]
        for conflict in found
    ] == [[changed, (name, "v1", "began a")] for name in ("bot", "worker")]
    assert [(conflict["count"], conflict["affected"]["effect"]) for conflict in found] == [(2, "a")] * 2


async def test_the_key_for_the_remote_side_is_the_same_for_ever() -> None:
    digest = hashlib.sha256(b"interlock:effect/v1\ndefault\0refund:1").hexdigest()
    assert downstream_key("default", "refund:1") == f"ilk_{digest[:40]}"
