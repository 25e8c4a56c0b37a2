"""One owner at a time: who gets a resource, who is refused, and what lies under what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rooms.leases.lease_client import LeaseClient


async def test_a_free_resource_is_had_at_once(client: LeaseClient) -> None:
    lease = await client.take("repo:a", purpose="fix the tests")
    assert lease["state"] == "claimed"
    assert lease["owner"] == "ann"
    assert lease["predecessor"] is None


async def test_a_refusal_names_the_holder_and_when_to_come_back(client: LeaseClient) -> None:
    held = await client.take("repo:a", purpose="fix the tests")
    refused = await client.refused("repo:a")
    assert refused["holder"]["principal"] == "ann"
    assert refused["holder"]["purpose"] == "fix the tests"
    assert refused["holder"]["expires_at"] == held["expires_at"]
    assert refused["retryable"]
    assert 59_000 <= refused["retry_after_ms"] <= 60_000


async def test_an_owner_does_not_get_it_twice_either(client: LeaseClient) -> None:
    await client.take("repo:a")
    await client.refused("repo:a", by="ann")


async def test_sharing_shuts_out_exclusive_owners_only(client: LeaseClient) -> None:
    first = await client.take("repo:a", mode="shared")
    second = await client.take("repo:a", by="bob", mode="shared")
    await client.refused("repo:a", by="cyd")
    await client.do("release", first)
    await client.refused("repo:a", by="cyd")
    await client.do("release", second, by="bob")
    await client.take("repo:a", by="cyd")
    await client.refused("repo:a", by="ann", mode="shared")


@pytest.mark.parametrize(
    ("held", "wanted", "clash"),
    [
        ("r/**", "r/a/b", True),
        ("r/**", "r", True),
        ("r/a/b", "r/**", True),
        ("r/a/b", "r/a/**", True),
        ("r/a/**", "r/**", True),
        ("r/**", "r/a/**", True),
        ("r", "r/**", True),
        ("/**", "/etc/hosts", True),
        ("r/a", "r/b", False),
        ("r/a/**", "r/ab", False),
        ("r/a", "r", False),
        ("r", "r/a", False),
        ("r/a/**", "r/b/**", False),
        ("rr/**", "r/a", False),
        ("r-/x", "r/**", False),
        ("r/**", "s", False),
    ],
)
async def test_a_prefix_covers_what_lies_under_it(
    client: LeaseClient, held: str, wanted: str, clash: bool
) -> None:
    await client.take(held)
    if clash:
        await client.refused(wanted)
    else:
        await client.take(wanted, by="bob")


async def test_prefixes_can_be_shared_with_what_is_shared_under_them(client: LeaseClient) -> None:
    await client.take("r/a", mode="shared")
    await client.take("r/**", by="bob", mode="shared")
    await client.refused("r/b", by="cyd")
    await client.take("r/b", by="cyd", mode="shared")


async def test_many_shared_leases_under_a_prefix_hide_no_exclusive_one(client: LeaseClient) -> None:
    await client.take("r/zz", ttl_seconds=10)
    for number in range(60):
        await client.take(f"r/{number:02}", by="bob", mode="shared")
    refused = await client.refused("r/**", by="cyd", mode="shared")
    assert refused["holder"]["principal"] == "ann"


async def test_many_overdue_leases_under_a_prefix_hide_no_live_one(client: LeaseClient) -> None:
    for number in range(110):
        await client.take(f"r/{number:02}", ttl_seconds=10)
    client.advance(11)
    live = await client.take("r/zz", by="bob")
    refused = await client.refused("r/**", by="cyd")
    assert refused["holder"]["lease_id"] == live["lease_id"]
    await client.do("release", live, by="bob")
    await client.refused("r/**", by="cyd")  # more than one decision ends them all
    await client.take("r/**", by="cyd")


async def test_a_lease_is_over_by_the_clock_alone(client: LeaseClient) -> None:
    lost = await client.take("repo:a", ttl_seconds=10)
    client.advance(10)
    await client.take("repo:a", by="bob")
    assert (await client.call("renew", lost)).word == "fence_stale"
    assert (await client.read(lost))["state"] == "stale"


async def test_a_lease_a_moment_before_its_end_is_still_held(client: LeaseClient) -> None:
    held = await client.take("repo:a", ttl_seconds=10)
    client.advance(9.999)
    await client.refused("repo:a")
    await client.do("renew", held)


async def test_the_sweep_ends_what_nobody_asked_for(client: LeaseClient) -> None:
    lost = await client.take("repo:a", ttl_seconds=10)
    client.advance(12)
    await client.api.sweep()
    assert "lease.stale" in await client.api.events(lost["lease_id"])
    assert ("lease_expire", "done") in await client.api.audit("repo:a")


async def test_releasing_twice_changes_nothing(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    first = await client.do("release", lease)
    later = await client.take("repo:a", by="bob")
    assert await client.do("release", lease) == first
    assert (await client.do("check", later, by="bob"))["current"]


@pytest.mark.parametrize("verb", ["release", "handoff"])
async def test_a_lease_that_was_given_up_is_good_for_nothing_although_its_time_is_not_up(
    client: LeaseClient, verb: str
) -> None:
    lease = await client.take("r")
    await client.do(verb, lease)
    assert not (await client.do("check", lease))["current"]
    late: dict[str, dict[str, Any]] = {
        "renew": {}, "checkpoint": {"done": 1}, "suspend": {"reason": "paused_by_policy"}
    }  # fmt: skip
    for write, fields in late.items():
        assert (await client.call(write, lease, **fields)).word == "fence_stale"
    begin = {"request_hash": "sha256:one", "lease": {"id": lease["lease_id"], "fence": lease["fence"]}}
    seen = await client.api.call("POST", "effects/a/begin", client.keys["ann"], begin)
    assert (seen.status, seen.word) == (409, "fence_stale")


@pytest.mark.parametrize("by", [-1, 1])
async def test_a_fence_that_is_not_the_leases_own_is_good_for_nothing_even_in_its_owners_hand(
    client: LeaseClient, by: int
) -> None:
    lease = await client.take("r")
    guessed = {**lease, "fence": lease["fence"] + by}
    assert not (await client.do("check", guessed))["current"]
    for verb in ("renew", "release", "handoff"):
        assert (await client.call(verb, guessed)).word == "fence_stale"
    assert (await client.do("check", lease))["current"]


async def test_releasing_what_one_has_handed_on_changes_nothing(client: LeaseClient) -> None:
    lease = await client.take("r")
    await client.do("handoff", lease, to="bob")
    assert (await client.do("release", lease))["state"] == "handed_off"
    await client.refused("r", by="cyd")
    assert (await client.call("release", lease, by="bob")).word == "fence_stale"
    conflicts = (await client.api.get("conflicts"))["items"]
    assert [side["actor"] for each in conflicts for side in each["competing"]] == ["ann", "bob"]


async def test_nobody_else_is_told_that_a_released_lease_was_theirs(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    await client.do("release", lease)
    assert (await client.call("release", lease, by="bob")).word == "fence_stale"


@pytest.mark.parametrize("verb", ["renew", "release", "handoff", "resume"])
async def test_somebody_elses_lease_cannot_be_used(client: LeaseClient, verb: str) -> None:
    lease = await client.take("repo:a")
    assert (await client.call(verb, lease, by="bob")).word == "fence_stale"
    assert (await client.do("check", lease))["current"]


_VERBS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("renew", {}), ("checkpoint", {"done": 1}), ("suspend", {"reason": "waiting_on_review"}), ("resume", {}),
    ("handoff", {}), ("release", {}),
)  # fmt: skip


async def test_another_session_of_the_same_owner_does_not_own_the_lease(client: LeaseClient) -> None:
    lease = await client.take("repo:a", session="left")
    await client.refused("repo:a", by="ann", session="right")
    for verb, fields in _VERBS:
        refused = await client.call(verb, lease, session="right", **fields)
        assert refused.word == "fence_stale"
        assert "acquired in session left" in refused.document["detail"]
        assert refused.document["conflict_id"]
    await client.do("renew", lease, session="left")
    await client.do("release", lease, session="left")


async def test_a_holder_that_names_no_session_is_told_so_and_nothing_is_recorded(client: LeaseClient) -> None:
    lease = await client.take("repo:a", session="left")
    for verb, fields in _VERBS:
        refused = await client.call(verb, lease, **fields)
        assert (refused.status, refused.word) == (409, "fence_stale")
        assert refused.document["session"] == "left"
        assert "name the same session with every call" in refused.document["detail"]
        assert "conflict_id" not in refused.document
    assert (await client.api.get("conflicts"))["items"] == []
    assert (await client.do("check", lease))["current"]
    await client.do("release", lease, session="left")


async def test_a_stale_fence_of_another_holder_is_recorded_whatever_session_it_names(
    client: LeaseClient,
) -> None:
    lease = await client.take("repo:a", session="left")
    for by, fence in (("bob", lease["fence"]), ("ann", lease["fence"] - 1)):
        for session in ({}, {"session": "left"}):
            refused = await client.call("renew", {**lease, "fence": fence}, by=by, **session)
            assert refused.document["conflict_id"], (by, session)


async def test_a_lease_without_a_session_is_every_session_of_its_owner(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    await client.do("renew", lease, session="left")
    await client.do("checkpoint", lease, done=1)
    await client.do("release", lease, session="right")
    assert (await client.do("release", lease))["state"] == "released"


async def test_who_finds_it_held_learns_in_which_session(client: LeaseClient) -> None:
    await client.take("repo:a", session="left")
    busy = await client.refused("repo:a", by="ann", session="right")
    assert (busy["holder"]["principal"], busy["holder"]["session"]) == ("ann", "left")
    assert "is held by ann (session left) until" in busy["detail"]


async def test_fences_grow_over_a_whole_tree(client: LeaseClient) -> None:
    """A sink that guards one file sees the fences of leases on it and of leases on everything around it."""
    fences: list[int] = []
    for resource in ("r/a/b", "r/**", "r/a/**", "r/a/b", "r/c", "r", "r/**"):
        lease = await client.take(resource)
        fences.append(lease["fence"])
        await client.do("release", lease)
    assert fences == sorted(set(fences))


async def test_a_stale_fence_leaves_a_conflict_and_repeats_are_counted_into_it(client: LeaseClient) -> None:
    lost = await client.take("repo:a", ttl_seconds=1)
    client.advance(2)
    await client.take("repo:a", by="bob")
    seen = [await client.call(verb, lost) for verb in ("renew", "renew", "release")]
    assert {each.word for each in seen} == {"fence_stale"}
    assert len({each.document["conflict_id"] for each in seen}) == 1
    page = await client.api.get("conflicts?state=open")
    assert [found["kind"] for found in page["items"]] == ["stale_fence"]


@pytest.mark.parametrize("resource", ["r/**/b", "r:**", "**"])
async def test_a_resource_whose_wildcard_means_nothing_is_refused(client: LeaseClient, resource: str) -> None:
    seen = await client.ask(resource)
    assert (seen.status, seen.word) == (400, "invalid_request")
    assert "at the end" in seen.document["detail"]


@pytest.mark.parametrize("resource", ["r\n", "r\nb", "\n", "r\u0000"])
async def test_a_resource_is_one_line(client: LeaseClient, resource: str) -> None:
    assert (await client.ask(resource)).status == 400


async def test_a_resource_has_a_bounded_depth(client: LeaseClient) -> None:
    await client.take("/".join("abcdefghijklmnop"))
    assert (await client.ask("/".join("abcdefghijklmnopq"))).status == 400


async def test_a_shared_resource_has_a_bounded_number_of_holders(client: LeaseClient) -> None:
    for _ in range(256):
        await client.take("repo:a", mode="shared")
    refused = await client.refused("repo:a", mode="shared")
    assert "256" in refused["detail"]


async def test_another_tenants_lease_is_absent(client: LeaseClient) -> None:
    lease = await client.take("repo:a")
    client.keys["eve"] = await client.api.agent("eve", tenant="other")
    assert (await client.call("renew", lease, by="eve")).status == 404
    await client.take("repo:a", by="eve")
