"""Corners of waiting, handing on and suspending that others would otherwise be shut out or let in by."""

from __future__ import annotations

from typing import Any

from interlock.rooms.leases.model import LEASES
from tests.rooms.leases.lease_client import Yard

REVIEW = {"reason": "waiting_on_review"}


async def hand_on(yard: Yard, resource: str, to: str) -> Any:
    lease = await yard.take(resource)
    return await yard.call("handoff", lease, to=to, checkpoint={"done": []})


async def test_an_exclusive_newcomer_does_not_overtake_somebody_who_waits_to_share(yard: Yard) -> None:
    lease = await yard.take("r")
    assert await yard.wait("r", "bob", "b", mode="shared") is None
    await yard.do("release", lease)
    assert "bob first" in (await yard.refused("r", by="cyd"))["detail"]
    assert await yard.wait("r", "bob", "b", mode="shared") is not None


async def test_what_is_kept_for_somebody_stays_so_when_they_take_something_else(yard: Yard) -> None:
    assert (await hand_on(yard, "r/a", "bob")).status == 200
    await yard.take("r/b", by="bob")
    assert "kept for bob" in (await yard.refused("r/a", by="cyd"))["detail"]
    await yard.take("r/a", by="bob")


async def test_what_is_kept_for_somebody_does_not_shut_them_out(yard: Yard) -> None:
    assert (await hand_on(yard, "r/a", "bob")).status == 200
    await yard.take("r/**", by="bob")


async def test_nothing_is_handed_to_somebody_without_a_live_key(yard: Yard) -> None:
    key = yard.keys["bob"].split("_")[1]
    assert (await yard.stage.call("POST", f"api-keys/{key}/revoke", yard.stage.admin, {})).status == 200
    assert (await hand_on(yard, "r", "bob")).status in (404, 409)
    assert (await yard.refused("r", by="cyd"))["holder"]["principal"] == "ann"


async def test_a_wait_that_was_cut_short_meanwhile_is_not_begun_again(yard: Yard) -> None:
    await yard.terms(suspend_seconds_max=60)
    lease = await yard.take("r")
    await yard.do("suspend", lease, **REVIEW)
    yard.advance(50)
    await yard.do("resume", lease)
    await yard.terms(suspend_seconds_max=30)

    refused = await yard.call("suspend", lease, **REVIEW)

    assert (refused.status, refused.word) == (409, "not_actionable")
    await yard.do("renew", lease)


async def test_a_conflict_from_before_a_wait_is_still_there_after_it(yard: Yard) -> None:
    lease = await yard.take("r")
    ada = await yard.stage.person("ada")
    await yard.stage.call("POST", "targets/r/touch", ada, {"version": "v2"})
    await yard.do("suspend", lease, **REVIEW)
    assert (await yard.do("resume", lease))["state"] == "conflict_detected"


async def test_saying_nothing_after_saying_something_is_no_progress(yard: Yard) -> None:
    await yard.terms(progress_after=1)
    lease = await yard.take("r")
    await yard.do("renew", lease, progress={"step": 1})
    await yard.do("renew", lease)
    assert (await yard.call("renew", lease)).status == 409


async def test_a_lease_on_everything_under_a_path_covers_that_and_no_more(yard: Yard) -> None:
    lease = await yard.take("r/**")
    stored = await yard.stage.service.store.get(LEASES, "default", lease["lease_id"])
    assert stored is not None
    covered = {key: stored.covers(key) for key in ("r", "r/a", "r/a/b", "rx", "q", "q/r")}
    assert covered == {"r": True, "r/a": True, "r/a/b": True, "rx": False, "q": False, "q/r": False}
