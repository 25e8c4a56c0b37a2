"""An effect of a job begins only while the job is held, whole, at the version and by the worker it was given to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.rooms.effects.model import PermitClaims, PermitMismatch
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import Forbidden
from interlock.rooms.jobs.effect_intent import BeginEffect
from interlock.rooms.jobs.model import JOBS
from tests.rooms.effects.effect_client import Actors, lease_ref


async def lose(actors: Actors, held: Any, how: str) -> None:
    """Let the worker's hold of a job end in one of the ways it can."""
    if how in ("release", "complete"):
        said = {"fence": held["fence"], **({"result": 1} if how == "complete" else {})}
        assert (await actors.post(f"jobs/{held['id']}/{how}", actors.worker, said)).status == 200
    else:
        await actors.pass_time(held["lease_seconds"], sweep=how == "swept")


async def hold(actors: Actors, version: str | None = None) -> Any:
    """A job that the worker holds for half a minute."""
    await actors.submit(version, "free.a")
    asked = {"topics": ["free.a"], "lease_seconds": 30}
    (held,) = (await actors.post("jobs/claim", actors.worker, asked)).document["jobs"]
    return {**held, "lease_seconds": 30}


@pytest.mark.parametrize("by_permit", [True, False])
@pytest.mark.parametrize("how", ["release", "complete", "swept", "unswept"])
async def test_a_job_that_is_no_longer_held_begins_nothing(
    actors: Actors, how: str, *, by_permit: bool
) -> None:
    held = await hold(actors)
    await lose(actors, held, how)
    named = {"permit": held["permit"]} if by_permit else {"job_id": held["id"]}

    seen = await actors.begin(by=actors.worker, **named)

    assert (seen.status, seen.word) == (409, "fence_stale")
    assert (await actors.api.call("GET", "effects/a", actors.bot)).status == 404
    (conflict,) = await actors.conflicts(kind="stale_fence")
    assert (conflict["id"], conflict["affected"]["effect"]) == (seen.document["conflict_id"], "a")


async def test_a_job_is_held_to_the_last_moment_of_its_lease(actors: Actors) -> None:
    held = await hold(actors)
    actors.api.clock.advance(29.999)
    assert (await actors.begin(by=actors.worker, job_id=held["id"])).status == 201


async def test_who_comes_without_the_job_and_who_holds_it_are_named(actors: Actors) -> None:
    held, unheld = await hold(actors), await actors.submit(None, "pay.a")
    for by in (actors.bot, actors.other):
        await actors.begin("a", by=by, job_id=held["id"])
    await actors.begin("b", job_id=unheld)

    told = [
        [(side["actor"], side["what"]) for side in conflict["competing"]]
        for conflict in reversed(await actors.conflicts(kind="stale_fence"))
    ]

    holds = ("worker", "RUNNING")
    assert told == [
        [holds, ("bot", "began a without holding it")],
        [holds, ("other", "began a without holding it")],
        [("interlock", "APPROVAL"), ("bot", "began b without holding it")],
    ]


async def test_an_unknown_job_begins_nothing(actors: Actors) -> None:
    assert (await actors.begin(job_id="job_none")).status == 404


async def test_a_job_altered_in_the_store_begins_nothing(actors: Actors) -> None:
    held = await hold(actors)
    job = await actors.api.service.store.get(JOBS, "default", held["id"])
    assert job is not None
    altered = msgspec.structs.replace(job.action, payload=msgspec.Raw(b'{"cents":9}'))
    store: Any = actors.api.service.store
    key = JOBS.key("default", held["id"])
    store._bodies[key] = JOBS.encode(msgspec.structs.replace(job, action=altered))

    seen = await actors.begin(by=actors.worker, job_id=held["id"])

    assert (seen.status, seen.word) == (403, "forbidden")
    assert "no longer matches its hash" in seen.document["detail"]


@pytest.mark.parametrize("changed", [{"job_hash": "sha256:0"}, {"job_id": "job_other"}])
async def test_a_permit_is_for_one_version_of_one_job(actors: Actors, changed: dict[str, str]) -> None:
    held = await hold(actors)
    claims = PermitClaims(job_id=held["id"], job_hash=held["job_hash"], fence=held["fence"])
    begin = BeginEffect(
        caller=Caller(tenant="default", principal="bot"),
        action_id="a",
        request_hash="sha256:1",
        job_id=held["id"],
        permit=msgspec.structs.replace(claims, **changed),
    )
    kernel = actors.api.service.kernel
    with pytest.raises(PermitMismatch):
        await kernel.run(begin)
    assert (await kernel.run(msgspec.structs.replace(begin, permit=claims))).effect.job_id == held["id"]


async def test_who_has_no_role_that_acts_begins_nothing(actors: Actors) -> None:
    ada = Caller(tenant="default", principal="ada")
    with pytest.raises(Forbidden):
        await actors.api.service.kernel.run(BeginEffect(caller=ada, action_id="a", request_hash="sha256:1"))


async def test_an_effect_shows_what_it_is_bound_to_and_what_became_of_it_before(actors: Actors) -> None:
    held, lease = await hold(actors, "v1"), await actors.lease(by=actors.worker)
    grant = (await actors.post("grants", actors.ada, {"task": "refund"})).document["id"]
    need = {"task": "refund", "args": {}}
    named = {"by": actors.worker, "job_id": held["id"], "lease": lease_ref(lease)}
    first = (await actors.begin(**named, grant=need)).document
    await actors.fail(safe=True, by=actors.worker, error="no route")
    actors.api.clock.advance(10)

    again = (await actors.begin(**named)).document

    assert (again["job_id"], again["job_hash"]) == (held["id"], held["job_hash"])
    assert again["target"] == {"key": "doc:1", "version": "v1"}
    assert again["grant"] == {"id": grant, "task": "refund", "use": 1}
    assert (again["fence"], again["error"]) == (2, "no route")
    assert (again["first_begun_at"], again["begun_at"]) == (first["begun_at"], "2030-01-01T00:00:10Z")
    assert again["downstream_key"] == first["downstream_key"]


async def test_an_effect_tried_again_keeps_its_place_in_the_list(actors: Actors) -> None:
    await actors.begin("a")
    await actors.begin("b")
    await actors.fail("a", safe=True)
    await actors.begin("a")
    assert [item["action_id"] for item in (await actors.api.get("effects"))["items"]] == ["b", "a"]
