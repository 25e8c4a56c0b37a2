"""Corners of waiting, handing on and suspending that others would otherwise be shut out or let in by."""

from __future__ import annotations

from typing import Any

from interlock.rooms.leases.model import LEASES
from tests.rooms.leases.lease_client import LeaseClient

REVIEW = {"reason": "waiting_on_review"}


async def hand_on(client: LeaseClient, resource: str, to: str) -> Any:
    lease = await client.take(resource)
    return await client.call("handoff", lease, to=to, checkpoint={"done": []})


async def test_an_exclusive_newcomer_does_not_overtake_somebody_who_waits_to_share(
    client: LeaseClient,
) -> None:
    lease = await client.take("r")
    assert await client.wait("r", "bob", "b", mode="shared") is None
    await client.do("release", lease)
    assert "bob first" in (await client.refused("r", by="cyd"))["detail"]
    assert await client.wait("r", "bob", "b", mode="shared") is not None


async def test_what_is_kept_for_somebody_stays_so_when_they_take_something_else(client: LeaseClient) -> None:
    assert (await hand_on(client, "r/a", "bob")).status == 200
    await client.take("r/b", by="bob")
    assert "kept for bob" in (await client.refused("r/a", by="cyd"))["detail"]
    await client.take("r/a", by="bob")


async def test_what_is_kept_for_somebody_does_not_shut_them_out(client: LeaseClient) -> None:
    assert (await hand_on(client, "r/a", "bob")).status == 200
    await client.take("r/**", by="bob")


async def test_nothing_is_handed_to_somebody_without_a_live_key(client: LeaseClient) -> None:
    key = client.keys["bob"].split("_")[1]
    assert (await client.api.call("POST", f"api-keys/{key}/revoke", client.api.admin, {})).status == 200
    assert (await hand_on(client, "r", "bob")).status in (404, 409)
    assert (await client.refused("r", by="cyd"))["holder"]["principal"] == "ann"


async def test_a_wait_that_was_cut_short_meanwhile_is_not_begun_again(client: LeaseClient) -> None:
    await client.terms(suspend_seconds_max=60)
    lease = await client.take("r")
    await client.do("suspend", lease, **REVIEW)
    client.advance(50)
    await client.do("resume", lease)
    await client.terms(suspend_seconds_max=30)

    refused = await client.call("suspend", lease, **REVIEW)

    assert (refused.status, refused.word) == (409, "not_actionable")
    await client.do("renew", lease)


async def test_a_conflict_from_before_a_wait_is_still_there_after_it(client: LeaseClient) -> None:
    lease = await client.take("r")
    ada = await client.api.person("ada")
    await client.api.call("POST", "targets/r/touch", ada, {"version": "v2"})
    await client.do("suspend", lease, **REVIEW)
    assert (await client.do("resume", lease))["state"] == "conflict_detected"


async def test_saying_nothing_after_saying_something_is_no_progress(client: LeaseClient) -> None:
    await client.terms(progress_after=1)
    lease = await client.take("r")
    await client.do("renew", lease, progress={"step": 1})
    await client.do("renew", lease)
    assert (await client.call("renew", lease)).status == 409


async def test_a_lease_on_everything_under_a_path_covers_that_and_no_more(client: LeaseClient) -> None:
    lease = await client.take("r/**")
    stored = await client.api.service.store.get(LEASES, "default", lease["lease_id"])
    assert stored is not None
    covered = {key: stored.covers(key) for key in ("r", "r/a", "r/a/b", "rx", "q", "q/r")}
    assert covered == {"r": True, "r/a": True, "r/a/b": True, "rx": False, "q": False, "q/r": False}
