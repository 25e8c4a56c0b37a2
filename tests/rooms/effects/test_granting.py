"""A grant that an effect needs is claimed in the decision that begins it: consumed if it begins, else not."""

from __future__ import annotations

from typing import Any

from tests.rooms.effects.effect_client import Actors, lease_ref

NEED = {"task": "refund", "args": {"cents": 500}}


async def issue(actors: Actors, **fields: Any) -> str:
    seen = await actors.post("grants", actors.ada, {"task": "refund", **fields})
    assert seen.status == 201, seen.document
    return seen.document["id"]


async def used(actors: Actors, grant: str) -> int:
    return (await actors.api.get(f"grants/{grant}"))["used"]


async def test_an_effect_under_a_grant_consumes_one_use_and_names_it(actors: Actors) -> None:
    grant = await issue(actors, uses=2)
    seen = await actors.begin(grant=NEED)
    assert seen.status == 201
    assert seen.document["grant"] == {"id": grant, "task": "refund", "use": 1}
    assert await used(actors, grant) == 1


async def test_without_a_fitting_grant_nothing_begins_and_the_audit_says_why(actors: Actors) -> None:
    grant = await issue(actors, pins={"cents": {"max": 100}})
    seen = await actors.begin(grant=NEED)
    assert (seen.status, seen.word) == (403, "not_claimed")
    assert "pin cents" in seen.document["reason"]
    assert (await actors.api.call("GET", "effects/a", actors.bot)).status == 404
    assert await used(actors, grant) == 0
    (entry,) = (await actors.api.get("audit?subject=a"))["items"]
    assert (entry["action"], entry["outcome"]) == ("effect_begin_refused", "not_claimed")
    (claim,) = (await actors.api.get("audit?subject=refund"))["items"]
    assert (claim["action"], "pin cents" in claim["details"]["why"]) == ("grant_claim_refused", True)


async def test_an_effect_that_is_refused_consumes_nothing(actors: Actors) -> None:
    grant = await issue(actors)
    lease = await actors.lease(ttl_seconds=5)
    await actors.touch("v2")
    await actors.pass_time(6)
    target = {"key": "doc:1", "version": "v1"}
    assert (await actors.begin("old", grant=NEED, target=target)).word == "superseded"
    assert (await actors.begin("late", grant=NEED, lease=lease_ref(lease))).word == "fence_stale"
    assert await used(actors, grant) == 0


async def test_a_repeat_of_any_outcome_consumes_nothing_more(actors: Actors) -> None:
    grant = await issue(actors, uses=9)
    await actors.begin(ttl_seconds=5, grant=NEED)
    assert (await actors.begin(grant=NEED, by=actors.other)).word == "effect_in_progress"
    await actors.pass_time(6)
    assert (await actors.begin(grant=NEED)).word == "effect_ambiguous"
    await actors.resolve("committed")
    assert (await actors.begin(grant=NEED)).document["replayed"] is True
    assert await used(actors, grant) == 1


async def test_a_further_attempt_goes_under_the_same_use_whoever_makes_it(actors: Actors) -> None:
    grant = await issue(actors)
    await actors.begin(grant=NEED)
    for fence, by in ((1, actors.bot), (2, actors.other)):
        await actors.fail(fence=fence, safe=True, by=by)
        again = await actors.begin(grant=NEED, by=actors.other)
        assert (again.status, again.document["grant"]["use"]) == (201, 1)
    assert await used(actors, grant) == 1


async def test_a_further_attempt_with_other_arguments_needs_a_use_of_its_own(actors: Actors) -> None:
    await issue(actors)
    await actors.begin(grant=NEED)
    await actors.fail(safe=True)
    dearer = {"task": "refund", "args": {"cents": 900}}
    assert (await actors.begin(grant=dearer)).word == "not_claimed"
    assert (await actors.begin(grant={**NEED, "grant_id": "gnt_other"})).word == "not_claimed"


async def test_a_use_that_was_claimed_before_permits_one_effect_and_no_second(actors: Actors) -> None:
    grant = await issue(actors, uses=2)
    claim = {**NEED, "execution_id": "e1"}
    assert (await actors.post("grants/claim", actors.bot, claim)).document["claimed"]

    first = await actors.begin("a", grant=claim)
    second = await actors.begin("b", grant=claim)

    assert (first.status, first.document["grant"]["use"]) == (201, 1)
    assert (second.word, "permits effect a and no other" in second.document["reason"]) == (
        "not_claimed",
        True,
    )
    assert await used(actors, grant) == 1
    (use,) = (await actors.api.get(f"grants/{grant}"))["claims"]
    assert (use["execution_id"], use["action_id"]) == ("e1", "a")


async def test_a_use_without_a_signature_begins_no_effect_that_asks_for_one(actors: Actors) -> None:
    await issue(actors)
    claim = {**NEED, "execution_id": "e1"}
    assert (await actors.post("grants/claim", actors.bot, claim)).document["claimed"]

    assert (await actors.begin("a", grant={**claim, "signed": True})).word == "not_claimed"
    assert (await actors.begin("a", grant={**claim, "groups": ["ops"]})).word == "not_claimed"
    begun = await actors.begin("a", grant=claim)
    failed = {"fence": begun.document["fence"], "error": "no", "safe_to_retry": True}
    assert (await actors.post("effects/a/fail", actors.bot, failed)).status == 200

    assert (await actors.begin("a", grant={**claim, "signed": True})).word == "not_claimed"
    assert (await actors.begin("a", grant=claim)).status == 201


async def test_a_use_is_of_no_help_to_an_effect_that_somebody_else_begins(actors: Actors) -> None:
    await issue(actors)
    claim = {**NEED, "execution_id": "e1"}
    assert (await actors.post("grants/claim", actors.bot, claim)).document["claimed"]
    assert (await actors.begin("a", grant=claim, by=actors.other)).word == "not_claimed"


async def test_a_named_grant_never_falls_back_to_another(actors: Actors) -> None:
    first, second = await issue(actors), await issue(actors)
    assert (await actors.begin("a", grant={**NEED, "grant_id": second})).document["grant"]["id"] == second
    assert (await actors.begin("b", grant={**NEED, "grant_id": second})).word == "not_claimed"
    assert await used(actors, first) == 0


async def test_a_grant_behind_many_that_do_not_fit_is_found(actors: Actors) -> None:
    for _ in range(20):
        await issue(actors, pins={"cents": {"max": 1}})
    fitting = await issue(actors)
    assert (await actors.begin(grant=NEED)).document["grant"]["id"] == fitting


async def test_a_lease_of_a_session_begins_effects_of_that_session_alone(actors: Actors) -> None:
    lease = await actors.lease(session="tab-1")
    unnamed = await actors.begin("a", lease=lease_ref(lease))
    assert (unnamed.word, unnamed.document["session"]) == ("fence_stale", "tab-1")
    other = {**lease_ref(lease), "session": "tab-2"}
    assert (await actors.begin("b", lease=other)).word == "fence_stale"
    own = {**lease_ref(lease), "session": "tab-1"}
    begun = await actors.begin("c", lease=own)
    assert (begun.status, begun.document["lease"]["session"]) == (201, "tab-1")
    (conflict,) = await actors.conflicts(kind="stale_fence")
    assert conflict["count"] == 1  # the other session; a call without one collides with nobody
