"""What an owner does while it lasts: renew, checkpoint, suspend; and what the next owner finds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rooms.leases.lease_client import LeaseClient

FULL = {
    "done": ["step 1"],
    "partial": {"step 2": "half"},
    "evidence": ["log.txt"],
    "validation": "tests pass",
    "open_questions": ["is 3 needed?"],
}


def content(checkpoint: dict[str, Any]) -> dict[str, Any]:
    return {name: checkpoint[name] for name in FULL}


@pytest.mark.parametrize("ended", ["stale", "stale and swept", "released", "handed_off"])
async def test_a_successor_gets_the_last_checkpoint_whole_however_the_lease_ended(
    client: LeaseClient, ended: str
) -> None:
    lease = await client.take("repo:a", ttl_seconds=10)
    await client.do("checkpoint", lease, done="old")
    await client.do("checkpoint", lease, **FULL)
    if ended in ("released", "handed_off"):
        await client.do({"released": "release", "handed_off": "handoff"}[ended], lease)
    else:
        client.advance(12)
    if ended == "stale and swept":
        await client.api.sweep()
    taken = await client.take("repo:a", by="bob")
    before = taken["predecessor"]
    assert (before["owner"], before["ended"]) == ("ann", ended.split(maxsplit=1)[0])
    assert before["ended_at"] is not None
    assert content(before["checkpoint"]) == FULL
    assert before["checkpoint"]["number"] == 2


async def test_a_successor_who_dies_before_its_first_checkpoint_loses_none(client: LeaseClient) -> None:
    first = await client.take("repo:a", ttl_seconds=10)
    await client.do("checkpoint", first, **FULL)
    client.advance(11)
    await client.take("repo:a", by="bob", ttl_seconds=10)
    client.advance(11)
    third = await client.take("repo:a", by="cyd")
    assert third["predecessor"]["owner"] == "bob"
    assert content(third["predecessor"]["checkpoint"]) == FULL
    assert third["predecessor"]["checkpoint"]["by"] == "ann"
    saved = await client.do("checkpoint", third, by="cyd", done="more")
    assert saved["checkpoint"]["number"] == 2


async def test_a_lease_that_is_still_live_is_nobodys_predecessor(client: LeaseClient) -> None:
    await client.take("repo:a", mode="shared")
    assert (await client.take("repo:a", by="bob", mode="shared"))["predecessor"] is None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (FULL, FULL),
        ({"done": 1}, {"done": 1}),
        ({"other": 1}, {"done": {"other": 1}}),
        ({"done": 1, "other": 2}, {"done": {"done": 1, "other": 2}}),
        ("half of it", {"done": "half of it"}),
        ([1, 2], {"done": [1, 2]}),
    ],
)
async def test_a_hand_off_takes_a_whole_checkpoint_or_a_plain_value(
    client: LeaseClient, sent: object, kept: dict[str, Any]
) -> None:
    lease = await client.take("repo:a")
    await client.do("handoff", lease, checkpoint=sent)
    taken = await client.take("repo:a", by="bob")
    assert content(taken["predecessor"]["checkpoint"]) == {**dict.fromkeys(FULL), **kept}


async def test_a_hand_off_without_a_checkpoint_passes_on_the_last_one(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    await client.do("checkpoint", lease, **FULL)
    given = await client.do("handoff", lease, to="bob")
    assert (given["state"], given["handed_to"]) == ("handed_off", "bob")
    taken = await client.take("repo:a", by="bob")
    assert content(taken["predecessor"]["checkpoint"]) == FULL


async def test_the_last_twenty_checkpoints_stay_readable_after_the_lease_is_gone(client: LeaseClient) -> None:
    lease = await client.take("repo:a", ttl_seconds=10)
    for number in range(1, 31):
        await client.do("checkpoint", lease, done=number)
    client.advance(11)
    await client.take("repo:a", by="bob")
    found = (await client.api.get(f"leases/{lease['lease_id']}/checkpoints"))["items"]
    assert [each["number"] for each in found] == list(range(30, 10, -1))
    assert [each["done"] for each in found] == list(range(30, 10, -1))


async def test_nothing_is_handed_to_somebody_who_could_not_take_it(client: LeaseClient) -> None:
    await client.api.key("clerk", "person", "audit")
    lease = await client.take("repo:a")
    seen = await client.call("handoff", lease, to="clerk")
    assert (seen.status, seen.word) == (409, "not_actionable")
    assert (await client.do("renew", lease))["state"] == "leased"


async def test_the_checkpoint_of_a_hand_off_is_in_the_history(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    await client.do("checkpoint", lease, done=1)
    await client.do("handoff", lease, checkpoint={"done": 2})
    found = (await client.api.get(f"leases/{lease['lease_id']}/checkpoints"))["items"]
    assert [(each["number"], each["done"]) for each in found] == [(2, 2), (1, 1)]


async def test_a_checkpoint_has_a_bounded_size_over_all_its_fields(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    half = "x" * (32 * 1024 - 20)
    await client.do("checkpoint", lease, done=half, partial=half)
    too_much: tuple[tuple[str, dict[str, Any]], ...] = (
        ("checkpoint", {"done": half, "partial": half, "evidence": half}),
        ("handoff", {"checkpoint": {"done": half + half + half}}),
        ("renew", {"progress": half}),
    )
    for verb, fields in too_much:
        seen = await client.call(verb, lease, **fields)
        assert (seen.status, seen.word) == (413, "too_large")
    assert (await client.read(lease))["checkpoint"]["number"] == 1


async def test_a_stale_owner_saves_no_checkpoint(client: LeaseClient) -> None:
    lost = await client.take("repo:a", ttl_seconds=1)
    client.advance(1)
    assert (await client.call("checkpoint", lost, done="late")).word == "fence_stale"
    taken = await client.take("repo:a", by="bob")
    assert taken["predecessor"]["checkpoint"] is None


async def test_renewing_keeps_it_for_another_period(client: LeaseClient) -> None:
    lease = await client.take("repo:a", ttl_seconds=10)
    for _ in range(5):
        client.advance(9)
        assert (await client.do("renew", lease))["state"] == "leased"
    await client.refused("repo:a")


async def test_renewals_without_progress_end_a_tenants_patience(client: LeaseClient) -> None:
    await client.terms(progress_after=2)
    lease = await client.take("repo:a")
    await client.do("renew", lease)
    await client.do("renew", lease)
    seen = await client.call("renew", lease)
    assert (seen.status, seen.word) == (409, "not_actionable")
    await client.do("renew", lease, progress="a file")
    await client.do("renew", lease, progress="a file")
    await client.do("renew", lease, progress="a file")
    assert (await client.call("renew", lease, progress="a file")).status == 409, "said before: no progress"
    await client.do("checkpoint", lease, done=1)
    await client.do("renew", lease)


async def test_waiting_for_a_person_is_no_progress(client: LeaseClient) -> None:
    await client.terms(progress_after=1)
    lease = await client.take("repo:a")
    await client.do("renew", lease)
    await client.do("suspend", lease, reason="waiting_on_review")
    await client.do("renew", lease, progress="still waiting")
    await client.do("resume", lease)
    assert (await client.call("renew", lease)).status == 409


async def test_a_suspended_lease_holds_without_renewals_up_to_its_own_maximum(client: LeaseClient) -> None:
    await client.terms(suspend_seconds_max=100)
    lease = await client.take("repo:a", ttl_seconds=10)
    waiting = await client.do("suspend", lease, reason="paused_by_policy")
    assert (waiting["state"], waiting["suspended_for"]) == ("waiting_on_review", "paused_by_policy")
    client.advance(99)
    await client.refused("repo:a")
    client.advance(1)
    taken = await client.take("repo:a", by="bob")
    assert taken["predecessor"]["ended"] == "stale"


async def test_suspending_again_and_again_adds_up_to_the_same_maximum(client: LeaseClient) -> None:
    await client.terms(suspend_seconds_max=100)
    lease = await client.take("repo:a", ttl_seconds=10)
    for _ in range(2):
        await client.do("suspend", lease, reason="waiting_on_review")
        client.advance(50 if _ else 49)
        assert (await client.do("resume", lease))["state"] == "leased"
    await client.do("suspend", lease, reason="waiting_on_review")
    client.advance(1)
    await client.take("repo:a", by="bob")


async def test_renewing_while_suspended_gains_no_time(client: LeaseClient) -> None:
    await client.terms(suspend_seconds_max=100)
    lease = await client.take("repo:a", ttl_seconds=10)
    waiting = await client.do("suspend", lease, reason="waiting_on_review")
    client.advance(50)
    renewed = await client.do("renew", lease)
    assert (renewed["state"], renewed["expires_at"]) == ("waiting_on_review", waiting["expires_at"])
    client.advance(45)
    assert (await client.call("renew", lease)).word == "not_actionable"


async def test_only_a_suspended_lease_resumes(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    assert (await client.call("resume", lease)).word == "not_actionable"


async def test_an_owner_learns_of_a_conflict_at_its_next_renewal(client: LeaseClient) -> None:
    lease = await client.take("file:a")
    human = await client.api.person("hal", "review")
    touched = await client.api.call("POST", "targets/file:a/touch", human, {"version": "2"})
    assert touched.status == 200, touched.document
    renewed = await client.do("renew", lease)
    assert renewed["state"] == "conflict_detected"
    conflict = await client.api.get(f"conflicts/{renewed['conflict_id']}")
    assert conflict["affected"]["lease"] == lease["lease_id"]


async def test_a_conflict_while_waiting_for_a_person_is_still_there_on_resuming(client: LeaseClient) -> None:
    lease = await client.take("file:a")
    await client.do("suspend", lease, reason="waiting_on_review")
    human = await client.api.person("hal", "review")
    await client.api.call("POST", "targets/file:a/touch", human, {"version": "2"})
    resumed = await client.do("resume", lease)
    assert resumed["state"] == "conflict_detected"
    assert resumed["conflict_id"]


async def test_a_tenants_longest_lifetime_bounds_what_is_asked_for(client: LeaseClient) -> None:
    await client.terms(ttl_seconds_max=30)
    lease = await client.take("repo:a", ttl_seconds=600)
    assert lease["ttl_seconds"] == 30
    client.advance(30)
    await client.take("repo:a", by="bob")


async def test_a_check_tells_a_sink_what_is_current(client: LeaseClient) -> None:
    lease = await client.take("repo:a", ttl_seconds=10)
    assert (await client.do("check", lease))["current"]
    assert not (await client.do("check", {**lease, "fence": lease["fence"] + 1}))["current"]
    client.advance(10)
    checked = await client.do("check", lease)
    assert (checked["current"], checked["state"]) == (False, "stale")
    later = await client.take("repo:a", by="bob")
    assert (await client.do("check", lease))["current_fence"] == later["fence"] > lease["fence"]


async def test_a_list_of_leases_says_who_had_each_before(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    await client.do("handoff", lease, to="bob", checkpoint={"done": "half"})
    await client.take("repo:a", by="bob")
    await client.take("repo:b", by="bob")
    page = await client.api.get("leases?live=true")
    before = {each["resource"]: each["predecessor"] for each in page["items"]}
    assert before["repo:b"] is None
    assert (before["repo:a"]["owner"], before["repo:a"]["ended"]) == ("ann", "handed_off")
    assert before["repo:a"]["checkpoint"]["done"] == "half"
