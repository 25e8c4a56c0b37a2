"""What leases leave behind for people to read, and what leaving the line leaves to those behind."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.leases.lines import LeaveLeaseLine
from interlock.rooms.leases.rules import RenewLease
from tests.rooms.leases.lease_client import LeaseClient


async def told(client: LeaseClient, resource: str) -> list[tuple[str, str, str]]:
    """Action, actor and outcome of every audit entry about a resource, oldest first."""
    entries = (await client.api.get(f"audit?subject={resource}"))["items"]
    return [(entry["action"], entry["actor"], entry["outcome"]) for entry in reversed(entries)]


async def test_a_leases_life_is_audited_and_announced(client: LeaseClient) -> None:
    lease = await client.take("r")
    await client.do("release", lease)
    await client.call("renew", lease)
    lost = await client.take("r", ttl_seconds=5)
    client.advance(6)
    await client.api.sweep()

    assert await told(client, "r") == [
        ("lease_acquire", "ann", "done"),
        ("lease_release", "ann", "done"),
        ("lease_refused", "ann", "fence_stale"),
        ("lease_acquire", "ann", "done"),
        ("lease_expire", "interlock", "done"),
    ]
    assert (await client.api.events(lease["lease_id"]))[0] == "lease.acquired"
    assert (await client.read(lost))["state"] == "stale"


async def test_a_settled_conflict_is_audited_and_announced(client: LeaseClient) -> None:
    lease = await client.take("r")
    ada = await client.api.person("ada", "review,operate")
    touched = await client.api.call("POST", "targets/r/touch", ada, {"version": "v2"})
    body = {"resolution": "keep_second", "note": "we talked"}
    await client.api.call("POST", f"conflicts/{touched.document['conflict_id']}/resolve", ada, body)
    assert ("lease_settle", "ada", "done") in await told(client, "r")
    assert (await client.api.events(lease["lease_id"]))[-1] == "lease.settled"


async def test_a_stale_fence_tells_who_came_with_what_and_how_it_stands(client: LeaseClient) -> None:
    lease = await client.take("r")
    client.advance(10)
    await client.do("release", lease)
    client.advance(10)
    for name in ("ann", "bob"):
        await client.call("renew", lease, by=name)

    found: list[Any] = list(reversed((await client.api.get("conflicts?kind=stale_fence"))["items"]))

    stands = ("ann", "2030-01-01T00:00:10Z", "released")
    for conflict, name in zip(found, ("ann", "bob"), strict=True):
        sides = [(side["actor"], side["at"], side["what"]) for side in conflict["competing"]]
        assert sides == [stands, (name, "2030-01-01T00:00:20Z", "came with a fence that does not hold it")]
        assert conflict["affected"]["lease"] == lease["lease_id"]


@pytest.mark.parametrize("verb", ["renew", "release"])
async def test_a_stale_fence_names_who_holds_the_resource_instead(client: LeaseClient, verb: str) -> None:
    lost = await client.take("r", ttl_seconds=5)
    client.advance(10)
    await client.take("r", "bob")
    client.advance(10)

    refused = await client.call(verb, lost)

    assert (refused.status, refused.word, refused.document["holder"]) == (409, "fence_stale", "bob")
    (conflict,) = (await client.api.get("conflicts?kind=stale_fence"))["items"]
    assert [(side["actor"], side["at"], side["what"]) for side in conflict["competing"]] == [
        ("bob", "2030-01-01T00:00:10Z", "claimed"),
        ("ann", "2030-01-01T00:00:20Z", "came with a fence that does not hold it"),
    ]
    assert conflict["affected"]["lease"] == lost["lease_id"]


async def test_whoever_comes_with_anothers_fence_is_told_since_when_it_is_held(client: LeaseClient) -> None:
    held = await client.take("r")
    client.advance(10)
    await client.call("renew", held, "bob")
    (conflict,) = (await client.api.get("conflicts?kind=stale_fence"))["items"]
    sides = [(side["actor"], side["at"]) for side in conflict["competing"]]
    assert sides == [("ann", "2030-01-01T00:00:00Z"), ("bob", "2030-01-01T00:00:10Z")]


async def test_a_fence_that_ran_out_is_shown_as_such_though_no_sweep_has_run(client: LeaseClient) -> None:
    lost = await client.take("r", ttl_seconds=5)
    client.advance(10)
    refused = await client.call("renew", lost)
    assert "holder" not in refused.document
    (conflict,) = (await client.api.get("conflicts?kind=stale_fence"))["items"]
    stands = conflict["competing"][0]
    assert (stands["at"], stands["what"]) == ("2030-01-01T00:00:05Z", "stale")


async def test_a_fence_grows_though_the_clock_stands_still_or_is_behind(client: LeaseClient) -> None:
    fences: list[int] = []
    for seconds in (0, 0, 0, -60, -60):
        client.advance(seconds)
        lease = await client.take("r")
        fences.append(lease["fence"])
        await client.do("release", lease)
    assert fences == sorted(set(fences))


async def test_a_fence_is_ahead_of_every_one_that_an_older_copy_could_have_lost(client: LeaseClient) -> None:
    first = await client.take("r")
    client.advance(60)
    assert (await client.take("s"))["fence"] >= first["fence"] + 60_000_000


async def test_progress_stays_until_there_is_other_progress(client: LeaseClient) -> None:
    lease = await client.take("r")
    await client.do("renew", lease, progress={"step": 1})
    await client.do("renew", lease)
    read = await client.read(lease)
    assert (read["progress"], read["renewals"]) == ({"step": 1}, 2)


async def test_a_lease_is_not_found_under_another_resource(client: LeaseClient) -> None:
    lease = await client.take("r")
    caller = Caller(tenant="default", principal="ann")
    renew = RenewLease(caller=caller, lease_id=lease["lease_id"], resource="other", fence=lease["fence"])
    with pytest.raises(NotFound):
        await client.api.service.kernel.run(renew)


async def test_whoever_leaves_the_line_holds_nobody_up(client: LeaseClient) -> None:
    lease = await client.take("r/a")
    assert await client.wait("r/a", "bob", "b") is None
    assert await client.wait("r/a", "cyd", "c") is None
    caller = Caller(tenant="default", principal="bob")
    await client.api.service.kernel.run(LeaveLeaseLine(caller=caller, resource="r/a", ticket="b"))
    await client.do("release", lease)
    taken = await client.wait("r/a", "cyd", "c")
    assert taken is not None
    assert taken.lease.owner == "cyd"
